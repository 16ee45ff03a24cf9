//! What `--metric` of `record` names.

use attach::probe::HardwareCounter;
use emit::{Cache, Metric};

use crate::props::Hardware;

/// The cache of the papers that tell dense paths from sparse ones.
const DEFAULT_CACHE: &str = "16k:1:32";
/// Hardware counters by name.
pub const HARDWARE: [Hardware; 2] = [
    Hardware { name: "instructions", counter: HardwareCounter::Instructions },
    Hardware { name: "cache-misses", counter: HardwareCounter::CacheMisses },
];

/// A metric as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    Counted(Metric),
    Hardware(Vec<Hardware>),
}

impl Wanted {
    /// What copies count.
    pub fn counted(&self) -> Option<Metric> {
        match self {
            Wanted::Counted(metric) => Some(*metric),
            Wanted::Hardware(_) => None,
        }
    }

    pub fn hardware(self) -> Vec<Hardware> {
        match self {
            Wanted::Counted(_) => Vec::new(),
            Wanted::Hardware(counters) => counters,
        }
    }
}

/// `cycles`, `l1d`, `l1d:SIZE:WAYS:LINE`, or names of hardware counters with commas between them.
pub fn parse(text: &str) -> Result<Wanted, String> {
    if text == "cycles" {
        return Ok(Wanted::Counted(Metric::Cycles));
    }
    if let Some(shape) = text.strip_prefix("l1d") {
        let shape = if shape.is_empty() { Some(DEFAULT_CACHE) } else { shape.strip_prefix(':') };
        if let Some(shape) = shape {
            return parse_cache(shape).map(|cache| Wanted::Counted(Metric::Misses(cache)));
        }
    }
    let named = |name: &str| HARDWARE.into_iter().find(|each| each.name == name);
    let counters: Option<Vec<Hardware>> = text.split(',').map(named).collect();
    counters.map(Wanted::Hardware).ok_or_else(|| {
        "not a metric; there are cycles, l1d:SIZE:WAYS:LINE, and the hardware counters instructions and cache-misses"
            .to_owned()
    })
}

fn parse_cache(shape: &str) -> Result<Cache, String> {
    let [size, ways, line] = <[&str; 3]>::try_from(shape.split(':').collect::<Vec<_>>())
        .map_err(|_| "give a cache as l1d:SIZE:WAYS:LINE, for example l1d:16k:1:32".to_owned())?;
    let (n_bytes, line) = (parse_size("size", size)?, parse_size("line", line)?);
    let n_ways: u32 = ways.parse().map_err(|_| format!("{ways:?} is no number of ways"))?;
    if !line.is_power_of_two() || !(Cache::MIN_LINE..=Cache::MAX_LINE).contains(&line) {
        let (least, most) = (Cache::MIN_LINE, Cache::MAX_LINE);
        return Err(format!("a line of {line} bytes; it must be a power of two from {least} to {most}"));
    }
    if !(1..=Cache::MAX_WAYS).contains(&n_ways) {
        return Err(format!("{n_ways} ways; there can be 1 to {}", Cache::MAX_WAYS));
    }
    let set = u64::from(n_ways) * line;
    if !n_bytes.is_multiple_of(set) || !(n_bytes / set).is_power_of_two() {
        return Err(format!(
            "{n_bytes} bytes in sets of {n_ways} lines of {line} bytes make {:.2} sets; that must be a power of two",
            n_bytes as f64 / set as f64
        ));
    }
    Cache::new(n_bytes, n_ways, line).ok_or_else(|| {
        let most = Cache::MAX_LINES;
        format!("{} lines; strobe simulates at most {most}, with ways rounded up to a power of two", n_bytes / line)
    })
}

/// A number of bytes, with `k` or `m` behind it for more of them.
fn parse_size(what: &str, text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let (number, shift) = match lower.strip_suffix('k').or_else(|| lower.strip_suffix("kb")) {
        Some(number) => (number, 10),
        None => lower.strip_suffix('m').or_else(|| lower.strip_suffix("mb")).map_or((lower.as_str(), 0), |it| (it, 20)),
    };
    let bytes = number.parse::<u64>().ok().filter(|&number| 0 < number && number < 1 << 32);
    bytes
        .map(|number| number << shift)
        .ok_or_else(|| format!("{text:?} is no {what}; give bytes, for example 64 or 16k"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches() {
        let cache = |text: &str| match parse(text) {
            Ok(Wanted::Counted(Metric::Misses(cache))) => (cache.n_bytes(), cache.n_ways(), cache.line()),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(cache("l1d"), (16 << 10, 1, 32));
        assert_eq!(cache("l1d:32k:8:64"), (32 << 10, 8, 64));
        assert_eq!(cache("l1d:49152:12:64"), (48 << 10, 12, 64));
        assert_eq!(cache("l1d:1M:1:64"), (1 << 20, 1, 64));
    }

    #[test]
    fn errors_say_what_is_wrong_with_the_argument() {
        for (text, part) in [
            ("l1d:16k", "l1d:SIZE:WAYS:LINE"),
            ("l1d:16k:1:33", "a line of 33 bytes"),
            ("l1d:16k:1:8", "from 16 to 4096"),
            ("l1d:16k:0:32", "0 ways"),
            ("l1d:16k:17:32", "1 to 16"),
            ("l1d:24k:1:32", "768.00 sets"),
            ("l1d:10k:3:64", "53.33 sets"),
            ("l1d:x:1:32", "no size"),
            ("l1d:64m:1:32", "at most 131072"),
            ("l1d16", "not a metric"),
            ("time", "not a metric"),
            ("instructions,time", "not a metric"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn hardware_counters() {
        let wanted = parse("instructions,cache-misses").expect("names of counters");
        let names: Vec<&str> = wanted.hardware().iter().map(|each| each.name).collect();
        assert_eq!(names, ["instructions", "cache-misses"]);
        assert_eq!(parse("cycles"), Ok(Wanted::Counted(Metric::Cycles)));
    }
}
