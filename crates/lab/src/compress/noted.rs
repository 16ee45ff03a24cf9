//! Streams of what strobe notes: values, addresses, branches and targets, from
//! `strobe record --exact --value-stream`, which writes every event into a pipe. Whoever reads it
//! is another process, so the program is driven, not the engine.
//!
//! When there are enough, the program is ended. Its recording then tells how many instructions the
//! program has executed until then, and that no event was lost. Events of several kinds come with
//! the kind in the place, as a compressor in the program gets them.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use anyhow::{Context as _, ensure};

use super::stream::{Kind, Pair, Stream};
use crate::transparency::strobe_program;

/// What is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Which events.
    pub kind: Kind,
    /// How many events to let pass first: start-up is not what a program is about.
    pub skip: u64,
    /// How many to record.
    pub n_events: u64,
}

/// Options of `strobe record` for a kind; `None` if no program has such events.
fn options(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        // Without arguments, which come with values.
        Kind::Values => "--values --select value",
        Kind::Addresses => "--addresses --select load",
        Kind::CallTargets => "--call-targets",
        Kind::JumpTargets => "--branches --select jump",
        Kind::Targets => "--call-targets --branches --select call --select jump",
        Kind::Edges => "--branches",
        Kind::EdgesAndCallTargets => "--call-targets --branches",
        Kind::Synthetic => return None,
    })
}

/// Runs `program`, a piece of shell that starts one, in `dir`, and records its events.
pub fn record(name: &str, program: &str, dir: &Path, wanted: Wanted) -> anyhow::Result<Stream> {
    let options = options(wanted.kind).with_context(|| format!("no program has events that are {}", wanted.kind))?;
    let strobe = strobe_program()?;
    // The stream goes where the standard error was, and the program's output goes nowhere.
    let record = format!("'{}' record -q --exact=blocks {options} --value-stream /dev/fd/9", strobe.display());
    let script = format!("exec 9>&2 2>/dev/null >/dev/null; exec {record} -o /dev/shm/strobe-stream-$$ -- {program}");
    let (mut child, mut input) = start(&script, dir)?;
    let events = read(&mut input, wanted)?;
    end_children(child.id())?;
    io::copy(&mut input, &mut io::sink())?;
    child.wait()?;
    let profile = format!("/dev/shm/strobe-stream-{}", child.id());
    let instructions = instructions(Path::new(&profile), events.len() as u64);
    let _ = std::fs::remove_file(profile);
    let instructions = instructions.with_context(|| format!("the recording of `{program}`"))?;
    Ok(Stream { name: name.to_owned(), kind: wanted.kind, instructions: Some(instructions), events })
}

/// Runs a piece of shell that writes events where its standard error is. Returns where to read
/// them.
fn start(script: &str, dir: &Path) -> anyhow::Result<(Child, BufReader<ChildStderr>)> {
    let mut child = Command::new("sh")
        .args(["-c", script])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start sh")?;
    let events = child.stderr.take().context("no output to read")?;
    Ok((child, BufReader::with_capacity(1 << 18, events)))
}

fn read(input: &mut impl BufRead, wanted: Wanted) -> anyhow::Result<Vec<Pair>> {
    let mut events = Vec::new();
    let mut n_seen = 0;
    let mut pair = [0; 16];
    while (events.len() as u64) < wanted.n_events && input.read_exact(&mut pair).is_ok() {
        let [place, value] = [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|byte| pair[at + byte])));
        n_seen += 1;
        if n_seen > wanted.skip {
            events.push((place, value));
        }
    }
    Ok(events)
}

/// Ends the processes that a process has started.
fn end_children(pid: u32) -> anyhow::Result<()> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<String> =
        lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
    if !children.is_empty() {
        Command::new("kill").arg("-KILL").args(&children).status().context("cannot run kill")?;
    }
    Ok(())
}

/// Instructions that the program has executed for so many events, at the number for each event that
/// it had until it ended.
fn instructions(profile: &Path, n_events: u64) -> anyhow::Result<u64> {
    let facts = store::facts(profile)?;
    let fact = |name: &str| -> anyhow::Result<u64> {
        let text = facts.get(name).with_context(|| format!("there is no fact {name}"))?;
        text.parse().with_context(|| format!("{name} is {text}"))
    };
    let n_lost = fact("value_messages_lost")?;
    ensure!(n_lost == 0, "{n_lost} events were lost");
    let blocks = store::open(profile)?.blocks;
    let n_executed: f64 = blocks.iter().map(|block| block.count.value * f64::from(block.n_insns)).sum();
    Ok((n_executed * n_events as f64 / fact("value_events")?.max(1) as f64).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_from_behind_those_to_skip() {
        let bytes: Vec<u8> = (0..10u64).flat_map(|n| [n << 60 | 0x1000, n]).flat_map(u64::to_le_bytes).collect();
        let wanted = |skip, n_events| Wanted { kind: Kind::Targets, skip, n_events };
        assert_eq!(read(&mut &bytes[..], wanted(2, 2)).unwrap(), [(2 << 60 | 0x1000, 2), (3 << 60 | 0x1000, 3)]);
        // What is cut off is no event.
        assert_eq!(read(&mut &bytes[..bytes.len() - 1], wanted(8, 16)).unwrap(), [(8 << 60 | 0x1000, 8)]);
        assert_eq!(read(&mut &bytes[..], wanted(10, 1)).unwrap(), []);
    }

    #[test]
    fn a_child_is_ended_and_its_parent_is_not() {
        let mut parent = Command::new("sh").args(["-c", "sleep 600; exit 7"]).spawn().unwrap();
        let children = format!("/proc/{0}/task/{0}/children", parent.id());
        while std::fs::read_to_string(&children).unwrap().is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        end_children(parent.id()).unwrap();
        assert_eq!(parent.wait().unwrap().code(), Some(7));
    }
}
