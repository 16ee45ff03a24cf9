//! How far the ticks of a function are to be believed, and how far a model of it.
//!
//! The ticks in a function are draws from its blocks in proportion to the time that these take. A
//! model (instructions executed) says what the proportions should be. It is right about most code,
//! and wrong about code that waits for memory, divides or mispredicts. So the true proportions are
//! taken to be Dirichlet-distributed around the model's with a *precision* that nobody knows
//! beforehand: the number of ticks that the model is worth. Each function has its own. How
//! precisions are distributed over the functions of a program is found from all of them together
//! (empirical Bayes, by expectation maximization over a grid), and then what the precision of one
//! function can be, given its own ticks.
//!
//! A function whose ticks contradict the model so gets what the ticks say; one with few ticks gets
//! about what the model says, with an error that is as wide as models are found to be off in this
//! program.

/// Precisions that are considered.
const GRID: [f64; 7] = [0.25, 1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];

/// Rounds after which the distribution of precisions no longer moves noticeably.
const N_ROUNDS: usize = 30;

/// What is known of the parts of a function: the ticks in each, and its share by the model. Shares
/// are positive and add up to 1.
pub(super) type Parts = Vec<(f64, f64)>;

/// How probable each precision of the grid is for one function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Precision {
    weights: [f64; GRID.len()],
    n_ticks: f64,
}

/// A share with its variance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Share {
    pub value: f64,
    pub variance: f64,
}

impl Precision {
    /// The precisions of some functions.
    pub fn fit(functions: &[Parts]) -> Vec<Precision> {
        let likelihoods: Vec<[f64; GRID.len()]> = functions.iter().map(likelihood).collect();
        let mut prior = [1.0 / GRID.len() as f64; GRID.len()];
        for _ in 0..N_ROUNDS {
            // One function of unknown precision keeps every value possible.
            let mut sums = [1.0 / GRID.len() as f64; GRID.len()];
            for likelihood in &likelihoods {
                let posterior = posterior(&prior, likelihood);
                sums.iter_mut().zip(posterior).for_each(|(sum, weight)| *sum += weight);
            }
            prior = normalized(sums);
        }
        let with_ticks = functions.iter().zip(&likelihoods);
        let precision = |(parts, likelihood): (&Parts, &[f64; GRID.len()])| Precision {
            weights: posterior(&prior, likelihood),
            n_ticks: parts.iter().map(|&(n, _)| n).sum(),
        };
        with_ticks.map(precision).collect()
    }

    /// The share of a part of the function that has these ticks and this share by the model.
    pub fn share(&self, n_ticks: f64, model: f64) -> Share {
        let (n_ticks, model) = (n_ticks.clamp(0.0, self.n_ticks), model.clamp(0.0, 1.0));
        let each = GRID.iter().zip(self.weights).map(|(&precision, weight)| {
            let worth = self.n_ticks + precision;
            let value = (n_ticks + precision * model) / worth;
            (weight, value, value * (1.0 - value) / (worth + 1.0))
        });
        let value: f64 = each.clone().map(|(weight, value, _)| weight * value).sum();
        let spread = each.map(|(weight, one, variance)| weight * (variance + (one - value) * (one - value)));
        Share { value, variance: spread.sum() }
    }

    /// Ticks in the function.
    pub fn n_ticks(&self) -> f64 {
        self.n_ticks
    }

    /// The part that ticks have in shares; the model has the rest.
    pub fn weight_of_ticks(&self) -> f64 {
        let of_one = |(&precision, weight): (&f64, f64)| weight * self.n_ticks / (self.n_ticks + precision);
        GRID.iter().zip(self.weights).map(of_one).sum()
    }
}

/// Logarithms of how likely the ticks are for each precision, up to a constant
/// (Dirichlet-multinomial).
fn likelihood(parts: &Parts) -> [f64; GRID.len()] {
    let n: f64 = parts.iter().map(|&(n, _)| n).sum();
    GRID.map(|precision| {
        let of_part = |&(n, model): &(f64, f64)| match n > 0.0 {
            true => ln_gamma(n + precision * model) - ln_gamma(precision * model),
            false => 0.0,
        };
        ln_gamma(precision) - ln_gamma(n + precision) + parts.iter().map(of_part).sum::<f64>()
    })
}

fn posterior(prior: &[f64; GRID.len()], likelihood: &[f64; GRID.len()]) -> [f64; GRID.len()] {
    let most = likelihood.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut weights = *prior;
    weights.iter_mut().zip(likelihood).for_each(|(weight, log)| *weight *= (log - most).exp());
    normalized(weights)
}

fn normalized(weights: [f64; GRID.len()]) -> [f64; GRID.len()] {
    let sum: f64 = weights.iter().sum();
    weights.map(|weight| weight / sum)
}

/// The logarithm of the gamma function of a positive number: Stirling's series, where that is good
/// to ten digits.
fn ln_gamma(x: f64) -> f64 {
    const LARGE: f64 = 10.0;
    let (mut x, mut below) = (x.max(f64::MIN_POSITIVE), 1.0);
    while x < LARGE {
        below *= x;
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - below.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_of_whole_and_half_numbers() {
        for (x, gamma) in [(1.0, 1.0), (2.0, 1.0), (5.0, 24.0), (11.0, 3_628_800.0), (0.5, std::f64::consts::PI.sqrt())]
        {
            assert!((ln_gamma(x) - f64::ln(gamma)).abs() < 1e-9, "{x}");
        }
    }

    #[test]
    fn ticks_that_contradict_the_model_are_believed() {
        let functions = vec![vec![(70.0, 0.02), (30.0, 0.98)]];
        let slow = Precision::fit(&functions)[0].share(70.0, 0.02);
        assert!((slow.value - 0.7).abs() < 0.03, "{slow:?}");
        assert!(slow.variance.sqrt() < 0.08, "{slow:?}");
    }

    #[test]
    fn few_ticks_go_with_the_model_where_models_are_right() {
        let right = vec![(50.0, 0.5), (30.0, 0.3), (20.0, 0.2)];
        let mut functions = vec![right; 20];
        functions.push(vec![(1.0, 0.5), (0.0, 0.3), (0.0, 0.2)]);
        let share = Precision::fit(&functions)[20].share(1.0, 0.5);
        assert!((share.value - 0.5).abs() < 0.05, "{share:?}");
        let wrong = vec![(5.0, 0.5), (5.0, 0.3), (90.0, 0.2)];
        let mut functions = vec![wrong; 20];
        functions.push(vec![(1.0, 0.5), (0.0, 0.3), (0.0, 0.2)]);
        let share = Precision::fit(&functions)[20].share(1.0, 0.5);
        assert!(share.value > 0.6 && share.variance.sqrt() > 0.15, "{share:?}");
    }

    #[test]
    fn shares_add_up() {
        let parts = vec![(3.0, 0.1), (0.0, 0.4), (9.5, 0.5)];
        let precision = Precision::fit(std::slice::from_ref(&parts))[0];
        let sum: f64 = parts.iter().map(|&(n, model)| precision.share(n, model).value).sum();
        assert!((sum - 1.0).abs() < 1e-12);
        assert!((0.0..1.0).contains(&precision.weight_of_ticks()));
    }
}
