//! The tick in exact mode.
//!
//! It brings a thread back into copies that left them because there were none, if it finds it where
//! threads may enter: anywhere, or, where copies keep a path register, at the start of a block. If
//! paths are sampled, it makes samples wanted, wherever it finds the thread. When exact mode has
//! been given up, it takes a thread out that does not come by the gate.

use core::sync::atomic::Ordering::Relaxed;

use wire::control::{NativeReason, Policy, TickPlace};

use crate::bursts::tick::{adjust_timer, follows_system_call};
use crate::bursts::twins;
use crate::exact::{self, contexts, interrupt, native_code};
use crate::process::session::{self, Session};
use crate::sys::abi::{SigInfo, UContext, register};
use crate::threads::area::Area;

/// Does what is to be done at a tick of exact mode.
pub fn on_tick(session: Session, info: &mut SigInfo, context: &mut UContext, overrun: u32) {
    let pc = context.registers[register::RIP];
    session.control.exact.ticks[place_of_tick(pc) as usize].fetch_add(1 + u64::from(overrun), Relaxed);
    if session::is_in_copy(pc) && !exact::may_enter(session.control) {
        interrupt::leave_runtime(info, context);
        if let Some(area) = Area::own(session) {
            exact::note_native(&area, NativeReason::Abandoned);
        }
        return;
    }
    let is_sampling = session.control.settings.policy.load(Relaxed) != Policy::Plain as u32;
    if session::is_in_copy(pc) && !is_sampling {
        return;
    }
    let Some(area) = Area::own(session) else {
        session.control.process.foreign_ticks.fetch_add(1, Relaxed);
        return;
    };
    area.header().ticks.delivered.fetch_add(1, Relaxed);
    if is_sampling {
        want_samples(&area);
    }
    if session::is_in_copy(pc) {
        adjust_timer(&area);
        return;
    }
    let may_enter = exact::may_enter(session.control) && exact::is_native(&area) && !native_code::is_runtime(pc);
    if may_enter && let Some(twin) = exact::twin_to_enter(session.control, pc) {
        contexts::retake(&area, context.registers[register::RSP]);
        exact::note_entry(&area);
        context.registers[register::RIP] = twin;
    }
    adjust_timer(&area);
}

/// Returns which part of exact mode the time before a tick at `pc` belongs to.
fn place_of_tick(pc: u64) -> TickPlace {
    let is_copy = session::is_in_copy(pc);
    let is_file = twins::cluster_of(pc).is_some();
    if native_code::is_runtime(pc) {
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
    let samples = control.settings.samples.load(Relaxed);
    let is_idle = header.path_sampling.samples_wanted.load(Relaxed) == 0;
    if samples == 0 || !is_idle || control.settings.enabled.load(Relaxed) == 0 {
        return;
    }
    let stride = control.settings.stride.load(Relaxed).max(1);
    let is_full = control.settings.policy.load(Relaxed) == Policy::Full as u32;
    header.path_sampling.ends_to_skip.store(area.private().rotation.fetch_add(1, Relaxed) % stride, Relaxed);
    header.path_sampling.ends_between.store(if is_full { stride - 1 } else { 0 }, Relaxed);
    let tick = (header.path_sampling.sampling_tick.load(Relaxed) >> 32) + 1;
    header.path_sampling.sampling_tick.store(tick << 32 | 1, Relaxed);
    header.path_sampling.samples_wanted.store(samples, Relaxed);
}
