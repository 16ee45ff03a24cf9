//! `/proc/PID/maps`.

use std::path::Path;

/// First and last address of the mappings of `program` in process `pid`.
pub fn range_of(pid: i32, program: &Path) -> Option<(u64, u64)> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let ranges: Vec<(u64, u64)> = maps
        .lines()
        .filter(|line| line.split_whitespace().nth(5).is_some_and(|path| Path::new(path) == program))
        .filter_map(|line| {
            let (from, to) = line.split_whitespace().next()?.split_once('-')?;
            Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
        })
        .collect();
    Some((ranges.first()?.0, ranges.last()?.1))
}
