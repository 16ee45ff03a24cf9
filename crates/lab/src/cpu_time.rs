//! CPU time of processes, as the kernel counts it.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// CPU time of all processes that this one started and waited for.
pub(crate) fn cpu_of_children() -> anyhow::Result<Duration> {
    const TICKS_PER_SECOND: u64 = 100;
    const USER_AND_SYSTEM: std::ops::Range<usize> = 13..15;
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("no program name in /proc/self/stat")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = fields.get(USER_AND_SYSTEM).context("too few fields in /proc/self/stat")?;
    let ticks: u64 = ticks.iter().map(|field| field.parse::<u64>()).sum::<Result<_, _>>()?;
    Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// CPU time of the first thread so far.
pub(crate) fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    let ns: f64 = text.split_whitespace().next().context("no time in schedstat")?.parse()?;
    Ok(ns * 1e-9)
}
