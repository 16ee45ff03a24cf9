//! What spot counts say of the time model.
//!
//! Each phase `p` of a program has counts that are off by a factor, whose logarithm `x_p` is not
//! known: the time model took its code for faster or slower than it is. A spot `b`, whose true
//! count is measured, has the share `s_bp` of its estimated count from phase `p`. Then
//!
//! ```text
//! y_b = ln(measured / estimated)  =  sum over p of s_bp x_p  +  noise of variance v_b
//! ```
//!
//! Before anything is measured, `x_p` is normal with mean 0: a common part that says how fast the
//! machine and its memory are, about which little is assumed, and a part of each phase that is as
//! large as the model says. What it is afterwards follows from one spot after the other (Kalman
//! 1960). A block can be off for a reason of its own, like a phase that bursts have seen too
//! rarely, so what lies far from the rest counts less: the noise is taken to be distributed as
//! Student's t is, by weighting again (Lange, Little and Taylor 1989).

/// Standard deviation of what all phases have in common.
const COMMON: f64 = 0.6;
/// Variance of what a block can be off by for reasons of its own.
const OF_BLOCK: f64 = 0.02;
/// Degrees of freedom of the noise.
const FREEDOM: f64 = 4.0;
const N_ROUNDS: usize = 6;

/// A spot count beside its estimate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    /// Logarithm of the measured over the estimated count,
    pub log_ratio: f64,
    /// and its variance.
    pub variance: f64,
    /// Shares of the estimate by phase. They add up to 1.
    pub shares: Vec<(usize, f64)>,
}

/// Logarithms of what counts of phases are to be multiplied by.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fit {
    /// By phase.
    pub logs: Vec<f64>,
    /// By pair of phases.
    pub covariance: Vec<Vec<f64>>,
}

impl Fit {
    /// Nothing is measured, and phases err independently of each other.
    pub fn unmeasured(log_errors: &[f64]) -> Fit {
        let row = |p: usize| {
            let mut row = vec![0.0; log_errors.len()];
            row[p] = log_errors[p] * log_errors[p];
            row
        };
        Fit { logs: vec![0.0; log_errors.len()], covariance: (0..log_errors.len()).map(row).collect() }
    }

    /// See the module's header. The log errors are those of phases.
    pub fn of(log_errors: &[f64], comparisons: &[Comparison]) -> Fit {
        let mut weights = vec![1.0; comparisons.len()];
        let mut fit = Fit::unmeasured(log_errors);
        for _ in 0..N_ROUNDS {
            fit = Fit::unmeasured(log_errors);
            fit.covariance.iter_mut().flatten().for_each(|covariance| *covariance += COMMON * COMMON);
            for (comparison, weight) in comparisons.iter().zip(&weights) {
                fit.learn(comparison, (comparison.variance + OF_BLOCK) / weight);
            }
            for (comparison, weight) in comparisons.iter().zip(&mut weights) {
                let square = fit.residual(comparison).powi(2) / (comparison.variance + OF_BLOCK);
                *weight = (FREEDOM + 1.0) / (FREEDOM + square);
            }
        }
        fit
    }

    fn residual(&self, comparison: &Comparison) -> f64 {
        let expected: f64 = comparison.shares.iter().map(|&(phase, share)| share * self.logs[phase]).sum();
        comparison.log_ratio - expected
    }

    fn learn(&mut self, comparison: &Comparison, noise: f64) {
        let times_shares = |row: &Vec<f64>| comparison.shares.iter().map(|&(phase, share)| share * row[phase]).sum();
        let along: Vec<f64> = self.covariance.iter().map(times_shares).collect();
        let expected: f64 = comparison.shares.iter().map(|&(phase, share)| share * along[phase]).sum();
        let residual = self.residual(comparison);
        let total = expected + noise;
        for (log, along) in self.logs.iter_mut().zip(&along) {
            *log += along / total * residual;
        }
        for (row, of_row) in self.covariance.iter_mut().zip(&along) {
            for (covariance, of_column) in row.iter_mut().zip(&along) {
                *covariance -= of_row * of_column / total;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(ratio: f64, shares: &[(usize, f64)]) -> Comparison {
        Comparison { log_ratio: ratio.ln(), variance: 0.01, shares: shares.to_vec() }
    }

    #[test]
    fn one_spot_tells_the_common_factor() {
        let fit = Fit::of(&[0.25, 0.25], &[comparison(3.0, &[(0, 1.0)])]);
        assert!((fit.logs[0].exp() - 2.8).abs() < 0.15, "{fit:?}");
        assert!((fit.logs[1].exp() - 2.5).abs() < 0.3, "{fit:?}");
        assert!(fit.covariance[0][0].sqrt() < 0.2 && fit.covariance[1][1].sqrt() > 0.25, "{fit:?}");
        assert_eq!(fit.covariance[0][1], fit.covariance[1][0]);
    }

    #[test]
    fn phases_are_told_apart_by_spots_that_they_share() {
        let spots = [
            comparison(2.0, &[(0, 1.0)]),
            comparison(2.0, &[(0, 1.0)]),
            comparison(0.5, &[(1, 1.0)]),
            comparison(0.5, &[(1, 1.0)]),
            comparison(1.0, &[(0, 0.5), (1, 0.5)]),
        ];
        let fit = Fit::of(&[0.5, 0.5], &spots);
        assert!((fit.logs[0].exp() - 2.0).abs() < 0.2, "{fit:?}");
        assert!((fit.logs[1].exp() - 0.5).abs() < 0.05, "{fit:?}");
    }

    #[test]
    fn a_spot_that_contradicts_all_others_counts_little() {
        let mut spots = vec![comparison(1.5, &[(0, 1.0)]); 7];
        let without = Fit::of(&[0.25], &spots);
        spots.push(comparison(0.01, &[(0, 1.0)]));
        let with = Fit::of(&[0.25], &spots);
        assert!((without.logs[0] - 1.5_f64.ln()).abs() < 0.01, "{without:?}");
        assert!((with.logs[0] - without.logs[0]).abs() < 0.05, "{with:?}");
    }

    #[test]
    fn without_spots_the_common_factor_is_unknown() {
        assert!(Fit::of(&[0.25], &[]).covariance[0][0] > 0.4);
        assert_eq!(Fit::unmeasured(&[0.25]).covariance, [[0.0625]]);
    }
}
