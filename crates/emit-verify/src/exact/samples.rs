//! What must be done so that samples of paths are those of the paths, and what instructions do on
//! the way.
//!
//! * Where a path ends, the thread is asked whether a sample is wanted. If not, the path is passed
//!   over: that is as good as counting it.
//! * If it is, the path ends that are to be skipped are counted down. At the end of that, they are
//!   set anew and the samples are counted down. Only if there was one left is the path counted; if
//!   not, the number of samples is set right.
//! * A path that is counted adds to the sum of its squares before.

use iced_x86::Code;
use wire::exact::Squares;
use wire::thread::offset;

use super::duties::{Duties, TableArrival};
use super::state::{Done, End, Known, Outcome, PathEntry, Progress, Sampling};
use crate::state::{Flags, RAX, State, Value};

/// Where the parts of the squares are.
pub(super) const SUM: u32 = std::mem::offset_of!(Squares, sum) as u32;
pub(super) const SUM_HIGH: u32 = SUM + 4;
pub(super) const LAST: u32 = std::mem::offset_of!(Squares, last) as u32;
/// The square of `k + 1` is that much farther from that of `k` than that is from the one before.
pub(super) const GROWTH: u32 = 2;

/// The same duties, with paths sampled.
pub(super) fn sampled(mut duties: Duties) -> Duties {
    let end = |done: Done| Done { is_sampled: done.end.is_some(), ..done };
    duties.edges.iter_mut().for_each(|done| *done = end(*done));
    for arrival in duties.tables.iter_mut().flatten() {
        *arrival = TableArrival { done: end(arrival.done), at_row_end: arrival.at_row_end.map(end) };
    }
    duties
}

/// Whether the path in hand may ask for a sample.
pub(super) fn may_ask(state: &State) -> bool {
    state.exact.sampling == Sampling::Unknown && state.exact.done.end.is_none()
}

/// A field of the header goes down by one.
pub(super) fn count_down(state: &State, at: u32) -> Option<Outcome> {
    match (at, state.exact.sampling) {
        (offset::ENDS_TO_SKIP, Sampling::Wanted) => Some(Outcome::Skipped),
        (offset::SAMPLES_WANTED, Sampling::Rewound) => Some(Outcome::Sampled),
        _ => None,
    }
}

/// So many path ends are to be skipped as there are between two samples.
pub(super) fn rewind(state: &mut State) -> Option<()> {
    advance(&mut state.exact, Sampling::Due, Sampling::Rewound)
}

/// The number of samples that are wanted is set.
pub(super) fn set_wanted(state: &mut State, number: u32) -> Option<()> {
    (number == 0).then_some(())?;
    advance(&mut state.exact, Sampling::Overdrawn, Sampling::Unknown)?;
    pass(state)
}

/// The sum of squares grows, but for the carry.
pub(super) fn grow(state: &mut State) -> Option<()> {
    (state.registers[RAX] == Value::Exact(Known::Growth)).then_some(())?;
    matches!(state.exact.entry, PathEntry::Found(_)).then_some(())?;
    advance(&mut state.exact, Sampling::Taken, Sampling::Growing)
}

/// The carry goes to the upper half.
pub(super) fn carry(state: &mut State) -> Option<()> {
    (state.flags == Flags::Exact(Outcome::SquaresCarry)).then_some(())?;
    advance(&mut state.exact, Sampling::Growing, Sampling::Grown)
}

/// Whether `rax` has what the sum has grown by.
pub(super) fn has_grown(state: &State) -> bool {
    state.registers[RAX] == Value::Exact(Known::Growth) && state.exact.sampling == Sampling::Grown
}

/// The growth of the next time is noted.
pub(super) fn set_last(exact: &mut Progress) -> Option<()> {
    advance(exact, Sampling::Grown, Sampling::Ready)
}

/// Whether a path may be counted whose entry was found.
pub(super) fn may_count(exact: &Progress) -> bool {
    !exact.done.is_sampled || exact.sampling == Sampling::Ready
}

/// What both ways from a conditional jump know that goes by `outcome`.
pub(super) fn branch(outcome: Outcome, code: Code, state: &mut State, taken: &mut State) -> Option<()> {
    match (outcome, code) {
        (Outcome::Wanted, Code::Jne_rel32_64) => {
            taken.exact.sampling = Sampling::Wanted;
            pass(state)?;
        }
        (Outcome::Skipped, Code::Jae_rel32_64) => {
            state.exact.sampling = Sampling::Due;
            pass(taken)?;
        }
        (Outcome::Sampled, Code::Jae_rel32_64) => {
            state.exact.sampling = Sampling::Overdrawn;
            taken.exact.sampling = Sampling::Taken;
            taken.exact.done.is_sampled = true;
        }
        (Outcome::SameTick, Code::Jae_rel32_64) => {
            state.registers[RAX] = Value::Exact(Known::OldSample);
            taken.registers[RAX] = Value::Exact(Known::Growth);
        }
        _ => return None,
    }
    Some(())
}

fn advance(exact: &mut Progress, from: Sampling, to: Sampling) -> Option<()> {
    (std::mem::replace(&mut exact.sampling, to) == from).then_some(())
}

/// The path is not counted.
fn pass(state: &mut State) -> Option<()> {
    state.exact.done.end.replace(End::Passed).is_none().then_some(())
}
