//! From estimates to whole numbers, without losing what is small and without changing totals.

/// Largest number written: what the signed 64-bit fields of pprof can hold.
const MAX: u64 = i64::MAX as u64;

/// The nearest whole number, but at least 1 for everything above 0; 0 for what is not a number or
/// negative.
pub(crate) fn whole(value: f64) -> u64 {
    if value > 0.0 { (value.round().max(1.0) as u64).min(MAX) } else { 0 }
}

/// Divides a total by weights. Shares add up to the total and differ from the exact ones by less
/// than 1 plus the error of `f64`. If no weight is above 0, everything goes to the first share.
pub(crate) fn apportion(total: u64, weights: &[f64]) -> Vec<u64> {
    let usable = |weight: f64| if weight.is_finite() { weight.max(0.0) } else { 0.0 };
    let sum: f64 = weights.iter().copied().map(usable).sum();
    let mut shares = vec![0; weights.len()];
    let Some(last) = weights.iter().rposition(|&weight| usable(weight) > 0.0).filter(|_| sum.is_finite()) else {
        if let Some(first) = shares.first_mut() {
            *first = total;
        }
        return shares;
    };
    let (mut given, mut weight_so_far) = (0, 0.0);
    for (index, &weight) in weights.iter().enumerate().take(last + 1) {
        weight_so_far += usable(weight);
        let due = (total as f64 * (weight_so_far / sum)).round() as u64;
        let due = if index == last { total } else { due.clamp(given, total) };
        shares[index] = due - given;
        given = due;
    }
    shares
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_above_zero_is_lost() {
        assert_eq!([0.0, -3.0, f64::NAN, 1e-9, 0.4, 1.5, 2.4].map(whole), [0, 0, 0, 1, 1, 2, 2]);
        assert_eq!(whole(f64::INFINITY), MAX);
    }

    #[test]
    fn without_weights_the_first_gets_all() {
        assert_eq!(apportion(7, &[0.0, f64::NAN]), [7, 0]);
        assert!(apportion(7, &[]).is_empty());
    }

    proptest! {
        #[test]
        fn shares_add_up(total in 0..u64::MAX, weights in prop::collection::vec(0.0..1e12_f64, 1..20)) {
            let shares = apportion(total, &weights);
            prop_assert_eq!(shares.iter().sum::<u64>(), total);
        }

        #[test]
        fn shares_are_fair(total in 0..1_u64 << 40, weights in prop::collection::vec(1.0..1e6_f64, 1..20)) {
            let sum: f64 = weights.iter().sum();
            for (share, weight) in apportion(total, &weights).iter().zip(&weights) {
                prop_assert!((*share as f64 - total as f64 * weight / sum).abs() < 1.01);
            }
        }
    }
}
