//! Figures as all views print them, in the few forms that the tools need.

use profile::Estimate;

use crate::view::figures::{Figure, bare_percent};

/// `12.3 % ±0.5`.
pub fn share(share: Estimate) -> String {
    Figure::from(share).percent()
}

/// `12 %`.
pub fn percent(share: f64) -> String {
    bare_percent(share)
}

/// `+1.2 %`, in percentage points.
pub fn points(difference: f64) -> String {
    format!("{:+.1} %", 100.0 * difference)
}

/// `1.50 ms ±0.20`.
pub fn time(ns: Estimate) -> String {
    Figure::from(ns).time()
}

/// `1.50 ms`.
pub fn duration(ns: f64) -> String {
    time(Estimate { value: ns, ..Estimate::default() })
}

/// `12.3M ±0.4`.
pub fn estimated_count(count: Estimate) -> String {
    Figure::from(count).count_if_seen()
}

/// `12.3M`.
pub fn count(count: f64) -> String {
    Figure::from(Estimate::measured(count)).count()
}
