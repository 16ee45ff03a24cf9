//! What the verifier knows about copies that are never left.
//!
//! They are walked through like the others ([`super`]). What they have of their own:
//!
//! * **Counting** ([`assign`], [`blocks`], [`paths`]). For every edge and every way to arrive at a
//!   block it is worked out what must be done: which cells go up, how the path register changes,
//!   which path ends. A walk notes what is done ([`state::Done`]), and the two must be the same.
//!   That what edges must do adds up to numbers of paths is shown by [`flow::paths::verify`].
//! * **Calls** leave the address of the copy on the stack for one instruction, which makes it the
//!   original return address of the call. The landing that the map will have for it is walked from,
//!   with the state of the program at the return site. A return replaces the address on the stack
//!   only by what the return table says about that address, and entries are only made of what the
//!   map says.
//! * **Frames.** What a call leaves has its stack pointer for a key, and with a path its return
//!   address for a site. A landing takes it only if it has that key and that site; else it arrives
//!   like any other.
//! * **Contexts** ([`contexts`]). Control that arrives at an entry counts itself in the entry of
//!   its context, and no other.
//! * **Cycles of paths** ([`clock`]). What a path is charged is what has passed since it started,
//!   less what calls took.
//! * **Samples of paths** ([`samples`]). A path that ends looks whether a sample is wanted, and if
//!   it is taken, it is of that path.
//! * **A trace of paths** ([`trace`]). A path that ends appends itself to the buffer of events, and
//!   nothing is left there half done.
//! * **Callees.** An indirect call counts its target before it is made, under its own key.
//! * **Versions** ([`trigger`]). A check that is the last one leads to the other version, with its
//!   checks, and nothing else does. Every cycle that the policy speaks of meets a check
//!   ([`check_cycles`]).
//! * **Remembered targets** are used only after a comparison, and written only by whoever has taken
//!   the first cell, twin first.
//! * **Memory.** Instructions have a meaning only with the fields, cells and entries of tables that
//!   [`fields`] knows. All else is refused, so that nothing else is written.
//!
//! **Flags** are dead at calls, returns and computed jumps: at a direct call unless the callee
//! expects them, at a return unless callers of the function use them, both as [`super::liveness`]
//! works out; at a computed call always; at a computed jump unless a function that it is known to
//! lead to, or a block of its table, needs them. In a module where control is expected to arrive
//! with flags in ways that do not show ([`super::module::Module::passes_flags_unseen`]), they are
//! alive at all of these, and at the start of every block that does not overwrite them. That
//! programs keep to this is a convention, and not shown here.
//!
//! **Not shown**: that the search of the path table ends, which is the case because it is never
//! full; and that control which enters a block in its middle, by the twin of another instruction
//! than the first, has a path register that fits the block.

mod assign;
mod blocks;
mod cells;
mod check_cycles;
mod clock;
mod contexts;
mod duties;
mod fields;
mod paths;
mod rows;
mod samples;
mod state;
mod step;
mod trace;
mod transfers;
mod trigger;

pub(super) use assign::duties;
pub(super) use cells::Cells;
pub(super) use check_cycles::Unchecked;
pub(super) use duties::{Duties, Duty};
pub(super) use state::{Done, Known, Outcome, Progress, Record, Switch};
pub(super) use step::step;
pub(super) use trigger::map_field;
