//! What can go wrong between the agent and a target.
//!
//! Messages name the cause on one line; the caller adds which process or file it was about.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use wire::hello::LeftAlone;

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something about a program, a process or the session failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a step.
    #[error("{step}: {cause}")]
    System {
        /// What was being done.
        step: &'static str,
        /// What the system said.
        cause: io::Error,
    },
    /// A file of the process file system could not be read.
    #[error("cannot read {}: {cause}", path.display())]
    ProcessFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The runtime in the target was built for another version of the agent.
    #[error("the runtime in the process has version {theirs} of the protocol, this strobe has {ours}; use files of one build", ours = wire::VERSION)]
    Version {
        /// The version that it reported.
        theirs: u32,
    },
    /// A message was not of the right length.
    #[error("the process sent a message of {got} bytes instead of {expected}")]
    BadMessage {
        /// Bytes received.
        got: usize,
        /// Bytes of such a message.
        expected: usize,
    },
    /// The process has replaced its program and joins anew, or does not.
    #[error("the process runs another program now")]
    Replaced,
    /// The process closed the connection.
    #[error("the process broke off while it was joining")]
    Left,
    /// Somebody else's process connected.
    #[error("a process of user {uid} asked to join and was refused")]
    OtherUser {
        /// The user.
        uid: u32,
    },
    /// The process is in a process id name space that the agent cannot see into.
    #[error("the process is not visible from here: it runs in another process id name space")]
    Invisible,
    /// The process was forked from one that the agent no longer knows.
    #[error("the process was forked from process {parent}, which has left the session")]
    UnknownParent {
        /// Process id of the parent.
        parent: u32,
    },
    /// The process was forked from one with copies that are wrong for it.
    #[error("the process was forked, and has since loaded or unloaded libraries that its parent has copies of")]
    DifferentModules,
    /// The runtime leaves the process alone, which would not survive it.
    #[error("the process is left alone: it would not survive being recorded")]
    LeftAlone {
        /// What it runs.
        program: OsString,
        /// Why.
        reason: LeftAlone,
    },
    /// There is no free range of addresses near the code.
    #[error("the process has no room for copies near its code")]
    NoRoom,
    /// The target could not map what it was given.
    #[error("the process could not map shared memory (file {file}): {cause}")]
    TargetMapping {
        /// Index of the descriptor.
        file: u32,
        /// What its system said.
        cause: io::Error,
    },

    /// A module is outside all clusters, and gets no copy.
    #[error("the module is too far from the areas for copies")]
    OutOfReach,
    /// The cluster's area, or the table of modules, is full.
    #[error("no room is left for copies: {needed} bytes needed, {free} bytes free")]
    NoRoomForCopy {
        /// Bytes that the copy takes.
        needed: u64,
        /// Bytes that are left.
        free: u64,
    },
    /// The module is not there any more.
    #[error("the module has been unloaded")]
    Unloaded,
    /// The code in memory is not, or need not stay, that of the file.
    #[error("the program has changed this code, or is about to")]
    Changed,
    /// Other processes run the same copies and do not have this module there.
    #[error("the copies are shared with a forked process that has something else at these addresses")]
    Shared,
    /// The copy does not fit what was reserved for it, or has entries outside the module.
    #[error("the copy is not what was announced")]
    Inconsistent,

    /// The dynamic linker of a program does not say which libraries that needs.
    #[error("{} --list: {status}; try `ldd`", linker.display())]
    Linker {
        /// The dynamic linker.
        linker: PathBuf,
        /// How it ended.
        status: ExitStatus,
    },
    /// The runtime's path has a character that the dynamic linker takes for a separator.
    #[error("{}: the path of the runtime must not contain spaces, colons or semicolons; install strobe elsewhere", path.display())]
    RuntimePath {
        /// The path.
        path: PathBuf,
    },
    /// There is no such program.
    #[error("{}: no such program", program.display())]
    Missing {
        /// What was to be run.
        program: PathBuf,
    },
    /// The program exists, but may not be executed.
    #[error("{}: not executable", program.display())]
    NotExecutable {
        /// What was to be run.
        program: PathBuf,
    },
    /// The program did not start for any other reason.
    #[error("{}: {cause}", program.display())]
    NotStarted {
        /// What was to be run.
        program: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

/// Names the step in front of a system error.
pub(crate) trait Step<T> {
    fn step(self, step: &'static str) -> Result<T>;
}

impl<T, E: Into<io::Error>> Step<T> for std::result::Result<T, E> {
    fn step(self, step: &'static str) -> Result<T> {
        self.map_err(|cause| Error::System { step, cause: cause.into() })
    }
}
