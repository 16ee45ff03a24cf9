//! How a process joins a session.
//!
//! The environment variable [`ENVIRONMENT`] names an abstract Unix socket (sequenced packets) on
//! which the agent listens. The runtime connects and sends a [`Hello`]. The agent, which knows the
//! process from the socket's credentials, looks at its address space and answers with a
//! [`Welcome`], which carries [`N_FILES`] descriptors: control file, arena, and for each cluster in
//! use (in order) its copies and its map. The runtime maps them where the welcome says, closes
//! every descriptor, and reports [`Ready`]. If something is in the way it undoes everything and
//! reports the error number; the agent may answer with another welcome. A welcome with `refused`
//! set ends the matter: the process runs unprofiled. A hello with `left_alone` set asks for nothing
//! else: it only says why.

use crate::clusters::{Cluster, N_CLUSTERS};

/// Name of the variable: `NAME;PRELOAD;FLAGS;FILTERS`, where `NAME` is the socket's name without
/// the leading NUL, `PRELOAD` the path of the runtime, `FLAGS` are letters of [`flag`] and
/// `FILTERS` is the number of seccomp filters that the agent itself runs under.
pub const ENVIRONMENT: &str = "STROBE_SESSION";

/// Letters in the environment variable.
pub mod flag {
    /// Children are followed: over `fork` and `exec`.
    pub const FOLLOW: u8 = b'f';
    /// The runtime only counts ticks.
    pub const NO_OP: u8 = b'n';
}

/// Why the runtime leaves a program alone that would not survive it.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeftAlone {
    /// Go's runtime ends the program at a signal that it did not ask for.
    Go = 1,
    /// SBCL's runtime ends the program when a signal mask is not as it made it.
    Lisp = 2,
    /// A seccomp filter of the program might refuse the runtime's system calls.
    Filter = 3,
    /// The program has a handler for the signal of ticks of which the runtime was not told.
    TickSignal = 4,
}

impl LeftAlone {
    /// Returns the reason with this number; 0 is none.
    #[must_use]
    pub fn from_u32(number: u32) -> Option<LeftAlone> {
        [LeftAlone::Go, LeftAlone::Lisp, LeftAlone::Filter, LeftAlone::TickSignal]
            .into_iter()
            .find(|&reason| reason as u32 == number)
    }
}

/// Most descriptors of a welcome.
pub const N_FILES: usize = 2 + 2 * N_CLUSTERS;

/// First message, from the runtime.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Hello {
    /// [`crate::VERSION`].
    pub version: u32,
    /// Not zero: the process is the child of a fork and has its parent's mappings of copies and
    /// maps; see `parent_pid`.
    pub is_fork: u32,
    /// Process id in the target's own name space.
    pub pid: u32,
    /// The process that it was forked from, as that one's agent-side id
    /// ([`crate::control::Identity::pid`]).
    pub parent_pid: u32,
    /// Thread id of the calling thread.
    pub tid: u32,
    /// Not zero: the process will not join, for this reason ([`LeftAlone`]).
    pub left_alone: u32,
    /// Any address inside the runtime, so that the agent can tell its mapping.
    pub runtime_address: u64,
}

/// Answer, from the agent.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Welcome {
    /// [`crate::VERSION`].
    pub version: u32,
    /// Not zero: the agent will not have the process.
    pub refused: u32,
    /// Descriptors that come with the message.
    pub n_files: u32,
    /// Not zero: the clusters' copies and maps are already mapped (a forked child); only control
    /// file and arena come with the message.
    pub shares_copies: u32,
    /// Logarithm of the bytes of a thread area.
    pub area_bits: u32,
    /// Thread areas in the arena.
    pub n_areas: u32,
    /// Address for the control file; 0: anywhere.
    pub control: u64,
    /// Address for the arena; 0: anywhere.
    pub arena: u64,
    /// Clusters with the addresses at which to map copies and maps. `span` 0: not in use.
    pub clusters: [Cluster; N_CLUSTERS],
}

/// Last message, from the runtime.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Ready {
    /// 0, or the error number of the first mapping that failed.
    pub error: u32,
    /// Which mapping that was, as an index of the descriptors.
    pub failed_file: u32,
    /// Address of the control file.
    pub control: u64,
    /// Address of the arena.
    pub arena: u64,
}

const _: () = assert!(size_of::<Hello>() == 32);
const _: () = assert!(size_of::<Welcome>() == 40 + 56 * N_CLUSTERS);
const _: () = assert!(size_of::<Ready>() == 24);
