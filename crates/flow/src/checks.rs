//! Where checks go: the policies of bursty tracing (Hirzel and Chilimbi 2001, section 4 and figure
//! 6), for any class of events.
//!
//! A *check* decides whether to stay in the present version of the code. Without elimination
//! (`orig`) every function entry and every back edge has one, so that no execution can go on for
//! ever without meeting a check. What may be left out:
//!
//! | name | entries with a check | back edges with a check |
//! |---|---|---|
//! | `orig` | all | all |
//! | `EL` | all but leaves | all |
//! | `EC` | not a leaf, and root, address taken or recursion from below | all |
//! | `EN` | none | all |
//! | `Lk` (`L4`, `L10`) | all | those of loops that are not k-boring |
//! | `LN` | all | none |
//! | `EC+L4` | as `EC` | as `L4` |
//!
//! A loop is *k-boring* if it contains no call and at most k events of the class of interest,
//! nested loops included.
//!
//! **Soundness.** `EN` and `LN` are limits to compare with, not meant for use. For the others:
//! * Every cycle of direct calls contains a function with an entry check. Under `EL`, because no
//!   function on a cycle is a leaf. Under `EC`, because on a cycle the function closest to the
//!   outside world has recursion from below (see [`crate::callgraph`]). A recursion through an
//!   indirect call enters a function whose address is taken, which has a check unless it is a leaf.
//! * Every cycle of a control-flow graph that contains a call or more than k events crosses a back
//!   edge with a check: the cycle crosses a back edge of the smallest loop around it (see
//!   [`crate::loops`]), and that loop is not boring.
//!
//! Under `Lk`, unbounded time may pass in a boring loop; its code must then not be instrumented
//! either, in any version.

use crate::callgraph::{CallGraph, FunctionId};
use crate::graph::{Digraph, EdgeId};
use crate::loops::{LoopId, Loops};
use std::fmt;
use std::str::FromStr;

/// Which entries and back edges have a check. Its text form is the name in the table above; `E` and
/// `L` parts join by `+`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CheckPolicy {
    /// Checks at function entries.
    pub entries: EntryChecks,
    /// Checks on back edges.
    pub loops: LoopChecks,
}

/// Which function entries have a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryChecks {
    /// All.
    Every,
    /// `EL`: all but those of leaves.
    NonLeaf,
    /// `EC`: those that cover all cycles of calls, by the rule in the table above.
    CallCycles,
    /// `EN`: none.
    Never,
}

/// Which back edges have a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoopChecks {
    /// All.
    Every,
    /// `Lk`: those of loops with a call or with more than `max_boring_events` events.
    NotBoring {
        /// The k of k-boring.
        max_boring_events: u32,
    },
    /// `LN`: none.
    Never,
}

/// What placing loop checks needs to know about a function. The slices have one element per block.
#[derive(Clone, Copy, Debug)]
pub struct LoopContents<'a> {
    /// The control-flow graph.
    pub graph: &'a Digraph,
    /// Its loops.
    pub loops: &'a Loops,
    /// Number of instructions in each block that are events of the class of interest.
    pub events: &'a [u32],
    /// Whether each block contains or ends in a call.
    pub has_call: &'a [bool],
}

/// Text that names no check policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// The part is none of `EL`, `EC`, `EN`, `LN` and `L` with a number.
    UnknownPart(String),
    /// Two parts speak of the same kind of check.
    Conflict(String),
}

impl CheckPolicy {
    /// A check at every entry and on every back edge.
    pub const ORIG: CheckPolicy = CheckPolicy { entries: EntryChecks::Every, loops: LoopChecks::Every };

    /// The names of the policies that the paper compares, in its order.
    pub const PAPER_NAMES: [&str; 8] = ["orig", "EL", "EC", "EN", "L4", "L10", "LN", "EC+L4"];

    /// Whether the function's entry has a check.
    #[must_use]
    pub fn checks_entry(&self, calls: &CallGraph, function: FunctionId) -> bool {
        match self.entries {
            EntryChecks::Every => true,
            EntryChecks::NonLeaf => !calls.is_leaf(function),
            EntryChecks::CallCycles => {
                !calls.is_leaf(function)
                    && (calls.is_root(function)
                        || calls.facts(function).address_taken
                        || calls.recursion_from_below(function))
            }
            EntryChecks::Never => false,
        }
    }

    /// The back edges that have a check, ascending.
    #[must_use]
    pub fn checked_back_edges(&self, function: &LoopContents<'_>) -> Vec<EdgeId> {
        let is_exempt = self.exempt_loops(function);
        let checked = function.loops.all().iter().zip(is_exempt).filter(|&(_, exempt)| !exempt);
        let mut edges: Vec<EdgeId> = checked.flat_map(|(each, _)| each.back_edges.iter().copied()).collect();
        edges.sort_unstable();
        edges
    }

    /// The loops whose back edges have no check because they are boring, enclosing loops first.
    #[must_use]
    pub fn boring_loops(&self, function: &LoopContents<'_>) -> Vec<LoopId> {
        match self.loops {
            LoopChecks::NotBoring { .. } => {
                let is_exempt = self.exempt_loops(function);
                function.loops.ids().filter(|id| is_exempt[id.index()]).collect()
            }
            LoopChecks::Every | LoopChecks::Never => Vec::new(),
        }
    }

    fn exempt_loops(&self, function: &LoopContents<'_>) -> Vec<bool> {
        match self.loops {
            LoopChecks::Every => vec![false; function.loops.all().len()],
            LoopChecks::Never => vec![true; function.loops.all().len()],
            LoopChecks::NotBoring { max_boring_events } => {
                let contents = loop_totals(function);
                contents.iter().map(|total| !total.has_call && total.events <= u64::from(max_boring_events)).collect()
            }
        }
    }
}

#[derive(Clone, Copy, Default)]
struct LoopTotal {
    events: u64,
    has_call: bool,
}

impl LoopTotal {
    fn add(&mut self, other: LoopTotal) {
        self.events += other.events;
        self.has_call |= other.has_call;
    }
}

/// Sums blocks into their innermost loops, and inner loops into the enclosing ones.
fn loop_totals(function: &LoopContents<'_>) -> Vec<LoopTotal> {
    let mut totals = vec![LoopTotal::default(); function.loops.all().len()];
    for block in function.graph.blocks() {
        if let Some(id) = function.loops.innermost(block) {
            let events = u64::from(function.events[block.index()]);
            totals[id.index()].add(LoopTotal { events, has_call: function.has_call[block.index()] });
        }
    }
    for id in function.loops.ids().rev() {
        if let Some(parent) = function.loops.get(id).parent {
            let inner = totals[id.index()];
            totals[parent.index()].add(inner);
        }
    }
    totals
}

impl FromStr for CheckPolicy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<CheckPolicy, PolicyError> {
        if text == "orig" {
            return Ok(CheckPolicy::ORIG);
        }
        let (mut entries, mut loops) = (None, None);
        for part in text.split('+') {
            let repeated = match part {
                "EL" => entries.replace(EntryChecks::NonLeaf).is_some(),
                "EC" => entries.replace(EntryChecks::CallCycles).is_some(),
                "EN" => entries.replace(EntryChecks::Never).is_some(),
                "LN" => loops.replace(LoopChecks::Never).is_some(),
                _ => loops.replace(boring_part(part)?).is_some(),
            };
            if repeated {
                return Err(PolicyError::Conflict(part.to_owned()));
            }
        }
        Ok(CheckPolicy { entries: entries.unwrap_or(EntryChecks::Every), loops: loops.unwrap_or(LoopChecks::Every) })
    }
}

fn boring_part(part: &str) -> Result<LoopChecks, PolicyError> {
    let digits = part.strip_prefix('L').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(max_boring_events) => Ok(LoopChecks::NotBoring { max_boring_events }),
        None => Err(PolicyError::UnknownPart(part.to_owned())),
    }
}

impl fmt::Display for CheckPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = match self.entries {
            EntryChecks::Every => "",
            EntryChecks::NonLeaf => "EL",
            EntryChecks::CallCycles => "EC",
            EntryChecks::Never => "EN",
        };
        let loops = match self.loops {
            LoopChecks::Every => String::new(),
            LoopChecks::NotBoring { max_boring_events } => format!("L{max_boring_events}"),
            LoopChecks::Never => "LN".to_owned(),
        };
        match (entries, loops.as_str()) {
            ("", "") => f.pad("orig"),
            ("", one) | (one, "") => f.pad(one),
            (entries, loops) => f.pad(&format!("{entries}+{loops}")),
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::UnknownPart(part) => {
                write!(
                    f,
                    "unknown check policy {part:?}; known are orig, EL, EC, EN, LN, L with a number, and E+L pairs"
                )
            }
            PolicyError::Conflict(part) => write!(f, "check policy part {part:?} contradicts an earlier part"),
        }
    }
}

impl std::error::Error for PolicyError {}
