//! Event streams of real programs, from a trace that valgrind's lackey writes.
//!
//! Lackey prints every instruction executed and every access to memory, in order. What an instruction is, is read from the file that is mapped at
//! its address: the process that executes the program is asked for its mappings whenever an address is new. The target of a branch is the
//! next instruction executed; if that is neither the branch's target nor the instruction behind it, a signal or another thread came
//! in between, and the event is dropped.
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
    let script = format!("exec 9>&2 2>/dev/null; exec valgrind --tool=lackey --trace-mem=yes --log-fd=9 {program}");
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
    /// The instruction of the last line, and what it is.
    last: Option<(u64, Class)>,
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
            match *line.as_slice() {
                [b'I', b' ', b' ', ref rest @ ..] => self.instruction(hexadecimal(rest)),
                [b' ', b'L' | b'M', b' ', ref rest @ ..] => self.load(hexadecimal(rest)),
                _ => {}
            }
        }
        Ok(())
    }

    fn instruction(&mut self, pc: u64) {
        if let Some((from, class)) = self.last
            && let Some(target) = class.target(pc)
            && self.wants(class)
        {
            self.event((from, target));
        }
        self.n_instructions += u64::from(self.n_seen >= self.wanted.skip);
        self.last = Some((pc, self.code.class(pc)));
    }

    fn load(&mut self, address: u64) {
        if let (Kind::Addresses, Some((pc, _))) = (self.wanted.kind, self.last) {
            self.event((pc, address));
        }
    }

    fn event(&mut self, event: Pair) {
        if self.n_seen >= self.wanted.skip {
            self.events.push(event);
        }
        self.n_seen += 1;
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

    /// Where the instruction led, given the next one executed; `None` if it cannot have.
    fn target(self, next: u64) -> Option<u64> {
        let is_possible = match self {
            Class::Branch { target, behind } => next == target || next == behind,
            Class::Call { target } => next == target,
            Class::IndirectJump | Class::IndirectCall => true,
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
    classes: FxHashMap<u64, Class>,
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
        Code { pid: child.id(), mappings: Vec::new(), files, classes: FxHashMap::default() }
    }

    fn class(&mut self, pc: u64) -> Class {
        if let Some(&class) = self.classes.get(&pc) {
            return class;
        }
        let class = self.decode(pc).map_or(Class::Other, |instruction| Class::of(&instruction));
        self.classes.insert(pc, class);
        class
    }

    fn decode(&mut self, pc: u64) -> Option<Instruction> {
        let contains = |mapping: &Mapping| (mapping.start..mapping.end).contains(&pc);
        if !self.mappings.iter().any(contains) {
            let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).ok()?;
            self.mappings = maps.lines().filter_map(Mapping::parse).collect();
        }
        let mapping = self.mappings.iter().find(|mapping| contains(mapping))?;
        let file = self.files.entry(mapping.path.clone()).or_insert_with(|| std::fs::read(&mapping.path).ok());
        let at = usize::try_from(pc - mapping.start + mapping.offset).ok()?;
        let bytes = file.as_deref()?.get(at..)?;
        let bytes = &bytes[..bytes.len().min(MAX_INSTRUCTION_BYTES)];
        let instruction = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
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
