//! Structures of the kernel's and of the C library's interface on x86-64 that the runtime reads and
//! writes.

/// `SIG_DFL`.
pub const DEFAULT: u64 = 0;
/// `SIG_IGN`.
pub const IGNORE: u64 = 1;
/// `SIG_ERR`, which is also what `sigset` takes and gives for errors.
pub const ERROR: u64 = u64::MAX;
/// `SIG_HOLD`.
pub const HOLD: u64 = 2;
/// Number of signals.
pub const N_SIGNALS: usize = 64;

/// Flags of `sigaction`.
pub mod sa {
    pub const SIGINFO: u32 = 4;
    pub const RESTORER: u32 = 0x0400_0000;
    pub const ONSTACK: u32 = 0x0800_0000;
    pub const RESTART: u32 = 0x1000_0000;
    pub const INTERRUPT: u32 = 0x2000_0000;
    pub const NODEFER: u32 = 0x4000_0000;
    pub const RESETHAND: u32 = 0x8000_0000;
    /// All that the kernel knows; it drops others.
    pub const KNOWN: u32 = 0xdc00_0807;
}

/// Returns the bit of a signal in a mask.
pub const fn bit(signal: i32) -> u64 {
    1 << (signal as u32).wrapping_sub(1)
}

/// Returns whether `signal` is the number of a signal.
pub fn is_signal(signal: i32) -> bool {
    (1..=N_SIGNALS as i32).contains(&signal)
}

/// An array of C strings that ends with a null pointer.
pub type Strings = *const *const u8;

/// The C library's `sigset_t`; the kernel knows the first word.
pub type SignalSet = [u64; 16];

/// The C library's `struct sigaction`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct SigAction {
    pub handler: u64,
    pub mask: SignalSet,
    pub flags: u32,
    pub restorer: u64,
}

/// The kernel's `struct sigaction`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct KernelSigAction {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

/// `stack_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct SignalStack {
    pub sp: u64,
    pub flags: i32,
    pub size: u64,
}

impl SignalStack {
    /// `SS_DISABLE`.
    pub const DISABLE: i32 = 2;
    /// What a thread without alternate stack has.
    pub const NONE: SignalStack = SignalStack { sp: 0, flags: SignalStack::DISABLE, size: 0 };

    pub const fn is_disabled(&self) -> bool {
        self.flags & SignalStack::DISABLE != 0
    }

    pub const fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.sp) < self.size
    }
}

/// Indices of [`UContext::registers`].
pub mod register {
    pub const R8: usize = 0;
    pub const R9: usize = 1;
    pub const RDI: usize = 8;
    pub const RSI: usize = 9;
    pub const RBP: usize = 10;
    pub const RBX: usize = 11;
    pub const RDX: usize = 12;
    pub const RAX: usize = 13;
    pub const RCX: usize = 14;
    pub const RSP: usize = 15;
    pub const RIP: usize = 16;
    pub const FLAGS: usize = 17;
    pub const ERROR: usize = 19;
    pub const TRAP: usize = 20;
}

/// `ucontext_t` as the kernel makes it.
#[repr(C)]
pub struct UContext {
    pub flags: u64,
    pub link: u64,
    pub stack: SignalStack,
    pub registers: [u64; 23],
    pub fpstate: u64,
    pub reserved: [u64; 8],
    pub mask: u64,
}

/// `siginfo_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SigInfo {
    pub signal: i32,
    pub errno: i32,
    pub code: i32,
    pub padding: i32,
    pub details: Details,
    pub rest: [u64; 12],
}

impl SigInfo {
    /// Code of a signal that a thread sent to a thread.
    pub const TKILL: i32 = -6;

    /// About a signal that process `pid` of user `uid` sends.
    pub fn sent(signal: i32, code: i32, pid: u32, uid: u32) -> SigInfo {
        let sender = SenderDetails { pid, uid, value: 0 };
        SigInfo { signal, errno: 0, code, padding: 0, details: Details { sender }, rest: [0; 12] }
    }
}

/// What follows depends on `code`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Details {
    pub timer: TimerDetails,
    pub fault: FaultDetails,
    pub sender: SenderDetails,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct SenderDetails {
    pub pid: u32,
    pub uid: u32,
    pub value: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct TimerDetails {
    pub timer: i32,
    pub overrun: i32,
    pub value: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct FaultDetails {
    pub address: u64,
    pub perf_data: u64,
}

/// `struct timespec`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Timespec {
    pub seconds: i64,
    pub nanoseconds: i64,
}

impl Timespec {
    const NS_PER_SECOND: u64 = 1_000_000_000;

    pub const fn from_ns(ns: u64) -> Timespec {
        Timespec { seconds: (ns / Timespec::NS_PER_SECOND) as i64, nanoseconds: (ns % Timespec::NS_PER_SECOND) as i64 }
    }

    pub const fn as_ns(self) -> u64 {
        (self.seconds as u64).wrapping_mul(Timespec::NS_PER_SECOND).wrapping_add(self.nanoseconds as u64)
    }
}

/// `struct timeval`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Timeval {
    pub seconds: i64,
    pub microseconds: i64,
}

/// `struct sigevent`, for a signal to a thread.
#[repr(C)]
pub struct SignalEvent {
    pub value: u64,
    pub signal: i32,
    pub notify: i32,
    pub tid: u32,
    pub padding: [u32; 11],
}

impl SignalEvent {
    /// Returns the event that sends a signal with this value to a thread.
    pub const fn to_thread(tid: u32, signal: i32, value: u64) -> SignalEvent {
        const SIGEV_THREAD_ID: i32 = 4;
        SignalEvent { value, signal, notify: SIGEV_THREAD_ID, tid, padding: [0; 11] }
    }
}

/// `struct itimerspec`.
#[repr(C)]
#[derive(Default)]
pub struct TimerSetting {
    pub interval: Timespec,
    pub first: Timespec,
}

/// `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Iovec {
    pub base: u64,
    pub len: u64,
}

/// `struct msghdr`.
#[repr(C)]
#[derive(Default)]
pub struct MessageHeader {
    pub name: u64,
    pub name_len: u64,
    pub parts: u64,
    pub n_parts: u64,
    pub control: u64,
    pub control_len: u64,
    pub flags: u64,
}

const _: () = assert!(size_of::<SigAction>() == 152);
const _: () = assert!(size_of::<KernelSigAction>() == 32);
const _: () = assert!(size_of::<SignalStack>() == 24);
const _: () = assert!(core::mem::offset_of!(UContext, registers) == 40);
const _: () = assert!(core::mem::offset_of!(UContext, fpstate) == 224);
const _: () = assert!(core::mem::offset_of!(UContext, mask) == 296);
const _: () = assert!(core::mem::offset_of!(SigInfo, details) == 16);
const _: () = assert!(size_of::<SigInfo>() == 128);
const _: () = assert!(size_of::<MessageHeader>() == 56);
const _: () = assert!(size_of::<SignalEvent>() == 64);
