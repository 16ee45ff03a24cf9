//! Samples of `perf record`, as offsets in files.
//!
//! The event is `cpu-clock`, a timer of the kernel's for the program's CPU time, since virtual
//! machines often have no hardware counters; samples in the kernel are left out. An address is what
//! the processor was to execute next when the timer's interrupt came, and is taken as it is.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::corpus::{Data, Workload};

/// Samples per second of CPU time: no multiple of anything that programs or kernels do.
const RATE_HZ: u32 = 3989;

/// One sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The file that was mapped at its address, or what the kernel calls the mapping.
    pub file: String,
    /// Offset in the file.
    pub offset: u64,
}

/// Runs a program of the corpus under `perf record`.
pub fn record(data: &Data, workload: &Workload) -> anyhow::Result<Vec<Sample>> {
    let output = data.root().join(format!("out/{}.perf", workload.name));
    let log = data.root().join(format!("out/{}.perf.log", workload.name));
    // What perf itself complains of goes where the program's complaints do not.
    let prefix = format!(
        "perf record -q --no-buildid --no-buildid-cache -e cpu-clock:u -F {RATE_HZ} -o '{}' --",
        output.display()
    );
    let mut command = data.quiet_command(workload, &prefix)?;
    command.stderr(fs::File::create(&log).with_context(|| log.display().to_string())?);
    let status = command.status().context("cannot start a shell")?;
    let text = match status.code() {
        Some(_) if output.exists() => script(&output)?,
        _ => String::new(),
    };
    let samples = parse(&text)?;
    if samples.is_empty() {
        let complaint = fs::read_to_string(&log).unwrap_or_default();
        let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
        bail!(
            "perf has no samples of {}: {status}, {} (package linux-perf; kernel.perf_event_paranoid is {}, and may be 2 at most)",
            workload.name,
            complaint.lines().next().unwrap_or("no reason given"),
            paranoid.trim()
        );
    }
    fs::remove_file(&output)?;
    Ok(samples)
}

fn script(file: &Path) -> anyhow::Result<String> {
    let output = Command::new("perf")
        .args(["script", "--show-mmap-events", "--show-task-events", "-F", "pid,ip", "-i"])
        .arg(file)
        .output()
        .context("cannot start perf; install the package linux-perf")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "perf script: {complaint}");
    Ok(String::from_utf8(output.stdout)?)
}

/// A mapping of a process.
#[derive(Clone, Debug)]
struct Mapped {
    start: u64,
    end: u64,
    offset: u64,
    file: String,
}

/// Reads what `perf script` prints, in order of time: samples among mappings, forks and execs.
fn parse(text: &str) -> anyhow::Result<Vec<Sample>> {
    let mut mapped: HashMap<u64, Vec<Mapped>> = HashMap::new();
    let mut samples = Vec::new();
    for line in text.lines() {
        let wrong = || format!("perf script prints what nobody understands: {line}");
        if let Some((_, event)) = line.split_once("PERF_RECORD_MMAP") {
            let (pid, mapping) = mapping(event).with_context(wrong)?;
            let all = mapped.entry(pid).or_default();
            // What is mapped later hides what was there.
            all.retain(|other| other.end <= mapping.start || mapping.end <= other.start);
            all.push(mapping);
        } else if let Some((_, event)) = line.split_once("PERF_RECORD_FORK") {
            let (child, parent) = forked(event).with_context(wrong)?;
            if child != parent {
                let inherited = mapped.get(&parent).cloned().unwrap_or_default();
                mapped.insert(child, inherited);
            }
        } else if let Some((_, event)) = line.split_once("PERF_RECORD_COMM exec: ") {
            let (_, ids) = event.rsplit_once(':').with_context(wrong)?;
            let (pid, _) = ids.split_once('/').with_context(wrong)?;
            mapped.remove(&pid.parse().with_context(wrong)?);
        } else if !line.contains("PERF_RECORD_") && !line.trim().is_empty() {
            let (pid, address) = line.trim().split_once(' ').with_context(wrong)?;
            let address = u64::from_str_radix(address.trim(), 16).with_context(wrong)?;
            let all = mapped.get(&pid.parse::<u64>().with_context(wrong)?);
            let found = all.and_then(|all| all.iter().find(|one| (one.start..one.end).contains(&address)));
            samples.push(match found {
                Some(one) => Sample { file: one.file.clone(), offset: address - one.start + one.offset },
                None => Sample { file: "nowhere".to_owned(), offset: address },
            });
        }
    }
    Ok(samples)
}

/// `2 11536/11536: [0x56053de36000(0xf000) @ 0x3000 fe:00 247277 0]: r-xp /usr/bin/gzip`
fn mapping(event: &str) -> Option<(u64, Mapped)> {
    let (ids, rest) = event.split_once(": [")?;
    let pid = ids.split_once(' ')?.1.split_once('/')?.0.parse().ok()?;
    let (inside, behind) = rest.split_once("]: ")?;
    let (range, place) = inside.split_once(" @ ")?;
    let (start, length) = range.strip_suffix(')')?.split_once('(')?;
    let start = number(start)?;
    let offset = number(place.split(' ').next()?)?;
    let file = behind.split_once(' ')?.1.to_owned();
    Some((pid, Mapped { start, end: start + number(length)?, offset, file }))
}

/// `(19926:19926):(19924:19924)`: the child, and its parent.
fn forked(event: &str) -> Option<(u64, u64)> {
    let (child, parent) = event.split_once("):(")?;
    let pid = |text: &str| text.trim_start_matches('(').split_once(':')?.0.parse().ok();
    Some((pid(child)?, pid(parent)?))
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "\
    0 PERF_RECORD_COMM: perf-exec:7/7
    7 PERF_RECORD_COMM exec: sh:7/7
    7 PERF_RECORD_MMAP2 7/7: [0x1000(0x2000) @ 0x4000 fe:00 247076 0]: r-xp /usr/bin/a b
    7 PERF_RECORD_MMAP2 7/7: [0x9000(0x1000) @ 0 00:00 0 0]: r-xp [vdso]
    7             1010
    7             9004
    7 PERF_RECORD_FORK(7:9):(7:7)
    7 PERF_RECORD_FORK(8:8):(7:7)
    8             2fff
    8 PERF_RECORD_COMM exec: x:8/8
    8             1010
    7 PERF_RECORD_MMAP2 7/7: [0x2000(0x1000) @ 0 fe:00 1 0]: r-xp /lib/c
    7             2001
    7             1010
    7 PERF_RECORD_EXIT(7:7):(6:6)
";

    #[test]
    fn samples_are_offsets_in_what_was_mapped_then() {
        let samples = parse(SCRIPT).unwrap();
        let found: Vec<(&str, u64)> = samples.iter().map(|sample| (sample.file.as_str(), sample.offset)).collect();
        let expected = [
            ("/usr/bin/a b", 0x4010),
            ("[vdso]", 4),
            ("/usr/bin/a b", 0x5fff),
            ("nowhere", 0x1010),
            ("/lib/c", 1),
            ("nowhere", 0x1010),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_sample_is_refused() {
        assert!(parse("hello").is_err());
        assert!(parse("7 PERF_RECORD_MMAP2 7/7: nothing").is_err());
    }
}
