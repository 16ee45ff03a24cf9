//! The metrics as arithmetic on pairs of figures, one pair per element.

/// What the two profiles say about one element.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pair {
    pub exact: f64,
    pub sampled: f64,
}

/// Pairs up figures by common number; 0 where one is missing. Repeated numbers add.
pub(super) fn pair(exact: &[(usize, f64)], sampled: &[(usize, f64)]) -> Vec<Pair> {
    let n = exact.iter().chain(sampled).map(|&(index, _)| index + 1).max().unwrap_or(0);
    let mut pairs = vec![Pair::default(); n];
    exact.iter().for_each(|&(index, figure)| pairs[index].exact += figure);
    sampled.iter().for_each(|&(index, figure)| pairs[index].sampled += figure);
    pairs
}

/// Sum of the smaller of the two shares; nothing if there is nothing to judge by.
pub(super) fn overlap(pairs: &[Pair]) -> Option<f64> {
    let (exact, sampled) = totals(pairs);
    let common = || pairs.iter().map(|pair| (pair.exact / exact).min(pair.sampled / sampled)).sum();
    (0.0 < exact).then(|| if 0.0 < sampled { common() } else { 0.0 })
}

/// Sampled over exact total. Two empty profiles agree.
pub(super) fn scale(pairs: &[Pair]) -> f64 {
    let (exact, sampled) = totals(pairs);
    if exact == sampled { 1.0 } else { sampled / exact }
}

/// Sum of absolute differences over the sum of exact figures, the sampled ones scaled to the same
/// total. Nothing sampled is all wrong.
pub(super) fn element_wise_error(pairs: &[Pair]) -> f64 {
    let (exact, sampled) = totals(pairs);
    if exact <= 0.0 {
        return 0.0;
    }
    let factor = if 0.0 < sampled { exact / sampled } else { 0.0 };
    pairs.iter().map(|pair| (pair.sampled * factor - pair.exact).abs()).sum::<f64>() / exact
}

/// Fraction of the true top `hot_share` of elements (rounded up, of those that happened) missing in
/// the estimated top of the same size.
pub(super) fn hot_error(pairs: &[Pair], hot_share: f64) -> f64 {
    let happened = pairs.iter().filter(|pair| 0.0 < pair.exact).count();
    let n_hot = (happened as f64 * hot_share).ceil() as usize;
    if n_hot == 0 {
        return 0.0;
    }
    let truly_hot = top(pairs, n_hot, |pair| pair.exact);
    let mut is_found = vec![false; pairs.len()];
    top(pairs, n_hot, |pair| pair.sampled).into_iter().for_each(|index| is_found[index] = true);
    let missed = truly_hot.iter().filter(|&&index| !is_found[index]).count();
    missed as f64 / n_hot as f64
}

/// Wall's weight matching: the exact weight of hot elements among the top estimated ones, over that
/// of all hot elements. Nothing if there is nothing to judge by.
pub(super) fn wall_weight(pairs: &[Pair], hot_share: f64) -> Option<f64> {
    let total = totals(pairs).0;
    if total <= 0.0 {
        return None;
    }
    let threshold = total * hot_share;
    let hot: Vec<usize> = (0..pairs.len()).filter(|&index| threshold < pairs[index].exact).collect();
    let hot_weight: f64 = hot.iter().map(|&index| pairs[index].exact).sum();
    if hot.is_empty() {
        return Some(1.0);
    }
    let guessed = top(pairs, hot.len(), |pair| pair.sampled);
    let found = guessed.iter().map(|&index| pairs[index].exact).filter(|&weight| threshold < weight);
    // The sum of nothing is -0.
    Some(found.sum::<f64>() / hot_weight + 0.0)
}

fn totals(pairs: &[Pair]) -> (f64, f64) {
    pairs.iter().fold((0.0, 0.0), |(exact, sampled), pair| (exact + pair.exact, sampled + pair.sampled))
}

/// The `n` elements with the largest figure, fewer if fewer are above 0; among equals the first.
fn top(pairs: &[Pair], n: usize, figure: impl Fn(&Pair) -> f64) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..pairs.len()).filter(|&index| 0.0 < figure(&pairs[index])).collect();
    indices.sort_by(|&a, &b| figure(&pairs[b]).total_cmp(&figure(&pairs[a])));
    indices.truncate(n);
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(figures: &[(f64, f64)]) -> Vec<Pair> {
        figures.iter().map(|&(exact, sampled)| Pair { exact, sampled }).collect()
    }

    #[test]
    fn missing_figures_are_zero_and_repeated_ones_add() {
        let expected = pairs(&[(5.0, 0.0), (0.0, 0.0), (3.0, 7.0)]);
        assert_eq!(pair(&[(2, 3.0), (0, 4.0), (0, 1.0)], &[(2, 7.0)]), expected);
    }

    #[test]
    fn overlap_takes_the_smaller_share() {
        // Shares 1/2, 1/4, 1/4, 0 against 1/4, 1/4, 0, 1/2.
        let half = pairs(&[(50.0, 1.0), (25.0, 1.0), (25.0, 0.0), (0.0, 2.0)]);
        assert_eq!(overlap(&half), Some(0.5));
        assert_eq!(overlap(&pairs(&[(3.0, 300.0), (1.0, 100.0)])), Some(1.0));
        assert_eq!(overlap(&pairs(&[(1.0, 0.0)])), Some(0.0));
        assert_eq!((overlap(&[]), overlap(&pairs(&[(0.0, 1.0)]))), (None, None));
    }

    #[test]
    fn errors_are_relative_to_the_exact_total() {
        // Scaled by 100 / 10: 60, 40, 0 against 50, 30, 20.
        let figures = pairs(&[(50.0, 6.0), (30.0, 4.0), (20.0, 0.0)]);
        assert_eq!(element_wise_error(&figures), (10.0 + 10.0 + 20.0) / 100.0);
        assert_eq!(element_wise_error(&pairs(&[(4.0, 0.0)])), 1.0);
        assert_eq!(element_wise_error(&pairs(&[(4.0, 0.0), (0.0, 1.0)])), 2.0);
    }

    #[test]
    fn hot_elements_are_the_top_by_number() {
        // 20 elements happened, so that the top 15 % are 3: those of 20, 19 and 18. The estimate
        // has 20, 18 and 1 on top.
        let mut figures: Vec<(f64, f64)> = (1..=20).map(|n| (f64::from(n), f64::from(n))).collect();
        figures[18].1 = 0.5;
        figures[0].1 = 100.0;
        figures.push((0.0, 0.0));
        assert_eq!(hot_error(&pairs(&figures), 0.15), 1.0 / 3.0);
        assert_eq!(hot_error(&[], 0.15), 0.0);
        assert_eq!(hot_error(&pairs(&[(1.0, 0.0)]), 0.15), 1.0);
    }

    #[test]
    fn wall_weights_what_both_call_hot() {
        // Total 1000, hot above 100: 500, 300, 150. The estimate's top three are 500, 50 and 150.
        let figures = pairs(&[(500.0, 9.0), (300.0, 1.0), (150.0, 5.0), (50.0, 7.0)]);
        assert_eq!(wall_weight(&figures, 0.1), Some(650.0 / 950.0));
        assert_eq!(wall_weight(&pairs(&[(0.0, 3.0)]), 0.1), None);
        // A path that was not sampled is not guessed.
        assert_eq!(wall_weight(&pairs(&[(500.0, 0.0), (500.0, 1.0)]), 0.1), Some(0.5));
    }
}
