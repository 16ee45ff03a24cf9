//! Quotients of estimates, with their errors to first order (the delta method).

use crate::estimate::Estimate;

/// The share of a part in a whole that contains it; 0 of nothing.
///
/// With `s = p / (p + r)` and independent `p` and `r`:
/// `Var s = ((1 - s)^2 Var p + s^2 Var r) / (p + r)^2`. A whole that is known better than its part
/// was measured in another way: `Var s = Var p / (p + r)^2`.
#[must_use]
pub fn share(part: Estimate, whole: Estimate) -> Estimate {
    if whole.value <= 0.0 {
        return Estimate { seen: part.seen, ..Estimate::default() };
    }
    let value = part.value / whole.value;
    let variance = if whole.variance < part.variance {
        part.variance + value.powi(2) * whole.variance
    } else {
        (1.0 - value).powi(2) * part.variance + value.powi(2) * (whole.variance - part.variance)
    };
    Estimate { value, variance: variance / whole.value.powi(2), seen: part.seen }
}

/// The quotient of two estimates taken as independent; nothing if the divisor is 0.
///
/// With `q = a / b`: `Var q = (Var a + q^2 Var b) / b^2`.
#[must_use]
pub fn ratio(dividend: Estimate, divisor: Estimate) -> Option<Estimate> {
    if divisor.value <= 0.0 {
        return None;
    }
    let value = dividend.value / divisor.value;
    let variance = (dividend.variance + value.powi(2) * divisor.variance) / divisor.value.powi(2);
    Some(Estimate { value, variance, seen: dividend.seen.min(divisor.seen) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, variance: f64) -> Estimate {
        Estimate { value, variance, seen: 1 }
    }

    #[test]
    fn a_share_has_the_error_of_part_and_rest() {
        let quarter = share(estimate(25.0, 4.0), estimate(100.0, 20.0));
        assert_eq!(quarter.value, 0.25);
        assert_eq!(quarter.variance, (0.75 * 0.75 * 4.0 + 0.25 * 0.25 * 16.0) / 1e4);
    }

    #[test]
    fn the_whole_is_surely_all() {
        let all = share(estimate(100.0, 20.0), estimate(100.0, 20.0));
        assert_eq!((all.value, all.variance), (1.0, 0.0));
        assert_eq!(share(estimate(0.0, 0.0), estimate(0.0, 0.0)).value, 0.0);
    }

    #[test]
    fn a_whole_that_was_measured_adds_no_error() {
        let half = share(estimate(50.0, 9.0), estimate(100.0, 0.0));
        assert_eq!((half.value, half.error()), (0.5, 0.03));
    }

    #[test]
    fn relative_errors_of_a_ratio_add() {
        let four = ratio(estimate(20.0, 4.0), estimate(5.0, 0.25)).unwrap();
        assert_eq!(four.value, 4.0);
        assert_eq!(four.variance, 16.0 * (4.0 / 400.0 + 0.25 / 25.0));
        assert_eq!(ratio(estimate(1.0, 0.0), estimate(0.0, 0.0)), None);
    }
}
