//! What must be done so that paths have their cycles, and what instructions do to the clock.
//!
//! * Where a path starts on arrival by an address, it has no misses yet; cycles count from when
//!   another path stopped, which has left the time.
//! * A call leaves what the path has so far, and, of cycles, the time. When it has returned and has
//!   found its frame, the path has as much as that.
//! * Where a path ends, the cycles since the clock started are added to those of the path, and the
//!   clock starts.

use emit::Metric;

use super::contexts;
use super::duties::{Duties, TableArrival};
use super::state::{Clock, Done, End, Frame, Known, PathEntry};
use crate::state::{RAX, RCX, RDX, State, Value};

/// The same duties, with a metric.
pub(super) fn timed(mut duties: Duties, metric: Metric) -> Duties {
    let end = |done: Done| match done.end {
        Some(_) => Done { clock: Clock::Started, is_timed: true, ..done },
        None => done,
    };
    for done in &mut duties.arrivals {
        if matches!(done.frame, Frame::Is(_)) && metric != Metric::Cycles {
            done.clock = Clock::Started;
        }
    }
    duties.edges.iter_mut().for_each(|done| *done = end(*done));
    for arrival in duties.tables.iter_mut().flatten() {
        *arrival = TableArrival { done: end(arrival.done), at_row_end: arrival.at_row_end.map(end) };
    }
    duties
}

/// `charged` becomes what a register holds.
pub(super) fn set(state: &mut State, from: usize) -> Option<()> {
    let is = |number: usize, known: Known| state.registers[number] == Value::Exact(known);
    if is(RCX, Known::Charged) {
        return contexts::note_time(state, from);
    }
    let clock = match state.exact.done.clock {
        Clock::Kept if is(from, Known::Now) => Clock::Started,
        Clock::Foreign if is(from, Known::PathStart) => Clock::Kept,
        _ => return None,
    };
    state.exact.has_noted_start = is(RDX, Known::Charged);
    state.exact.done.clock = clock;
    Some(())
}

/// The metric of the present path: `sub register, gs:[charged]`, if that is still its own.
pub(super) fn time(state: &mut State, register: usize) -> Option<()> {
    let is_own = state.registers[register] == Value::Exact(Known::Now) && state.exact.done.clock == Clock::Kept;
    is_own.then(|| state.registers[register] = Value::Exact(Known::PathTime))
}

/// The counter is as it was when the path started, which has ended: the next one starts, and
/// nothing is to be added.
pub(super) fn end_without(state: &mut State) -> Option<()> {
    let done = &mut state.exact.done;
    let is_end = done.end.is_some() && done.clock == Clock::Kept && !done.is_timed;
    is_end.then(|| (done.clock, done.is_timed) = (Clock::Started, true))
}

/// What the path has that has ended in a cell is added to the cell for that.
pub(super) fn add_to_cell(state: &mut State, cell: i64, frame: Frame) -> Option<()> {
    let n_cells = state.exact.n_path_cells?;
    let done = &mut state.exact.done;
    let is_its = done.end == Some(End::Cell(cell - i64::from(n_cells), frame)) && !done.is_timed;
    let is_time = state.registers[RAX] == Value::Exact(Known::PathTime);
    (is_its && is_time).then(|| done.is_timed = true)
}

/// Cycles are left beside the frame, before its key.
pub(super) fn leave(state: &mut State, from: usize) -> Option<()> {
    let is_time = state.registers[from] == Value::Exact(Known::PathTime) && !state.exact.left.has_key;
    is_time.then(|| state.exact.left.has_metric = true)
}

/// The cycles of the path that ends are kept.
pub(super) fn keep(state: &mut State, from: usize) -> Option<()> {
    let is_time = state.registers[from] == Value::Exact(Known::PathTime) && state.exact.has_noted_start;
    is_time.then(|| state.exact.has_ended_metric = true)
}

/// They are added to those of the path.
pub(super) fn add(state: &mut State) -> Option<()> {
    let exact = &mut state.exact;
    let is_time = state.registers[RAX] == Value::Exact(Known::PathTime) && exact.has_noted_start;
    let is_first = matches!(exact.entry, PathEntry::Found(_)) && !exact.has_added_cycles;
    (is_time && is_first).then(|| exact.has_added_cycles = true)
}
