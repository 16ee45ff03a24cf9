//! Branches and calls of real programs, from a trace that valgrind's lackey writes.
//!
//! Lackey prints where it enters a row of instructions, in order. Told not to follow jumps, it ends a row at whatever does not go to the next instruction,
//! behind [`MAX_ROW`] instructions, and at a repeated string instruction, which it enters once for each round. What a row holds is read from
//! the file that is mapped at its address: the process that executes the program is asked for its mappings whenever an address is new. The target
//! of a branch is the next row entered; if that is neither the branch's target nor the instruction behind it, a signal or another
//! thread came in between, and the event is dropped.
//!
//! Recording ends, and the program with it, when there are enough events.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use anyhow::{Context as _, ensure};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use rustc_hash::FxHashMap;

use super::stream::{Kind, Pair, Stream};

/// The longest x86 instruction.
const MAX_INSTRUCTION_BYTES: usize = 15;

/// The most instructions that valgrind takes at once.
const MAX_ROW: u32 = 60;

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

/// Runs `program`, a piece of shell that starts one, in `dir`, and records its events.
pub fn record(name: &str, program: &str, dir: &Path, wanted: Wanted) -> anyhow::Result<Stream> {
    // Lackey's output goes where the standard error was, and the program's goes nowhere.
    let options = format!("--trace-superblocks=yes --vex-guest-chase=no --vex-guest-max-insns={MAX_ROW} --log-fd=9");
    let script = format!("exec 9>&2 2>/dev/null >/dev/null; exec valgrind --tool=lackey {options} {program}");
    let (mut child, lines) = start(&script, dir)?;
    let mut recorder = Recorder::new(Code::of(&child), wanted);
    let outcome = recorder.read(lines);
    // Either it has ended, or it has served its purpose.
    let _ = child.kill();
    child.wait()?;
    outcome?;
    ensure!(
        recorder.n_seen > wanted.skip,
        "`{program}` gave {} events, not more than the {} to skip; is valgrind installed, and does the program run?",
        recorder.n_seen,
        wanted.skip
    );
    Ok(Stream {
        name: name.to_owned(),
        kind: wanted.kind,
        instructions: Some(recorder.n_instructions.max(1)),
        events: recorder.events,
    })
}

/// Runs a piece of shell that writes events where its standard error is. Returns where to read them.
pub(super) fn start(script: &str, dir: &Path) -> anyhow::Result<(Child, BufReader<ChildStderr>)> {
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

struct Recorder {
    code: Code,
    wanted: Wanted,
    /// The row that was entered last.
    last: Option<Row>,
    n_seen: u64,
    /// Executed since recording began.
    n_instructions: u64,
    events: Vec<Pair>,
}

impl Recorder {
    fn new(code: Code, wanted: Wanted) -> Recorder {
        Recorder { code, wanted, last: None, n_seen: 0, n_instructions: 0, events: Vec::new() }
    }

    fn read(&mut self, mut input: impl std::io::BufRead) -> anyhow::Result<()> {
        let mut line = Vec::new();
        while (self.events.len() as u64) < self.wanted.n_events {
            line.clear();
            if input.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            if let [b'S', b'B', b' ', ref rest @ ..] = *line.as_slice() {
                self.enter(hexadecimal(rest));
            }
        }
        Ok(())
    }

    /// The program goes on at `pc`.
    fn enter(&mut self, pc: u64) {
        if let Some(row) = self.last
            && let Some(target) = row.target(pc)
            && self.wants(row.end)
        {
            if self.n_seen >= self.wanted.skip {
                self.events.push((row.last, target));
            }
            self.n_seen += 1;
        }
        let row = self.code.row(pc);
        self.n_instructions += if self.n_seen >= self.wanted.skip { row.n_instructions.into() } else { 0 };
        self.last = Some(row);
    }

    fn wants(&self, class: Class) -> bool {
        match class {
            Class::Branch { .. } | Class::IndirectJump => matches!(self.wanted.kind, Kind::Edges | Kind::EdgesAndCalls),
            Class::Call { .. } | Class::IndirectCall => matches!(self.wanted.kind, Kind::Calls | Kind::EdgesAndCalls),
            Class::Other => false,
        }
    }
}

/// The number at the start of `text`, up to something that is no digit.
fn hexadecimal(text: &[u8]) -> u64 {
    let digits = text.iter().map_while(|&byte| char::from(byte).to_digit(16));
    digits.fold(0, |number, digit| number.wrapping_mul(16).wrapping_add(u64::from(digit)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Branch { target: u64, behind: u64 },
    IndirectJump,
    Call { target: u64 },
    IndirectCall,
    Other,
}

impl Class {
    fn of(instruction: &Instruction) -> Class {
        match instruction.flow_control() {
            FlowControl::ConditionalBranch if instruction.op0_kind() == OpKind::NearBranch64 => {
                Class::Branch { target: instruction.near_branch_target(), behind: instruction.next_ip() }
            }
            FlowControl::IndirectBranch => Class::IndirectJump,
            FlowControl::Call => Class::Call { target: instruction.near_branch_target() },
            FlowControl::IndirectCall => Class::IndirectCall,
            _ => Class::Other,
        }
    }
}

/// Instructions that are executed one behind the other.
#[derive(Clone, Copy, Debug)]
struct Row {
    first: u64,
    /// The last one, and what it is.
    last: u64,
    end: Class,
    n_instructions: u32,
}

impl Row {
    /// Where its last instruction led, given what was entered next; `None` if it cannot have.
    fn target(&self, next: u64) -> Option<u64> {
        let is_possible = match self.end {
            Class::Branch { target, behind } => next == target || next == behind,
            Class::Call { target } => next == target,
            // Within the row something has ended it early.
            Class::IndirectJump | Class::IndirectCall => !(self.first + 1..=self.last).contains(&next),
            Class::Other => false,
        };
        is_possible.then_some(next)
    }
}

/// The code of a process, by the files that it has mapped.
struct Code {
    pid: u32,
    mappings: Vec<Mapping>,
    files: FxHashMap<PathBuf, Option<Vec<u8>>>,
    rows: FxHashMap<u64, Row>,
}

struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: PathBuf,
}

impl Code {
    fn of(child: &Child) -> Code {
        let files = FxHashMap::default();
        Code { pid: child.id(), mappings: Vec::new(), files, rows: FxHashMap::default() }
    }

    fn row(&mut self, pc: u64) -> Row {
        if let Some(&row) = self.rows.get(&pc) {
            return row;
        }
        let row = self.read_row(pc);
        self.rows.insert(pc, row);
        row
    }

    fn read_row(&mut self, pc: u64) -> Row {
        let mut row = Row { first: pc, last: pc, end: Class::Other, n_instructions: 0 };
        let Some(bytes) = self.bytes_at(pc) else { return row };
        let bytes = &bytes[..bytes.len().min(MAX_ROW as usize * MAX_INSTRUCTION_BYTES)];
        for instruction in Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).iter().take(MAX_ROW as usize) {
            row = Row {
                first: pc,
                last: instruction.ip(),
                end: Class::of(&instruction),
                n_instructions: row.n_instructions + 1,
            };
            let is_repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
            if instruction.flow_control() != FlowControl::Next || is_repeated && instruction.is_string_instruction() {
                break;
            }
        }
        row
    }

    fn bytes_at(&mut self, pc: u64) -> Option<&[u8]> {
        let contains = |mapping: &Mapping| (mapping.start..mapping.end).contains(&pc);
        if !self.mappings.iter().any(contains) {
            let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).ok()?;
            self.mappings = maps.lines().filter_map(Mapping::parse).collect();
        }
        let mapping = self.mappings.iter().find(|mapping| contains(mapping))?;
        let file = self.files.entry(mapping.path.clone()).or_insert_with(|| std::fs::read(&mapping.path).ok());
        let at = usize::try_from(pc - mapping.start + mapping.offset).ok()?;
        file.as_deref()?.get(at..)
    }
}

impl Mapping {
    /// An executable mapping of a file, from a line of `maps`.
    fn parse(line: &str) -> Option<Mapping> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let permissions = fields.next()?;
        let offset = fields.next()?;
        let path = fields.nth(2).filter(|path| path.starts_with('/') && permissions.contains('x'))?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Mapping { start: number(start)?, end: number(end)?, offset: number(offset)?, path: PathBuf::from(path) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOP: &str = "int pick(int i) { return i % 3; }\n\
                        int (*volatile call)(int) = pick;\n\
                        int main(void) { int sum = 0; for (int i = 0; i < 3000; i++) sum += call(i); return sum == 0; }\n";

    fn recorded(kind: Kind) -> Stream {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("loop.c");
        std::fs::write(&source, LOOP).unwrap();
        let compiled =
            Command::new("gcc").args(["-O1", "-fno-inline", "-o", "loop", "loop.c"]).current_dir(dir.path()).status();
        assert!(compiled.expect("gcc is needed; install the package gcc").success());
        record("loop", "./loop", dir.path(), Wanted { kind, skip: 0, n_events: 1 << 30 }).unwrap()
    }

    /// How often each tuple occurs, most frequent first.
    fn counts(stream: &Stream) -> Vec<(Pair, u64)> {
        let mut counts: FxHashMap<Pair, u64> = FxHashMap::default();
        stream.events.iter().for_each(|event| *counts.entry(*event).or_default() += 1);
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|&(pair, count)| (std::cmp::Reverse(count), pair));
        counts
    }

    #[test]
    fn calls_and_branches_of_a_loop_are_seen() {
        let calls = counts(&recorded(Kind::Calls));
        assert_eq!(calls[0].1, 3000);
        let edges = counts(&recorded(Kind::Edges));
        let (back, n_back) = edges[0];
        assert_eq!(n_back, 2999);
        let out = edges.iter().find(|((pc, target), _)| *pc == back.0 && *target != back.1).expect("the way out");
        assert_eq!(out.1, 1);
        assert!(back.1 <= back.0 && out.0.1 > back.0);
    }

    #[test]
    fn only_executable_files_are_code() {
        let code = "5000-6000 r-xp 00002000 fe:00 1234    /usr/bin/true";
        let mapping = Mapping::parse(code).unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.offset), (0x5000, 0x6000, 0x2000));
        assert!(Mapping::parse("5000-6000 rw-p 00002000 fe:00 1234    /usr/bin/true").is_none());
        assert!(Mapping::parse("5000-6000 r-xp 00000000 00:00 0    [vdso]").is_none());
        assert!(Mapping::parse("").is_none());
    }
}
