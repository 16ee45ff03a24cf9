//! The tick: what the whole runtime is for.
//!
//! A tick takes a sample of the interrupted thread and, if the interrupted instruction has a twin,
//! sends the thread there by changing the instruction pointer in the signal frame. Nothing else of
//! the program's state is touched. All signals are blocked meanwhile, and everything that is read
//! from the program's memory is read by the kernel, with checks.
//!
//! No burst starts while the thread's state says that it is in one. If the interrupted address is
//! then outside all copies, the thread is in a signal handler that the runtime does not know
//! (installed by a raw system call) and that interrupted a burst, whose scratch must stay.

use core::sync::atomic::Ordering::{Relaxed, Release};

use wire::control::{Control, PERF_CODE, Policy, TICK_COOKIE, TIMER_SIGNAL, TickSource};
use wire::sample::{Outcome, Registers, SampleHeader};
use wire::thread::thread_state;

use crate::bursts::stream::{self, Room};
use crate::bursts::twins;
use crate::process::session::{self, Session};
use crate::process::{environment, fork, unload};
use crate::signals::entry::{self, Next};
use crate::statics::HAS_USED_PERF;
use crate::sys::abi::{SigInfo, UContext, register};
use crate::sys::{clock, own_memory};
use crate::threads::area::Area;
use crate::threads::{lifecycle, timer};
use crate::{events, mode};

/// Called by [`entry::tick_entry`].
pub unsafe extern "C" fn on_tick(signal: i32, info: &mut SigInfo, context: *mut UContext, frame: u64, next: &mut Next) {
    let tsc = clock::rdtsc();
    let Some(overrun) = genuine_tick(signal, info) else {
        // SAFETY: the arguments are those of the delivery.
        *next = unsafe { entry::deliver_to_program(signal, info, context, frame) };
        return;
    };
    *next = Next::RETURN;
    match session::attached() {
        // SAFETY: the frame belongs to this delivery alone.
        Some(session) => mode::on_tick(session, info, unsafe { &mut *context }, &Tick { tsc, overrun }),
        None => fork::join_at_tick(),
    }
}

/// Returns the number of merged ticks, if the signal is a tick and not the program's own affair.
pub fn genuine_tick(signal: i32, info: &SigInfo) -> Option<u32> {
    const SI_TIMER: i32 = -2;
    // SAFETY: the union's members are plain numbers; which one is meant is decided by signal and
    // code.
    unsafe {
        match (signal, info.code) {
            (TIMER_SIGNAL, SI_TIMER) if info.details.timer.value == TICK_COOKIE => {
                Some(info.details.timer.overrun.max(0) as u32)
            }
            (TIMER_SIGNAL, PERF_CODE) if has_used_perf() => Some(0),
            _ => None,
        }
    }
}

/// Late ticks may come after the agent has given up perf events.
fn has_used_perf() -> bool {
    let uses = session::attached()
        .is_some_and(|session| session.control.settings.tick_source.load(Relaxed) == TickSource::Perf as u32);
    if uses {
        HAS_USED_PERF.store(true, Relaxed);
    }
    HAS_USED_PERF.load(Relaxed)
}

/// A tick that is being handled.
#[derive(Clone, Copy)]
pub struct Tick {
    /// Time stamp counter on entry to the handler.
    pub tsc: u64,
    /// Ticks that the kernel merged into this one, beyond the first.
    pub overrun: u32,
}

/// Samples the interrupted thread, and starts a burst if it can.
pub fn on_tick_of_bursts(session: Session, context: &mut UContext, tick: &Tick) {
    let Some(area) = Area::own(session) else {
        session.control.process.foreign_ticks.fetch_add(1, Relaxed);
        return;
    };
    let header = area.header();
    header.ticks.delivered.fetch_add(1, Relaxed);
    if header.burst.state.load(Relaxed) == thread_state::ENDED {
        stream::commit_ended_burst(&area);
    }
    let pc = context.registers[register::RIP];
    if session::is_in_copy(pc) || header.burst.state.load(Relaxed) == thread_state::BURST {
        header.ticks.in_burst.fetch_add(1, Relaxed);
    } else if let Some(room) = stream::find_room(&area) {
        note_room(&area);
        // SAFETY: the area is the calling thread's, which is in no burst; signals are blocked.
        unsafe { events::take_burst(&area) };
        take_sample(&area, &room, context, tick);
    } else {
        note_loss(&area);
    }
    adjust_timer(&area);
    header.ticks.handler_cycles.fetch_add(clock::rdtsc().wrapping_sub(tick.tsc), Relaxed);
}

/// What was copied of a stack.
#[derive(Clone, Copy, Default)]
struct CopiedStack {
    /// In all, a multiple of 8.
    bytes: usize,
    /// How much of it is the outermost part, and from where on.
    outer_words: u16,
    outer_start: u64,
}

/// Copies the stack from `rsp` to where the thread's start routine, or the program, begins:
/// contexts begin there in exact mode as well. Of a stack that is deeper than wanted, the outermost
/// part is taken too: one frame with large arrays should not hide who called it.
fn copy_stack(area: &Area, room: &Room, rsp: u64) -> CopiedStack {
    const OUTER_BYTES: u64 = 64 << 10;
    let end = area.private().stack_end.load(Relaxed) & !7;
    let to = room.stack(area.session.control.settings.stack_bytes.load(Relaxed));
    let wanted = to.len() as u64;
    let Some(to_end) = end.checked_sub(rsp) else {
        return CopiedStack { bytes: own_memory::copy(rsp, to) & !7, ..CopiedStack::default() };
    };
    if to_end <= wanted {
        let bytes = own_memory::copy(rsp, &mut to[..to_end as usize]) & !7;
        return CopiedStack { bytes, ..CopiedStack::default() };
    }
    let outer_bytes = OUTER_BYTES.min(wanted / 2) & !7;
    let inner_bytes = (wanted - outer_bytes) as usize;
    let copied = own_memory::copy(rsp, &mut to[..inner_bytes]);
    // The thread may be on another stack, which ends before.
    if copied < inner_bytes {
        return CopiedStack { bytes: copied & !7, ..CopiedStack::default() };
    }
    let outer_start = end - outer_bytes;
    let outer_words = (own_memory::copy(outer_start, &mut to[inner_bytes..]) / 8) as u16;
    CopiedStack { bytes: inner_bytes + 8 * usize::from(outer_words), outer_words, outer_start }
}

fn take_sample(area: &Area, room: &Room, context: &mut UContext, tick: &Tick) {
    let registers = registers(context);
    let pc = registers[wire::sample::RIP];
    let (outcome, twin) = decide(area, pc);
    let stack = if environment::is_no_op() {
        CopiedStack::default()
    } else {
        copy_stack(area, room, registers[wire::sample::RSP])
    };
    let cpu_ns = clock::thread_cpu_ns();
    area.header().ticks.last_cpu_ns.store(cpu_ns, Relaxed);
    let size = (size_of::<SampleHeader>() + stack.bytes) as u32;
    let plan = if outcome == Outcome::Burst { Plan::by_policy(area) } else { Plan { checks: 0, to_skip: 0 } };
    let sample = SampleHeader {
        size,
        stack_bytes: stack.bytes as u32,
        outer_words: stack.outer_words,
        outer_stack: stack.outer_start,
        tid: area.header().stream.owner_tid.load(Relaxed),
        outcome: outcome as u8,
        overrun: tick.overrun,
        checks_planned: plan.checks,
        checks_to_skip: plan.to_skip,
        tick_tsc: tick.tsc,
        cpu_ns,
        registers,
        ..SampleHeader::default()
    };
    // SAFETY: the room is the calling thread's, and large enough.
    unsafe { room.sample.write(sample) };
    if let Some(twin) = twin {
        start_burst(area, room, plan.checks, size);
        context.registers[register::RIP] = twin;
    }
    // SAFETY: as above.
    unsafe { (*room.sample).resume_tsc = clock::rdtsc() };
    if twin.is_none() {
        stream::commit(area, size);
    }
}

/// General registers in hardware order, then the instruction pointer.
fn registers(context: &UContext) -> Registers {
    use register::{R8, RAX, RBP, RBX, RCX, RDI, RDX, RIP, RSI, RSP};
    let from = &context.registers;
    let mut registers = [0; 17];
    for (to, index) in registers.iter_mut().zip([RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI]) {
        *to = from[index];
    }
    registers[8..16].copy_from_slice(&from[R8..R8 + 8]);
    registers[16] = from[RIP];
    registers
}

/// Returns what comes of a tick at `pc`, and the twin to go on at.
fn decide(area: &Area, pc: u64) -> (Outcome, Option<u64>) {
    let control = area.session.control;
    let cluster = twins::cluster_of(pc);
    if environment::is_no_op() {
        (Outcome::Skipped, None)
    } else if control.settings.enabled.load(Relaxed) == 0 {
        (Outcome::Paused, None)
    } else if unload::is_pending(control) {
        (Outcome::Unloading, None)
    } else if follows_system_call(pc, cluster.is_some()) {
        (Outcome::SystemCall, None)
    } else {
        match cluster.map(|cluster| twins::in_cluster(cluster, pc)) {
            None => (Outcome::Outside, None),
            Some(None) => (Outcome::NoCopy, None),
            Some(twin) => (Outcome::Burst, twin),
        }
    }
}

/// Returns whether the two bytes before `pc` are a `syscall`: then the tick stands for time in the
/// kernel.
pub fn follows_system_call(pc: u64, is_in_file: bool) -> bool {
    const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];
    let at = pc.wrapping_sub(2);
    if is_in_file && at / wire::PAGE == pc / wire::PAGE {
        // SAFETY: code of a file that is being executed is readable, and this is on the same page.
        return unsafe { (at as *const [u8; 2]).read_volatile() } == SYSTEM_CALL;
    }
    let mut before = [0; 2];
    own_memory::copy(at, &mut before) == 2 && before == SYSTEM_CALL
}

fn start_burst(area: &Area, room: &Room, checks: u32, sample_bytes: u32) {
    let header = area.header();
    let own = area.raw();
    header.burst.cursor.store(room.sample as u64 + u64::from(sample_bytes), Relaxed);
    // SAFETY: the area is the calling thread's, and no copy runs in it.
    unsafe {
        (*own).burst.limit = room.limit();
        (*own).burst.n_system_calls = 0;
        (*own).burst.system_call_cycles = 0;
        (*own).burst.system_call_start = 0;
        (*own).burst.system_call_end = 0;
        (*own).burst.end_tsc = 0;
    }
    header.burst.checks.store(checks, Relaxed);
    header.burst.end_reason.store(0, Relaxed);
    header.burst.state.store(thread_state::BURST, Release);
}

/// How long a burst is to be.
#[derive(Clone, Copy)]
struct Plan {
    checks: u32,
    to_skip: u32,
}

impl Plan {
    fn by_policy(area: &Area) -> Plan {
        let control = area.session.control;
        let policy = control.settings.policy.load(Relaxed);
        if policy == Policy::Plain as u32 {
            return Plan { checks: control.settings.burst_checks.load(Relaxed).max(1), to_skip: 0 };
        }
        let stride = control.settings.stride.load(Relaxed).max(1);
        let samples = control.settings.samples.load(Relaxed).max(1);
        let to_skip = area.private().rotation.fetch_add(1, Relaxed) % stride;
        let taken = if policy == Policy::Full as u32 { 1 + (samples - 1).saturating_mul(stride) } else { samples };
        Plan { checks: to_skip.saturating_add(taken), to_skip }
    }
}

/// Ticks in a row without room after which the interval doubles: nobody seems to read.
const LOSSES_PER_DOUBLING: u32 = 8;
const MAX_BACKED_OFF_INTERVAL_NS: u64 = 1_000_000_000;

fn note_room(area: &Area) {
    area.private().lost_in_a_row.store(0, Relaxed);
    area.private().backoff.store(0, Relaxed);
}

fn note_loss(area: &Area) {
    area.header().ticks.lost.fetch_add(1, Relaxed);
    let private = area.private();
    let lost = private.lost_in_a_row.fetch_add(1, Relaxed) + 1;
    if lost.is_multiple_of(LOSSES_PER_DOUBLING) {
        let backoff = private.backoff.load(Relaxed);
        private.backoff.store((backoff + 1).min(31), Relaxed);
    }
}

/// Lets the thread's timer follow the settings.
pub fn adjust_timer(area: &Area) {
    let control = area.session.control;
    let Some(id) = lifecycle::timer_of(area) else { return };
    if control.settings.stopped.load(Relaxed) != 0 {
        lifecycle::stop_ticks(area);
        return;
    }
    let interval_ns = wanted_interval_ns(control, area.private().backoff.load(Relaxed));
    // SAFETY: the area is the calling thread's.
    let armed_ns = unsafe { core::mem::replace(&mut (*area.raw()).ticks.armed_interval_ns, interval_ns) };
    if interval_ns != armed_ns {
        timer::arm(id, interval_ns, interval_ns);
    }
}

fn wanted_interval_ns(control: &Control, backoff: u32) -> u64 {
    let interval_ns = control.settings.tick_interval_ns.load(Relaxed);
    if backoff == 0 {
        return interval_ns;
    }
    (interval_ns << backoff.min(20)).clamp(interval_ns, MAX_BACKED_OFF_INTERVAL_NS.max(interval_ns))
}
