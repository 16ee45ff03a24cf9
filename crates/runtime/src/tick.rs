//! The tick: what the whole runtime is for.
//!
//! A tick takes a sample of the interrupted thread and, if the interrupted instruction has a twin, sends the thread there by
//! changing the instruction pointer in the signal frame. Nothing else of the program's state is touched. All signals are
//! blocked meanwhile, and everything that is read from the program's memory is read by the kernel, with checks.
//!
//! No burst starts while the thread's state says that it is in one. If the interrupted address is then outside all copies, the
//! thread is in a signal handler that the runtime does not know (installed by a raw system call) and that interrupted a burst,
//! whose scratch must stay.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Relaxed, Release};

use wire::control::{Control, NativeReason, PERF_CODE, Policy, TICK_COOKIE, TIMER_SIGNAL, TickPlace, TickSource};
use wire::sample::{Outcome, Registers, SampleHeader};
use wire::thread::thread_state;

use crate::abi::{SigInfo, UContext, register};
use crate::area::Area;
use crate::entry::{self, Next};
use crate::session::{self, Session};
use crate::stream::{self, Room};
use crate::{environment, events, exact, fork, interrupt, places, syscall, thread, timer, twins, unload};

/// Called by [`entry::tick_entry`].
pub unsafe extern "C" fn on_tick(signal: i32, info: &mut SigInfo, context: *mut UContext, frame: u64, next: &mut Next) {
    let tick_tsc = syscall::rdtsc();
    let Some(overrun) = genuine_tick(signal, info) else {
        // SAFETY: the arguments are those of the delivery.
        *next = unsafe { entry::deliver_to_program(signal, info, context, frame) };
        return;
    };
    *next = Next::RETURN;
    match session::attached() {
        // SAFETY: the frame belongs to this delivery alone.
        Some(session) => tick(session, info, unsafe { &mut *context }, tick_tsc, overrun),
        None => fork::join_at_tick(),
    }
}

/// The number of merged ticks, if the signal is a tick and not the program's own affair.
pub fn genuine_tick(signal: i32, info: &SigInfo) -> Option<u32> {
    const SI_TIMER: i32 = -2;
    // SAFETY: the union's members are plain numbers; which one is meant is decided by signal and code.
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
    static HAS_USED_PERF: AtomicBool = AtomicBool::new(false);
    let uses =
        session::attached().is_some_and(|session| session.control.tick_source.load(Relaxed) == TickSource::Perf as u32);
    if uses {
        HAS_USED_PERF.store(true, Relaxed);
    }
    HAS_USED_PERF.load(Relaxed)
}

fn tick(session: Session, info: &mut SigInfo, context: &mut UContext, tick_tsc: u64, overrun: u32) {
    if exact::is_on() {
        exact_tick(session, info, context, overrun);
        return;
    }
    let Some(area) = Area::own(session) else {
        session.control.foreign_ticks.fetch_add(1, Relaxed);
        return;
    };
    let header = area.header();
    header.ticks.fetch_add(1, Relaxed);
    if header.state.load(Relaxed) == thread_state::ENDED {
        stream::commit_ended_burst(&area);
    }
    let pc = context.registers[register::RIP];
    if session::is_in_copy(pc) || header.state.load(Relaxed) == thread_state::BURST {
        header.ticks_in_burst.fetch_add(1, Relaxed);
    } else if let Some(room) = stream::find_room(&area) {
        note_room(&area);
        // SAFETY: the area is the calling thread's, which is in no burst; signals are blocked.
        unsafe { events::take_burst(&area) };
        take_sample(&area, &room, context, tick_tsc, overrun);
    } else {
        note_loss(&area);
    }
    adjust_timer(&area);
    header.handler_cycles.fetch_add(syscall::rdtsc().wrapping_sub(tick_tsc), Relaxed);
}

/// In exact mode a tick brings a thread back into copies that left them because there were none, if it finds it at the start of a block. If paths are sampled,
/// it makes samples wanted, wherever it finds the thread. When exact mode has been given up, it takes a thread out that does not come by the gate.
fn exact_tick(session: Session, info: &mut SigInfo, context: &mut UContext, overrun: u32) {
    let pc = context.registers[register::RIP];
    session.control.exact.ticks[place_of_tick(pc) as usize].fetch_add(1 + u64::from(overrun), Relaxed);
    if session::is_in_copy(pc) && !exact::may_enter(session.control) {
        interrupt::leave_runtime(info, context);
        if let Some(area) = Area::own(session) {
            exact::note_native(&area, NativeReason::Abandoned);
        }
        return;
    }
    let is_sampling = session.control.policy.load(Relaxed) != Policy::Plain as u32;
    if session::is_in_copy(pc) && !is_sampling {
        return;
    }
    let Some(area) = Area::own(session) else {
        session.control.foreign_ticks.fetch_add(1, Relaxed);
        return;
    };
    area.header().ticks.fetch_add(1, Relaxed);
    if is_sampling {
        want_samples(&area);
    }
    if session::is_in_copy(pc) {
        adjust_timer(&area);
        return;
    }
    let may_enter = exact::may_enter(session.control) && exact::is_native(&area) && !places::is_runtime(pc);
    if may_enter && let Some(twin) = twins::of_leader(pc) {
        exact::note_entry(&area);
        context.registers[register::RIP] = twin;
    }
    adjust_timer(&area);
}

/// Which part of exact mode the time before a tick at `pc` belongs to.
fn place_of_tick(pc: u64) -> TickPlace {
    let is_copy = session::is_in_copy(pc);
    let is_file = twins::cluster_of(pc).is_some();
    if places::is_runtime(pc) {
        TickPlace::Runtime
    } else if follows_system_call(pc, is_copy) {
        TickPlace::SystemCall
    } else if is_copy {
        TickPlace::Copy
    } else if is_file {
        TickPlace::File
    } else {
        TickPlace::NoFile
    }
}

/// Has the copies sample paths, unless they still do.
fn want_samples(area: &Area) {
    let (control, header) = (area.session.control, area.header());
    let samples = control.samples.load(Relaxed);
    let is_idle = header.samples_wanted.load(Relaxed) == 0;
    if samples == 0 || !is_idle || control.enabled.load(Relaxed) == 0 {
        return;
    }
    let stride = control.stride.load(Relaxed).max(1);
    let is_full = control.policy.load(Relaxed) == Policy::Full as u32;
    header.ends_to_skip.store(area.private().rotation.fetch_add(1, Relaxed) % stride, Relaxed);
    header.ends_between.store(if is_full { stride - 1 } else { 0 }, Relaxed);
    let tick = (header.sampling_tick.load(Relaxed) >> 32) + 1;
    header.sampling_tick.store(tick << 32 | 1, Relaxed);
    header.samples_wanted.store(samples, Relaxed);
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

/// Copies the stack from `rsp` to where the thread's start routine, or the program, begins: contexts begin there in exact mode as well. Of a stack that is
/// deeper than wanted, the outermost part is taken too: one frame with large arrays should not hide who called it.
fn copy_stack(area: &Area, room: &Room, rsp: u64) -> CopiedStack {
    const OUTER_BYTES: u64 = 64 << 10;
    let end = area.private().stack_end.load(Relaxed) & !7;
    let to = room.stack(area.session.control.stack_bytes.load(Relaxed));
    let wanted = to.len() as u64;
    let Some(to_end) = end.checked_sub(rsp) else {
        return CopiedStack { bytes: syscall::copy_own_memory(rsp, to) & !7, ..CopiedStack::default() };
    };
    if to_end <= wanted {
        let bytes = syscall::copy_own_memory(rsp, &mut to[..to_end as usize]) & !7;
        return CopiedStack { bytes, ..CopiedStack::default() };
    }
    let outer_bytes = OUTER_BYTES.min(wanted / 2) & !7;
    let inner_bytes = (wanted - outer_bytes) as usize;
    let copied = syscall::copy_own_memory(rsp, &mut to[..inner_bytes]);
    // The thread may be on another stack, which ends before.
    if copied < inner_bytes {
        return CopiedStack { bytes: copied & !7, ..CopiedStack::default() };
    }
    let outer_start = end - outer_bytes;
    let outer_words = (syscall::copy_own_memory(outer_start, &mut to[inner_bytes..]) / 8) as u16;
    CopiedStack { bytes: inner_bytes + 8 * usize::from(outer_words), outer_words, outer_start }
}

fn take_sample(area: &Area, room: &Room, context: &mut UContext, tick_tsc: u64, overrun: u32) {
    let registers = registers(context);
    let pc = registers[wire::sample::RIP];
    let (outcome, twin) = decide(area, pc);
    let stack = if environment::is_no_op() {
        CopiedStack::default()
    } else {
        copy_stack(area, room, registers[wire::sample::RSP])
    };
    let cpu_ns = syscall::thread_cpu_ns();
    area.header().last_cpu_ns.store(cpu_ns, Relaxed);
    let size = (size_of::<SampleHeader>() + stack.bytes) as u32;
    let plan = if outcome == Outcome::Burst { Plan::by_policy(area) } else { Plan { checks: 0, to_skip: 0 } };
    let sample = SampleHeader {
        size,
        stack_bytes: stack.bytes as u32,
        outer_words: stack.outer_words,
        outer_stack: stack.outer_start,
        tid: area.header().owner_tid.load(Relaxed),
        outcome: outcome as u8,
        overrun,
        checks_planned: plan.checks,
        checks_to_skip: plan.to_skip,
        tick_tsc,
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
    unsafe { (*room.sample).resume_tsc = syscall::rdtsc() };
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

/// What comes of a tick at `pc`, and the twin to go on at.
fn decide(area: &Area, pc: u64) -> (Outcome, Option<u64>) {
    let control = area.session.control;
    let cluster = twins::cluster_of(pc);
    if environment::is_no_op() {
        (Outcome::Skipped, None)
    } else if control.enabled.load(Relaxed) == 0 {
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

/// Whether the two bytes before `pc` are a `syscall`: then the tick stands for time in the kernel.
fn follows_system_call(pc: u64, is_in_file: bool) -> bool {
    const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];
    let at = pc.wrapping_sub(2);
    if is_in_file && at / wire::PAGE == pc / wire::PAGE {
        // SAFETY: code of a file that is being executed is readable, and this is on the same page.
        return unsafe { (at as *const [u8; 2]).read_volatile() } == SYSTEM_CALL;
    }
    let mut before = [0; 2];
    syscall::copy_own_memory(at, &mut before) == 2 && before == SYSTEM_CALL
}

fn start_burst(area: &Area, room: &Room, checks: u32, sample_bytes: u32) {
    let header = area.header();
    let own = area.raw();
    header.cursor.store(room.sample as u64 + u64::from(sample_bytes), Relaxed);
    // SAFETY: the area is the calling thread's, and no copy runs in it.
    unsafe {
        (*own).limit = room.limit();
        (*own).n_system_calls = 0;
        (*own).system_call_cycles = 0;
        (*own).system_call_start = 0;
        (*own).system_call_end = 0;
        (*own).end_tsc = 0;
    }
    header.checks.store(checks, Relaxed);
    header.end_reason.store(0, Relaxed);
    header.state.store(thread_state::BURST, Release);
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
        let policy = control.policy.load(Relaxed);
        if policy == Policy::Plain as u32 {
            return Plan { checks: control.burst_checks.load(Relaxed).max(1), to_skip: 0 };
        }
        let stride = control.stride.load(Relaxed).max(1);
        let samples = control.samples.load(Relaxed).max(1);
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
    area.header().lost_ticks.fetch_add(1, Relaxed);
    let private = area.private();
    let lost = private.lost_in_a_row.fetch_add(1, Relaxed) + 1;
    if lost.is_multiple_of(LOSSES_PER_DOUBLING) {
        let backoff = private.backoff.load(Relaxed);
        private.backoff.store((backoff + 1).min(31), Relaxed);
    }
}

/// Lets the thread's timer follow the settings.
fn adjust_timer(area: &Area) {
    let control = area.session.control;
    let Some(id) = thread::timer_of(area) else { return };
    if control.stopped.load(Relaxed) != 0 {
        thread::stop_ticks(area);
        return;
    }
    let interval_ns = wanted_interval_ns(control, area.private().backoff.load(Relaxed));
    // SAFETY: the area is the calling thread's.
    let armed_ns = unsafe { core::mem::replace(&mut (*area.raw()).armed_interval_ns, interval_ns) };
    if interval_ns != armed_ns {
        timer::arm(id, interval_ns, interval_ns);
    }
}

fn wanted_interval_ns(control: &Control, backoff: u32) -> u64 {
    let interval_ns = control.tick_interval_ns.load(Relaxed);
    if backoff == 0 {
        return interval_ns;
    }
    (interval_ns << backoff.min(20)).clamp(interval_ns, MAX_BACKED_OFF_INTERVAL_NS.max(interval_ns))
}
