//! Samples: what one tick leaves behind.
//!
//! A sample is a [`SampleHeader`], then `stack_bytes` bytes copied from the target's stack (upwards
//! from its stack pointer, and of a deep one its outer end), then `n_records` block records of 4
//! bytes; the whole is padded to a multiple of 8. A tick that starts no burst has no records.
//!
//! A **block record** names the block that control reached: the top 2 bits are the cluster, the low
//! 30 bits the block's first address less the cluster's `lo`. The records of a burst are the blocks
//! in the order in which the thread reached them. The block that the tick interrupted has no record
//! unless the tick hit its first instruction: `registers.rip` tells. The last record may be of a
//! block that the burst did not execute, because it ended there (see [`EndReason`]).

/// Bits of a block record that hold the address.
pub const RECORD_ADDRESS_BITS: u32 = 30;

/// General registers in hardware order, then the instruction pointer: original addresses, before
/// any burst.
pub type Registers = [u64; 17];

/// Index of the stack pointer in [`Registers`].
pub const RSP: usize = 4;
/// Index of the instruction pointer in [`Registers`].
pub const RIP: usize = 16;

/// The fixed part of a sample.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SampleHeader {
    /// Bytes of header, stack and records, padded to 8.
    pub size: u32,
    /// Bytes of stack that follow the header, a multiple of 8.
    pub stack_bytes: u32,
    /// Block records that follow the stack.
    pub n_records: u32,
    /// The thread.
    pub tid: u32,
    /// What came of the tick: an [`Outcome`].
    pub outcome: u8,
    /// Why the burst ended: an [`EndReason`].
    pub end_reason: u8,
    /// Words at the end of the stack's bytes that are from [`SampleHeader::outer_stack`] on
    /// instead: the stack was too deep to copy all of it.
    pub outer_words: u16,
    /// Ticks that the kernel merged into this one, beyond the first.
    pub overrun: u32,
    /// Checks that the burst was to run for.
    pub checks_planned: u32,
    /// Checks that were left when it ended; 0 for a burst of full length.
    pub checks_left: u32,
    /// Checks at the start of the burst that the policy wants skipped ([`crate::control::Policy`]).
    pub checks_to_skip: u32,
    /// System calls made inside the burst.
    pub n_system_calls: u32,
    /// Time stamp counter on entry to the tick handler.
    pub tick_tsc: u64,
    /// Time stamp counter when the handler returned.
    pub resume_tsc: u64,
    /// Time stamp counter when the burst ended.
    pub end_tsc: u64,
    /// Cycles that passed inside system calls of the burst, blocked or not.
    pub system_call_cycles: u64,
    /// CPU time of the thread at the tick, in nanoseconds.
    pub cpu_ns: u64,
    /// Original address at which the burst went back to the original code.
    pub end_pc: u64,
    /// Where the outermost part of the stack begins that was copied, if there is a gap.
    pub outer_stack: u64,
    /// Registers of the thread at the tick.
    pub registers: Registers,
}

/// What came of a tick.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It started a burst.
    Burst = 1,
    /// The interrupted address has no copy (yet).
    NoCopy = 2,
    /// The interrupted address is outside all clusters: no code of a file that was loaded at the
    /// start, or out of reach.
    Outside = 3,
    /// It hit right after a system call, and stands for time in the kernel.
    SystemCall = 4,
    /// Recording is paused.
    Paused = 5,
    /// A module was unloaded and the agent has not cleared its copies yet.
    Unloading = 6,
    /// The policy lets this tick pass, or the runtime is the no-op variant.
    Skipped = 7,
}

/// Why a burst ended.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndReason {
    /// No burst, or it has not ended.
    None = 0,
    /// All checks were used. The last record's block was not executed in the copy.
    Full = 1,
    /// The buffer was full.
    BufferFull = 2,
    /// A call, jump or return to an address in a cluster that has no copy or starts no known block.
    NoCopy = 3,
    /// A call, jump or return to an address outside all clusters.
    Outside = 4,
    /// A system call that makes or replaces control flow.
    SystemCall = 5,
    /// An instruction that copies do not execute.
    Instruction = 6,
    /// A signal handler of the program ran.
    Signal = 7,
    /// A module was unloaded while the thread was in a system call.
    Unloading = 8,
    /// The thread was asked to leave.
    Asked = 9,
    /// The thread or process died in the burst; set by the agent.
    Died = 10,
    /// In exact mode: a calling context that has no entry yet.
    NewContext = 11,
    /// The buffer of events is full; only in copies that are never left, which go on when it has
    /// been emptied.
    EventsFull = 12,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Outcome; 7] = [
        Outcome::Burst,
        Outcome::NoCopy,
        Outcome::Outside,
        Outcome::SystemCall,
        Outcome::Paused,
        Outcome::Unloading,
        Outcome::Skipped,
    ];

    /// Returns the outcome with this number.
    #[must_use]
    pub fn from_u8(number: u8) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|&each| each as u8 == number)
    }
}

impl EndReason {
    /// All reasons.
    pub const ALL: [EndReason; 13] = [
        EndReason::None,
        EndReason::Full,
        EndReason::BufferFull,
        EndReason::NoCopy,
        EndReason::Outside,
        EndReason::SystemCall,
        EndReason::Instruction,
        EndReason::Signal,
        EndReason::Unloading,
        EndReason::Asked,
        EndReason::Died,
        EndReason::NewContext,
        EndReason::EventsFull,
    ];

    /// Returns the reason with this number.
    #[must_use]
    pub fn from_u8(number: u8) -> Option<EndReason> {
        EndReason::ALL.into_iter().find(|&each| each as u8 == number)
    }
}

const _: () = assert!(size_of::<SampleHeader>() == 40 + 7 * 8 + 17 * 8);
