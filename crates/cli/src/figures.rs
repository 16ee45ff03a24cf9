//! Estimates for people and for programs.
//!
//! For people: three significant digits, then half the width of the 95 % interval in the same unit
//! and to the same digit, rounded up, so that an error never looks smaller than it is. Exact
//! numbers have no error to show, and counts that are exact are shown in full.

use profile::Estimate;
use serde::Serialize;

use crate::numbers::thousands;

/// An estimate in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    pub value: f64,
    /// Half the width of the 95 % interval.
    pub margin: f64,
    /// Events that were seen for it.
    pub seen: u64,
}

impl From<Estimate> for Figure {
    fn from(estimate: Estimate) -> Figure {
        Figure { value: estimate.value, margin: estimate.margin(), seen: estimate.seen }
    }
}

impl Figure {
    /// `1.61 s ±0.10`, of nanoseconds.
    pub fn time(self) -> String {
        if self.value == 0.0 && self.margin == 0.0 {
            return "0".to_owned();
        }
        let (unit_ns, unit) = match self.value {
            value if value < 999.5 => (1.0, "ns"),
            value if value < 999.5e3 => (1e3, "µs"),
            value if value < 999.5e6 => (1e6, "ms"),
            _ => (1e9, "s"),
        };
        self.in_unit(unit_ns, &format!(" {unit}"))
    }

    /// `12.3M ±0.4M`; `12,345,678` if it is exact.
    pub fn count(self) -> String {
        if self.is_exact_count() {
            return thousands(self.value as u64);
        }
        let (unit, suffix) = match self.value {
            value if value < 9_999.5 => return self.small_count(),
            value if value < 999.5e3 => (1e3, "k"),
            value if value < 999.5e6 => (1e6, "M"),
            value if value < 999.5e9 => (1e9, "G"),
            _ => (1e12, "T"),
        };
        let is_exact = self.margin <= 0.0;
        self.in_unit(unit, suffix) + if is_exact { "" } else { suffix }
    }

    /// A count, or `-` where nothing was seen: that is not the same as never.
    pub fn count_if_seen(self) -> String {
        if self.seen == 0 && self.value == 0.0 { "-".to_owned() } else { self.count() }
    }

    /// How often a function was entered, in words.
    pub fn entered(self) -> String {
        match self.count_if_seen().as_str() {
            "-" => "no entry was seen".to_owned(),
            count => format!("entered {count} times"),
        }
    }

    /// `32.1 % ±2.0`, of a share.
    pub fn percent(self) -> String {
        let (value, margin) = (100.0 * self.value, 100.0 * self.margin);
        format!("{value:.1} %{}", with_margin(margin, 1))
    }

    /// `32 %` without the error.
    pub fn bare_percent(self) -> String {
        bare_percent(self.value)
    }

    fn is_exact_count(self) -> bool {
        const ALL_DIGITS: f64 = (1u64 << 53) as f64;
        self.margin <= 0.0 && self.value.fract() == 0.0 && (0.0..ALL_DIGITS).contains(&self.value)
    }

    fn small_count(self) -> String {
        let decimals = if self.value < 10.0 && self.value.fract() != 0.0 { 1 } else { 0 };
        format!("{:.decimals$}{}", self.value, with_margin(self.margin, decimals))
    }

    fn in_unit(self, unit: f64, name: &str) -> String {
        let (value, margin) = (self.value / unit, self.margin / unit);
        let decimals = decimals(value);
        format!("{value:.decimals$}{name}{}", with_margin(margin, decimals))
    }
}

/// A share without an error: `32 %`, `0.4 %`.
pub fn bare_percent(share: f64) -> String {
    let percent = 100.0 * share;
    let decimals = if percent < 9.95 && percent.fract() != 0.0 { 1 } else { 0 };
    format!("{percent:.decimals$} %")
}

/// `12.3 % ±0.5`.
pub fn share(share: Estimate) -> String {
    Figure::from(share).percent()
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

/// `1.50 GiB`.
pub fn bytes(bytes: u64) -> String {
    let bytes = bytes as f64;
    let (unit, name) = match bytes {
        bytes if bytes < 1023.5 => return format!("{bytes} B"),
        bytes if bytes < 1023.5 * 1024.0 => (1024.0, "KiB"),
        bytes if bytes < 1023.5 * 1_048_576.0 => (1_048_576.0, "MiB"),
        _ => (1_073_741_824.0, "GiB"),
    };
    let value = bytes / unit;
    format!("{value:.*} {name}", decimals(value))
}

/// Digits behind the point of a number that shall have three in all.
fn decimals(value: f64) -> usize {
    match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    }
}

fn with_margin(margin: f64, decimals: usize) -> String {
    if margin <= 0.0 {
        return String::new();
    }
    let step = 10f64.powi(decimals as i32);
    // A margin that needs no rounding shall not be lifted by the error of the product.
    let rounded_up = (margin * step - 1e-9).ceil().max(1.0) / step;
    format!(" ±{rounded_up:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: f64, margin: f64) -> Figure {
        Figure { value, margin, seen: 1 }
    }

    #[test]
    fn three_digits_and_an_error_rounded_up() {
        assert_eq!(figure(1.614e9, 0.1e9).time(), "1.61 s ±0.10");
        assert_eq!(figure(12.34e6, 0.001e6).time(), "12.3 ms ±0.1");
        assert_eq!(figure(123.4, 20.1).time(), "123 ns ±21");
        assert_eq!(figure(1_234_567.0, 0.0).count(), "1,234,567");
        assert_eq!(figure(1_234_567.5, 0.0).count(), "1.23M");
        assert_eq!(figure(1_234_567.0, 95_000.0).count(), "1.23M ±0.10M");
        assert_eq!(figure(0.0, 0.0).time(), "0");
        assert_eq!(figure(17.0, 3.2).count(), "17 ±4");
        assert_eq!(figure(2.5, 0.25).count(), "2.5 ±0.3");
        assert_eq!(figure(0.321, 0.0201).percent(), "32.1 % ±2.1");
    }

    #[test]
    fn units_change_where_rounding_does() {
        assert_eq!(figure(999_499.0, 0.0).time(), "999 µs");
        assert_eq!(figure(999_500.0, 0.0).time(), "1.00 ms");
        assert_eq!(figure(9_999.0, 0.1).count(), "9999 ±1");
        assert_eq!(figure(9_999.9, 0.0).count(), "10.0k");
        let sizes = [0, 1023, 1024, 1_048_575, 1_048_576, 3 << 29].map(bytes);
        assert_eq!(sizes, ["0 B", "1023 B", "1.00 KiB", "1.00 MiB", "1.00 MiB", "1.50 GiB"]);
        assert_eq!(bare_percent(1.0), "100 %");
        assert_eq!(bare_percent(0.0042), "0.4 %");
    }
}
