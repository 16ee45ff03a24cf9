//! What options have as values: times, shares, rates, expressions.

use std::time::Duration;

use recorder::Sampling;
use sampling::selector::Selector;
use wire::control::Policy;

/// Two thousand strata, in each of which every 251st event is sent: a prime number, so that it does
/// not keep step with loops (`docs/lab/sampling.md`).
pub const DEFAULT_COMPRESSOR: &str = "H[P251]2048";

/// Parses a percentage, with or without the sign.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.trim().parse::<f64>() {
        Ok(percent) if (0.01..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("give a percentage from 0.01 to 100".to_owned()),
    }
}

/// Parses ticks per second.
pub fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hz) if (0.1..=10_000.0).contains(&hz) => Ok(hz),
        _ => Err("give ticks per second of CPU time, from 0.1 to 10000".to_owned()),
    }
}

/// Parses samples per tick and stride.
pub fn pep(text: &str) -> Result<Sampling, String> {
    const HELP: &str = "give samples per tick and stride, as in 64,17 or 64,17,simplified; 0,1 samples nothing";
    let parts: Vec<&str> = text.split(',').collect();
    let (numbers, policy) = match parts[..] {
        [samples, stride] | [samples, stride, "full"] => ([samples, stride], Policy::Full),
        [samples, stride, "simplified"] => ([samples, stride], Policy::Simplified),
        _ => return Err(HELP.to_owned()),
    };
    match numbers.map(|number| number.trim().parse::<u32>()) {
        [Ok(samples @ 0..=1_000_000), Ok(stride @ 1..=10_000)] => Ok(Sampling { samples, stride, policy }),
        _ => Err(HELP.to_owned()),
    }
}

/// What starts and ends bursts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Ticks of CPU time.
    Timer,
    /// A count of checks.
    Count {
        /// Checks between two bursts.
        n_check: u32,
        /// Checks of a burst.
        n_instr: u32,
    },
}

/// One check in a hundred is in a burst; both are prime numbers, so that bursts do not keep step
/// with loops.
const DEFAULT_COUNT: Trigger = Trigger::Count { n_check: 99_991, n_instr: 1009 };

/// Parses what starts and ends bursts.
pub fn trigger(text: &str) -> Result<Trigger, String> {
    const HELP: &str = "give timer, count, or count:CHECKS:BURST as in count:1000:50; CHECKS may be infinity";
    let number = |text: &str| text.parse::<u32>().ok().filter(|&number| number != 0);
    match text.split(':').collect::<Vec<_>>()[..] {
        ["timer"] => Ok(Trigger::Timer),
        ["count"] => Ok(DEFAULT_COUNT),
        ["count", n_check, n_instr] => {
            let n_check = if n_check == "infinity" { Some(u32::MAX) } else { number(n_check) };
            let counts = n_check.zip(number(n_instr));
            counts.map(|(n_check, n_instr)| Trigger::Count { n_check, n_instr }).ok_or_else(|| HELP.to_owned())
        }
        _ => Err(HELP.to_owned()),
    }
}

/// Parses an expression that selects instructions.
pub fn selector(text: &str) -> Result<Selector, String> {
    text.parse().map_err(|error: sampling::ParseError| error.to_string())
}

/// Parses an expression of compressors; `none` is the empty one.
pub fn compressor(text: &str) -> Result<String, String> {
    const BYTES_PER_ENTRY: u64 = 320;
    const OTHER_BYTES: u64 = 64 << 10;
    if text == "none" {
        return Ok(String::new());
    }
    let expression: sampling::Expression = text.parse().map_err(|error: sampling::ParseError| error.to_string())?;
    let printed = expression.to_string();
    if printed.len() > wire::events::MAX_EXPRESSION {
        return Err(format!("longer than {} characters", wire::events::MAX_EXPRESSION));
    }
    let n_bytes = expression.n_entries().saturating_mul(BYTES_PER_ENTRY).saturating_add(OTHER_BYTES);
    if n_bytes > u64::from(wire::events::COMPRESSOR_BYTES) {
        return Err(format!(
            "{} entries; a compressor in a program can have some twenty thousand",
            expression.n_entries()
        ));
    }
    Ok(printed)
}

/// Parses a number of bytes such as `500M`.
pub fn size(text: &str) -> Result<u64, String> {
    recorder::cache::size(text).ok_or_else(|| recorder::cache::SIZE_HELP.to_owned())
}

/// Parses a time such as `1.5s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit {unit:?}; give for example 500ms, 10s, 2m, 1h")),
    };
    match number.trim().parse::<f64>() {
        Ok(number) if (0.0..1e9).contains(&number) => Ok(Duration::from_secs_f64(number * factor)),
        _ => Err("give a time such as 500ms, 10s, 2m, 1h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "x", "5y", "-1s", "1e99"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn compressors() {
        assert_eq!(compressor("none"), Ok(String::new()));
        assert_eq!(compressor(DEFAULT_COMPRESSOR), Ok(DEFAULT_COMPRESSOR.to_owned()));
        for bad in ["", "H[P0]2", "H[P256", "A1000000", "H[A1000]1000"] {
            assert!(compressor(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn samples_and_strides() {
        let sampling = |samples, stride, policy| Ok(Sampling { samples, stride, policy });
        assert_eq!(pep("64,17"), sampling(64, 17, Policy::Full));
        assert_eq!(pep("64,17,simplified"), sampling(64, 17, Policy::Simplified));
        assert_eq!(pep("0,1"), sampling(0, 1, Policy::Full));
        for bad in ["", "64", "64,0", "64,17,both", "-1,1", "64,17,"] {
            assert!(pep(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn triggers() {
        assert_eq!(trigger("timer"), Ok(Trigger::Timer));
        assert_eq!(trigger("count"), Ok(DEFAULT_COUNT));
        assert_eq!(trigger("count:20:1"), Ok(Trigger::Count { n_check: 20, n_instr: 1 }));
        assert_eq!(trigger("count:infinity:1"), Ok(Trigger::Count { n_check: u32::MAX, n_instr: 1 }));
        for bad in ["", "count:", "count:1", "count:0:1", "count:1:0", "count:1:2:3", "count:-1:2", "tick"] {
            assert!(trigger(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn percentages() {
        assert_eq!(percent("1"), Ok(0.01));
        assert_eq!(percent("0.2%"), Ok(0.002));
        for bad in ["0", "101", "%", "one"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}
