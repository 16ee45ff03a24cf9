//! The judge: how many branches a program takes on given work, as callgrind counts them.
//!
//! A profile judges itself when an optimizer states its effect by the profile that it was given. So
//! the resulting programs are run, all on the same work, under an observer that knows no profile:
//! the number of branches taken is the number under the exact profile of that work. Counted are
//! jumps, direct, conditional and computed, in the program's own file; not calls and returns.
//! callgrind shows a jump into a part of a function that was split off as a call, so the
//! instruction decides what it is. It takes only one section of a file for its code, and BOLT makes
//! several: the others are found in the object of no name, at the addresses where they were loaded.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use iced_x86::{FlowControl, OpKind};
use image::Svma;

use crate::callgrind::{self, Object, Recording, UNKNOWN_OBJECT};
use crate::pgo::code::Code;
use crate::pgo::subject::Workload;

/// What a program did, in its own code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Jumps that were followed.
    pub n_taken: u64,
    /// Instructions.
    pub n_insns: u64,
}

/// Runs a program under callgrind; the recording goes beside it.
pub fn judge(program: &Path, workload: &Workload) -> anyhow::Result<Executed> {
    let recording = program.with_extension("callgrind");
    let log = program.with_extension("callgrind.log");
    let options = ["valgrind", "--tool=callgrind", "--dump-instr=yes", "--collect-jumps=yes"].map(str::to_owned);
    let files = [("--callgrind-out-file", &recording), ("--log-file", &log)];
    let files = files.map(|(option, path)| format!("{option}={}", path.display()));
    let tool: Vec<String> = options.into_iter().chain(files).collect();
    let status = workload.command(&tool, program)?.stderr(Stdio::null()).status().context("cannot run valgrind")?;
    ensure!(status.success(), "{} failed under callgrind ({status}); see {}", program.display(), log.display());
    let seen = callgrind::read(&recording)?;
    fs::remove_file(recording)?;
    let path = program.canonicalize()?;
    let object = seen.objects.iter().find(|object| Path::new(&object.path) == path);
    let object = object.with_context(|| format!("callgrind saw nothing of {}", path.display()))?;
    count(&seen, object, &Code::read(program)?)
}

fn count(recording: &Recording, program: &Object, code: &Code) -> anyhow::Result<Executed> {
    let mut executed = Executed::default();
    executed.add(program, code, 0)?;
    let unknown = recording.objects.iter().find(|object| object.path == UNKNOWN_OBJECT);
    if let Some((unknown, bias)) = unknown.zip(bias(recording, program, code)?) {
        executed.add(unknown, code, bias)?;
    }
    Ok(executed)
}

/// How much higher than in the file addresses of [`UNKNOWN_OBJECT`] are. Where the program goes
/// there by direct jumps and calls, the instruction says which address of the file that is. Nothing
/// if it never goes there.
fn bias(recording: &Recording, program: &Object, code: &Code) -> anyhow::Result<Option<u64>> {
    let mut found = None;
    for transition in program.jumps.keys().chain(program.calls.keys()) {
        let leads_there = transition.to_object.is_some_and(|id| recording.object(id).path == UNKNOWN_OBJECT);
        let instruction = code.instruction(transition.from.0).filter(|code| code.op0_kind() == OpKind::NearBranch64);
        let Some(instruction) = instruction.filter(|_| leads_there) else { continue };
        let bias = transition.to.0.wrapping_sub(instruction.near_branch_target());
        let first = *found.get_or_insert(bias);
        ensure!(first == bias, "callgrind sees the program at two places: {first:#x}, {bias:#x}");
    }
    Ok(found)
}

impl Executed {
    /// Adds what ran in an object at addresses of the program's code, which are higher than in the
    /// file by `bias`.
    fn add(&mut self, object: &Object, code: &Code, bias: u64) -> anyhow::Result<()> {
        let instruction = |at: Svma| code.instruction(at.0.wrapping_sub(bias));
        let jumps = object.jumps.iter().map(|(transition, count)| (transition.from, count.taken));
        let calls = object.calls.iter().map(|(transition, &count)| (transition.from, count));
        for (from, count) in jumps.chain(calls) {
            match instruction(from) {
                Some(instruction) if is_jump(instruction.flow_control()) => self.n_taken += count,
                Some(_) => {}
                None => ensure!(object.path == UNKNOWN_OBJECT, "no code at {:#x}", from.0),
            }
        }
        let ours = object.executed.iter().filter(|(at, _)| instruction(**at).is_some());
        self.n_insns += ours.map(|(_, count)| count).sum::<u64>();
        Ok(())
    }
}

fn is_jump(kind: FlowControl) -> bool {
    matches!(kind, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn jumps_are_counted_whatever_callgrind_calls_them() {
        let folder = tempfile::tempdir().unwrap();
        let (source, object) = (folder.path().join("f.s"), folder.path().join("f.o"));
        fs::write(&source, "f: jz f\njmp *%rax\ncall f\nrep movsb\n").unwrap();
        let status = Command::new("gcc").arg("-c").arg(&source).arg("-o").arg(&object).status();
        assert!(status.expect("gcc is needed").success());
        let text = "positions: instr line\nevents: Ir\nob=(1) f.o\nfn=(1) f\n\
                    0x0 0 9\njcnd=5/9 0x0 0\n0x0 0\n0x2 0 4\njump=1 0x9 0\n0x2 0\ncfn=(2) f.cold\ncalls=3 0x40 0\n0x2 0 10\n\
                    0x4 0 2\ncob=(2) ???\ncfn=(3) g\ncalls=2 0x1000 0\n0x4 0 20\n0x9 0 7\njump=6 0x9 0\n0x9 0\n\
                    ob=(2)\nfn=(3)\n0x1000 0 8\njcnd=8/8 0x1000 0\n0x1000 0\n0x9999 0 1\njump=1 0x0 0\n0x9999 0\ntotals: 31\n";
        let recording = callgrind::parse(text.as_bytes()).unwrap();
        let executed = count(&recording, &recording.objects[0], &Code::read(&object).unwrap()).unwrap();
        assert_eq!(executed, Executed { n_taken: 5 + 1 + 3 + 8, n_insns: 22 + 8 });
    }
}
