//! callgrind: an independent witness of what a program executes.
//!
//! Run with `--dump-instr=yes --collect-jumps=yes`, callgrind writes how often each instruction ran
//! and where each jump and call went. The counts were found equal to single-stepping, with known
//! gaps: `.plt`, `.init` and `.fini` appear in an object named `???` at run-time addresses, a call
//! through the PLT is shown as a call of the final target, returns are not recorded, a `rep` prefix
//! looks like a jump to itself, a tail jump is a call where there are symbols and a jump where
//! there are none, and a conditional jump that was never taken may be absent. Addresses in named
//! objects are those of the file.

mod parse;

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, ensure};
use image::Svma;

pub use parse::{ParseError, ParseErrorKind, parse};

use crate::corpus::{Data, Workload};

/// Everything one run recorded.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Mapped files, and the pseudo-object [`UNKNOWN_OBJECT`]; index by [`ObjectId`].
    pub objects: Vec<Object>,
    /// Instructions executed in all.
    pub total_instructions: u64,
}

impl Recording {
    /// The object with this id.
    #[must_use]
    pub fn object(&self, id: ObjectId) -> &Object {
        &self.objects[id.0]
    }

    /// Adds what another run recorded; objects are the same if their paths are.
    pub fn merge(&mut self, other: Recording) {
        let paths: Vec<String> = other.objects.iter().map(|object| object.path.clone()).collect();
        let ids: Vec<ObjectId> = paths.iter().map(|path| self.object_id(path)).collect();
        let translate = |transition: Transition| {
            let to_object = transition.to_object.and_then(|id| ids.get(id.0).copied());
            Transition { to_object, ..transition }
        };
        for (object, &id) in other.objects.into_iter().zip(&ids) {
            let mine = &mut self.objects[id.0];
            for (at, count) in object.executed {
                *mine.executed.entry(at).or_default() += count;
            }
            for (transition, count) in object.jumps {
                mine.add_jump(translate(transition), count);
            }
            for (transition, count) in object.calls {
                *mine.calls.entry(translate(transition)).or_default() += count;
            }
        }
        self.total_instructions += other.total_instructions;
    }

    fn object_id(&mut self, path: &str) -> ObjectId {
        let known = self.objects.iter().position(|object| object.path == path);
        ObjectId(known.unwrap_or_else(|| {
            self.objects.push(Object { path: path.to_owned(), ..Object::default() });
            self.objects.len() - 1
        }))
    }
}

impl Object {
    fn add_jump(&mut self, transition: Transition, count: JumpCount) {
        let total = self.jumps.entry(transition).or_default();
        total.taken = total.taken.saturating_add(count.taken);
        total.executed_conditionally = match (total.executed_conditionally, count.executed_conditionally) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
    }
}

/// Name of the object that holds code which callgrind could not attribute to a file.
pub const UNKNOWN_OBJECT: &str = "???";

/// Index of an object in its [`Recording`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub usize);

/// What ran in one mapped file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Path of the file, or [`UNKNOWN_OBJECT`].
    pub path: String,
    /// How often each instruction ran.
    pub executed: HashMap<Svma, u64>,
    /// Jumps out of this object's instructions.
    pub jumps: HashMap<Transition, JumpCount>,
    /// Calls, and jumps that callgrind shows as calls, with their numbers.
    pub calls: HashMap<Transition, u64>,
}

/// An instruction and where it led.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transition {
    /// The jump or call.
    pub from: Svma,
    /// Object of the target; `None` if the recording does not tell.
    pub to_object: Option<ObjectId>,
    /// Target.
    pub to: Svma,
}

/// How often a jump was followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JumpCount {
    /// Times it went to the target.
    pub taken: u64,
    /// Times it ran, for conditional jumps.
    pub executed_conditionally: Option<u64>,
}

/// Runs a workload under callgrind; `out` is the file for the recording, beside which callgrind's
/// messages go. `in_front` is put in front of `valgrind`.
pub fn record(data: &Data, workload: &Workload, in_front: &str, out: &Path) -> anyhow::Result<()> {
    let log = out.with_extension("log");
    let prefix = format!(
        "{in_front} valgrind --tool=callgrind --dump-instr=yes --collect-jumps=yes --log-file='{}' --callgrind-out-file='{}'",
        log.display(),
        out.display()
    );
    let mut command = data.command(workload, &prefix)?;
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().context("cannot start a shell")?;
    ensure!(
        status.success(),
        "`{prefix} {}` failed ({status}); it needs the package valgrind and leaves its messages in {}",
        workload.command,
        log.display()
    );
    Ok(())
}

/// Reads a recording.
pub fn read(path: &Path) -> anyhow::Result<Recording> {
    let file = File::open(path).with_context(|| format!("there is no recording {}", path.display()))?;
    parse(BufReader::new(file)).with_context(|| format!("cannot read {}", path.display()))
}
