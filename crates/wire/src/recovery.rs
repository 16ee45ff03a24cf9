//! From any address in a copy back to the original.
//!
//! A signal can interrupt a thread anywhere in a copy, and no handler of the program may see that.
//! Before the handler runs, the runtime turns the interrupted state into that of a twin point. It
//! finds the module by the address, and in its table of [`Run`]s, sorted by `copy`, the last one
//! that starts at or before the address; that one says what to do:
//!
//! * At a [`kind::STRAIGHT`] run the bytes are those of original instructions, in the same lengths:
//!   the original address is `original` plus the distance from the start of the run. Nothing else
//!   needs to change.
//! * In a [`kind::PROBE`] run the thread is about to be at `original`. The probe's first
//!   instructions save registers, one instruction for each bit of `saves` in the order of the bits
//!   ([`saves`]); its last ones restore them. For each save that has been executed, that is for the
//!   i-th one if the address is at least `save_end[i]` bytes into the run, the saved value is the
//!   program's; taking it again after it has been restored does no harm.
//!   A probe can read what the instruction is about to change ([`Run::writes`]). The processor says
//!   of the instruction's page faults that they are of writes, and so it must be with the probe's.
//! * In a [`kind::FORWARD`] run a transfer is under way whose target the program has already
//!   committed to: stack pointer and memory are as they will be there. The thread is about to be at
//!   the address in `rax` (if less than `save_end[0]` bytes into the run) or in
//!   [`crate::thread::Scratch::target`] (after that). `rax` is in `saved_rax`; the further saves of
//!   the run are as in a probe, but their order starts at `save_end[1]`.
//! * A [`kind::EXIT`] run is a `FORWARD` run of an exit that has started: the burst is about to end
//!   at the target.
//! * At a [`kind::AFTER_SYSTEM_CALL`] run a system call has just returned: `original` is the
//!   address after the `syscall`, and `rcx` must become `original` too, because that is where
//!   `syscall` leaves it. `saves` works as in a probe.
//! * At a [`kind::SYSTEM_CALL`] run, which is the 2 bytes of the `syscall`, the address is that of
//!   the `syscall` itself. If `rcx` is the address after it in the copy, which is so when the
//!   kernel wants it restarted, it must become the address after it in the original.
//! * A [`kind::CALLED`] run is one instruction, right behind a call that the copy has made as a
//!   call: the address in the copy where it will return to lies on the stack. The thread is taken
//!   back to before the call, whose 5 bytes end there: the stack pointer goes up by 8.
//! * In a [`kind::RETURNING`] run the return address on the stack has been replaced by the copy of
//!   the return site. The thread is taken on to there: the stack pointer goes up by `original`, and
//!   `saves` are taken back, all of them.
//!
//! The last two change where the thread is in copies, and what follows from that is another run's
//! affair.

/// Bytes of a call in a copy.
pub const CALL_BYTES: u64 = 5;

/// What to do in a run.
pub mod kind {
    /// Original instructions.
    pub const STRAIGHT: u8 = 0;
    /// Inside a probe that ends at `original`.
    pub const PROBE: u8 = 1;
    /// Inside a transfer to an address that only the thread knows.
    pub const FORWARD: u8 = 2;
    /// Inside an exit.
    pub const EXIT: u8 = 3;
    /// Behind a system call.
    pub const AFTER_SYSTEM_CALL: u8 = 4;
    /// At a system call.
    pub const SYSTEM_CALL: u8 = 5;
    /// Nothing can be interrupted here: padding, literals.
    pub const NEVER: u8 = 6;
    /// Behind a call, before the original return address is on the stack.
    pub const CALLED: u8 = 7;
    /// Before a return, with the address of a copy on the stack.
    pub const RETURNING: u8 = 8;
}

/// Bits of [`Run::saves`], in the order in which a probe saves.
pub mod saves {
    /// `rax`, in `saved_rax`.
    pub const RAX: u8 = 1;
    /// `rcx`, in `saved_rcx`.
    pub const RCX: u8 = 2;
    /// `rdx`, in `saved_rdx`.
    pub const RDX: u8 = 4;
    /// Arithmetic flags, in `saved_flags`.
    pub const FLAGS: u8 = 8;
}

/// A stretch of a copy with one rule of recovery.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Start, as an offset from the start of the module's copy.
    pub copy: u32,
    /// Original address, less the module's load address; in a [`kind::RETURNING`] run, bytes that
    /// the return takes off the stack.
    pub original: u32,
    /// One of [`kind`].
    pub kind: u8,
    /// Bits of [`saves`].
    pub saves: u8,
    /// Bytes into the run after which each save has been executed.
    pub save_end: [u8; 4],
    /// 1: in this probe a page fault is one of a write, like that of the instruction, which is
    /// about to write where the probe reads. Else 0.
    pub writes: u8,
    /// Zero.
    pub reserved: u8,
}

const _: () = assert!(size_of::<Run>() == 16);
