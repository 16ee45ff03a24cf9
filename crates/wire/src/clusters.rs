//! Clusters: ranges of the target's address space whose code can have copies.
//!
//! Copies must lie within 2 GiB of the module that they are copied from, because they reach its
//! data by 32-bit displacements. Programs have their code in two places, the program itself and the
//! libraries; each place is a *cluster*: up to [`MAX_SPAN`] bytes of addresses, with an area for
//! copies nearby and a *map*, one `u32` for every byte of the range. Both are memory files that the
//! agent sizes once and fills as it translates; in the target they are mapped once, when it joins,
//! and never again:
//!
//! ```text
//!    original code: the cluster       [lo, lo + span)
//!    copies, less than 2 GiB away     [copy_base, copy_base + copy_len)     RX in the target, RW in the agent
//!    map                              [map, map + 4 * span)                 R in the target, RW in the agent
//!    map of checking copies           [checking_map, checking_map + 4 * span)
//! ```
//!
//! **Map entries.** The entry of address `a` is the `u32` at `map + 4 * (a - lo)`. Zero: no copy of
//! that address. Otherwise the low 30 bits are the offset of its twin in the area of copies, and
//! [`LEADER`] is set if `a` starts a block. A thread can be sent into a copy at any twin (a tick
//! does that), but only leaders may be reached by jumps, calls and returns inside a copy: the
//! record of the block is made there. The agent writes a copy first and its entries after. In exact
//! mode, the entry of the last byte of a call, which no instruction should start with, has
//! [`LANDING`] set and says what the call's return leads to; see [`crate::exact`].
//!
//! **Versions.** With the counted trigger a module has two copies ([`Version`]), each with a map of
//! its own in the same file, one behind the other. Look-ups in a copy are by the map of its
//! version, so that calls and returns stay in the version that the thread is in.

/// Number of clusters of a process: the program, the libraries, and one to spare.
pub const N_CLUSTERS: usize = 3;
/// The cluster of the program itself.
pub const PROGRAM: usize = 0;
/// The cluster of the libraries.
pub const LIBRARIES: usize = 1;
/// Largest number of bytes of a cluster: what a block record can express.
pub const MAX_SPAN: u64 = 1 << 30;
/// Marks map entries of addresses that start a block.
pub const LEADER: u32 = 1 << 31;
/// Marks map entries of last bytes of calls, in exact mode.
pub const LANDING: u32 = 1 << 30;

/// The versions of a copy, as in bursty tracing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Records; where there is one version only, it is this one.
    #[default]
    Instrumented,
    /// Only counts down the checks until the next burst.
    Checking,
}

/// Where a cluster and its copies are in the target. All zero: there is no such cluster.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// First address of the cluster.
    pub lo: u64,
    /// Bytes of the cluster, at most [`MAX_SPAN`].
    pub span: u64,
    /// Address of the map.
    pub map: u64,
    /// Address of the map of checking copies.
    pub checking_map: u64,
    /// What a copy adds to a map entry with [`LEADER`] set to get the address of the twin:
    /// `copy_base - LEADER`, wrapping.
    pub leader_base: u64,
    /// Address of the area of copies.
    pub copy_base: u64,
    /// Bytes of the area of copies.
    pub copy_len: u64,
}

impl Cluster {
    /// Returns the bytes of one map, in whole pages.
    #[must_use]
    pub const fn map_bytes(&self) -> u64 {
        (4 * self.span).next_multiple_of(crate::PAGE)
    }

    /// Returns the bytes of the file with both maps.
    #[must_use]
    pub const fn maps_bytes(&self) -> u64 {
        2 * self.map_bytes()
    }

    /// Returns the address of the map of a version.
    #[must_use]
    pub const fn map_of(&self, version: Version) -> u64 {
        match version {
            Version::Instrumented => self.map,
            Version::Checking => self.checking_map,
        }
    }

    /// Returns whether original address `pc` is in the cluster.
    #[must_use]
    pub const fn contains(&self, pc: u64) -> bool {
        pc.wrapping_sub(self.lo) < self.span
    }

    /// Returns whether `pc` is in the area of copies.
    #[must_use]
    pub const fn holds_copy(&self, pc: u64) -> bool {
        pc.wrapping_sub(self.copy_base) < self.copy_len
    }
}

const _: () = assert!(size_of::<Cluster>() == 56);
