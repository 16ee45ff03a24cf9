//! Intervals of a statistic by drawing its values anew.

const N_DRAWS: usize = 2000;

/// The middle 95 % of `statistic` when as many of `values` are drawn anew, with a fixed seed.
#[must_use]
pub fn interval(values: &[f64], statistic: impl Fn(&[f64]) -> f64) -> (f64, f64) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    let mut drawn: Vec<f64> = (0..N_DRAWS)
        .map(|_| statistic(&values.iter().map(|_| values[next() % values.len()]).collect::<Vec<f64>>()))
        .collect();
    drawn.sort_by(f64::total_cmp);
    (drawn[N_DRAWS / 40], drawn[N_DRAWS - 1 - N_DRAWS / 40])
}

/// Arithmetic mean; 0 of nothing.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_equal_values_is_a_point() {
        assert_eq!(interval(&[2.0; 9], mean), (2.0, 2.0));
    }

    #[test]
    fn the_interval_surrounds_the_mean() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let (low, high) = interval(&values, mean);
        assert!(40.0 < low && low < mean(&values) && mean(&values) < high && high < 60.0, "{low} {high}");
    }
}
