//! All mutable global state of the runtime.
//!
//! There is no other: a test holds every `static` that can change to this file, but for the
//! addresses of the C library's functions ([`crate::sys::real`]), which are looked up once and
//! never change. Threads share all of it, and a child by `fork` gets a copy, as it does of all
//! private memory. A child of `vfork` shares it with its parent and must not change it
//! ([`crate::process::session::is_own_process`]). *Once* means: when the process starts, while it
//! has one thread.
//!
//! Everything is atomic and nothing is locked. Where the order of two accesses matters, the code
//! that makes them says so.

use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

use wire::clusters::{Cluster, N_CLUSTERS};
use wire::control::Control;
use wire::thread::MAX_THREADS;

use crate::exact::uncopied::Uncopied;
use crate::mode::Mode;
use crate::process::environment::Text;
use crate::process::session::Layout;
use crate::signals::cancel;
use crate::signals::table::Action;
use crate::sys::abi::N_SIGNALS;
use crate::sys::link_map::RDebug;
use crate::threads::area::Private;
use crate::threads::create::Birth;

// The process and its session.

/// Whether the program's signals are wrapped: from the join on, in this process and in its children
/// by `fork`. Set once; cleared when the runtime withdraws.
pub static IS_ACTIVE: AtomicBool = AtomicBool::new(false);
/// The process that owns this memory. Set once, and in children by `fork`.
pub static PID: AtomicU32 = AtomicU32::new(0);
/// A page that the kernel wipes in children: not zero while there is an agent's memory to write to.
/// Set once; what it points to changes when the process joins and when the runtime withdraws. The
/// entries of signals read it.
pub static ATTACHED: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
/// The control file. Set when the process joins, as are the next four.
pub static CONTROL: AtomicPtr<Control> = AtomicPtr::new(null_mut());
/// Address of the arena. The entries of signals read it.
pub static ARENA: AtomicU64 = AtomicU64::new(0);
/// Bytes of the arena. The entries of signals read it.
pub static ARENA_BYTES: AtomicU64 = AtomicU64::new(Layout::BURSTS.arena_bytes());
/// Logarithm of the bytes of a thread area. The entries of signals read it.
pub static AREA_BITS: AtomicU32 = AtomicU32::new(Layout::BURSTS.area_bits);
/// Where copies are. Set once; children by `fork` have them, too.
pub static CLUSTERS: Clusters = Clusters(UnsafeCell::new([NO_CLUSTER; N_CLUSTERS]));
/// Id of this process on the agent's side, for its children. Set when the process joins.
pub static AGENT_SIDE_PID: AtomicU32 = AtomicU32::new(0);
/// A [`Mode`]. Set when the process joins; it holds for a forked child that has not joined yet.
/// Functions in assembly read it.
pub static MODE: AtomicU8 = AtomicU8::new(Mode::Bursts as u8);

/// Memory for [`CLUSTERS`].
pub struct Clusters(pub UnsafeCell<[Cluster; N_CLUSTERS]>);

// SAFETY: written only by `session::attach`, before anything says that there is something to read.
unsafe impl Sync for Clusters {}

const NO_CLUSTER: Cluster =
    Cluster { lo: 0, span: 0, map: 0, checking_map: 0, leader_base: 0, copy_base: 0, copy_len: 0 };

// The environment, the machine and what is loaded.

/// The variable by which the agent speaks to the runtime, as a whole. Set once, as are the next
/// five.
pub static SESSION_VARIABLE: Text = Text::new();
/// Name of the agent's socket.
pub static SOCKET_NAME: Text = Text::new();
/// Path of this library, as it stood in `LD_PRELOAD`.
pub static LIBRARY_PATH: Text = Text::new();
/// Whether children are followed.
pub static FOLLOWS_CHILDREN: AtomicBool = AtomicBool::new(false);
/// Whether ticks are only counted.
pub static IS_NO_OP: AtomicBool = AtomicBool::new(false);
/// Seccomp filters that the agent runs under.
pub static N_AGENT_FILTERS: AtomicU64 = AtomicU64::new(0);
/// Whether `rdgsbase` and `wrgsbase` may be used. Set once. The entries of signals read it.
pub static HAS_FSGSBASE: AtomicBool = AtomicBool::new(false);
/// The dynamic linker's description of what is loaded. Set when it is first found.
pub static R_DEBUG: AtomicPtr<RDebug> = AtomicPtr::new(null_mut());
/// Where the kernel's code in user space starts; 0: there is none. Set once.
pub static VDSO_START: AtomicU64 = AtomicU64::new(0);
/// Bytes of it. Set once.
pub static VDSO_BYTES: AtomicU64 = AtomicU64::new(0);

// Threads.

/// What the agent need not know of a thread, by the index of its area. Written by the thread; by
/// its creator before it runs.
pub static PRIVATE: [Private; MAX_THREADS] = [const { Private::new() }; MAX_THREADS];
/// Threads between their creation and their first instruction. Written by the creator, then by the
/// new thread.
pub static BIRTHS: [Birth; MAX_BIRTHS] = [const { Birth::new() }; MAX_BIRTHS];
/// Number of [`BIRTHS`].
pub const MAX_BIRTHS: usize = 4096;
/// Where to look first for a free one of [`BIRTHS`]. Counts up.
pub static NEXT_BIRTH: AtomicUsize = AtomicUsize::new(0);
/// The thread-specific value whose destructor ends threads. Set once.
pub static THREAD_KEY: AtomicU32 = AtomicU32::new(0);
/// The last tick interval that was set, for children that have lost sight of the settings. Written
/// whenever a timer starts.
pub static LAST_INTERVAL_NS: AtomicU64 = AtomicU64::new(10_000_000);
/// Whether ticks have ever come from perf events: late ones may come after the agent has given
/// those up. Set by the first tick.
pub static HAS_USED_PERF: AtomicBool = AtomicBool::new(false);

// A forked child that waits for its first tick.

/// The thread that waits; 0: nobody. Written by the child's only thread, as are the next two.
pub static WAITING_TID: AtomicU32 = AtomicU32::new(0);
/// Index of the area that it had in the parent.
pub static WAITING_INDEX: AtomicU32 = AtomicU32::new(0);
/// Its timer; -1: none.
pub static WAITING_TIMER: AtomicI32 = AtomicI32::new(-1);
/// Index of the area of the thread that is forking, plus one. Written before each `fork`, under a
/// lock of the C library.
pub static FORKING_INDEX: AtomicU32 = AtomicU32::new(0);

// Signals.

/// What the program wants to happen at each signal. Written when it says so.
pub static ACTIONS: [Action; N_SIGNALS] = [const { Action::new() }; N_SIGNALS];
/// Signals whose handlers interrupt system calls, as `siginterrupt` said. Written when the program
/// calls that.
pub static INTERRUPTING: AtomicU64 = AtomicU64::new(0);
/// Address of the alternate signal stacks. Set once. The entries of signals read it.
pub static SIGNAL_STACKS: AtomicU64 = AtomicU64::new(0);
/// How far wrapping the C library's handler for cancellation has come. Written by the first thread
/// that cancels another.
pub static CANCEL_PROGRESS: AtomicU32 = AtomicU32::new(cancel::progress::NOT_STARTED);
/// Not zero: the idle thread that was cancelled to get that handler installed may end. Written by
/// that first thread.
pub static IDLE_THREAD_MAY_END: AtomicU32 = AtomicU32::new(0);

// Code that goes, and leaving.

/// Calls of `dlclose` under way. Counted up and down by the threads that make them.
pub static UNLOADS_RUNNING: AtomicU32 = AtomicU32::new(0);
/// The last number with which an unload was announced. Counts up.
pub static LAST_ANNOUNCEMENT: AtomicU32 = AtomicU32::new(0);
/// Whether the program changes its own code. Set for good; children by `fork` have the changes,
/// too.
pub static CODE_CHANGES: AtomicBool = AtomicBool::new(false);
/// Whether the runtime has withdrawn, or is about to. Set for good by the first thread that has a
/// reason.
pub static WITHDRAWAL_HAS_BEGUN: AtomicBool = AtomicBool::new(false);
/// Whether it has withdrawn. Set for good by the same thread.
pub static WITHDRAWAL_IS_DONE: AtomicBool = AtomicBool::new(false);
/// Whether programs that are started from here must not be followed. Set for good by a child of
/// `vfork` that has withdrawn.
pub static LEAVES_CHILDREN: AtomicBool = AtomicBool::new(false);

// Exact mode.

/// Whether exact mode has been given up. Cleared when the process joins; set for good by any thread
/// that waits in vain.
pub static EXACT_IS_ABANDONED: AtomicBool = AtomicBool::new(false);
/// Addresses that stayed without copy after the agent had looked. Written by all threads.
pub static UNCOPIED: Uncopied = Uncopied::new();
/// Address of the gate's stacks, with the records of interrupted code below them; 0: there are none
/// yet. Set when the process joins.
pub static GATE_STACKS: AtomicU64 = AtomicU64::new(0);
