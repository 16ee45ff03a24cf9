//! Whether every cycle of a module that the policy of checks speaks of meets a check.
//!
//! This is not asked of the policy but of the ways that walks have found, of all functions at once:
//! from block to block, from a call to who is called, and from it to where it returns. Those
//! without a check are left, and no cycle of them may
//!
//! * go from a function to another one or call, unless entries have no checks: then such ways are
//!   left out;
//! * have a way inside a function, unless that stays in a boring loop, or loops have no checks.
//!
//! What goes by addresses that only the thread knows is not seen here.

use emit::Original;
use flow::cfg::EdgeKind;
use flow::checks::{CheckPolicy, EntryChecks, LoopChecks};
use flow::graph::BlockId;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::walk::{Landing, Place, Walker};

/// Ways that make no check.
#[derive(Debug, Default)]
pub(crate) struct Unchecked {
    ways: Vec<Way>,
}

#[derive(Clone, Copy, Debug)]
struct Way {
    from: Original,
    to: Original,
    kind: Kind,
    /// Whether it passes what arrivals at the block do.
    arrives: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Inside a function.
    Inner,
    /// And inside a loop that is boring.
    Boring,
    /// To another function, or a call.
    Cross,
}

impl Walker<'_, '_> {
    /// Remembers a way from a block to where a walk has arrived.
    pub(crate) fn note_way(&mut self, from: BlockId, landing: &Landing) {
        let to = self.module.owned_block_at(self.id, self.module.base.offset(u64::from(landing.block.0)));
        self.note(from, landing, to.map_or(Kind::Cross, |to| self.kind_of(from, to)));
    }

    /// Remembers a call from a block to where a walk has arrived.
    pub(super) fn note_call(&mut self, from: BlockId, landing: &Landing) {
        self.note(from, landing, Kind::Cross);
    }

    fn note(&mut self, from: BlockId, landing: &Landing, kind: Kind) {
        let Some(function) = self.function.filter(|_| self.module.options.probe.trigger().is_some()) else { return };
        if !landing.is_checked {
            let from = self.module.original(function.cfg.block(from).range.start);
            let arrives = landing.place == Place::Before;
            self.unchecked.ways.push(Way { from, to: landing.block, kind, arrives });
        }
    }

    /// Remembers where the table leads by which a block ends.
    pub(super) fn note_table(&mut self, from: BlockId) {
        let Some(function) = self.function else { return };
        let cfg = &function.cfg;
        for edge in cfg.graph.out_edges(from).filter(|&edge| cfg.edge_facts(edge).kind == EdgeKind::JumpTable) {
            let Some(to) = cfg.graph.edge(edge).to else { continue };
            let block = self.module.original(cfg.block(to).range.start);
            let landing = Landing { block, place: Place::Before, is_checked: false, looked_at_limit: false };
            self.note_way(from, &landing);
        }
    }

    fn kind_of(&self, from: BlockId, to: BlockId) -> Kind {
        let Some(function) = self.function else { return Kind::Cross };
        let mut boring = function.loops.ids().filter(|&id| self.duties.is_boring(id));
        let is_inside = boring.any(|id| function.loops.contains(id, from) && function.loops.contains(id, to));
        if is_inside { Kind::Boring } else { Kind::Inner }
    }
}

impl Unchecked {
    /// Returns where a cycle is that should meet a check; `checking` are the blocks at which
    /// arrivals make one.
    pub fn cycle(&self, policy: CheckPolicy, checking: &FxHashSet<Original>) -> Option<Original> {
        let is_seen = |way: &&Way| way.kind != Kind::Cross || policy.entries != EntryChecks::Never;
        let is_unchecked = |way: &&Way| !(way.arrives && checking.contains(&way.to));
        let ways: Vec<Way> = self.ways.iter().filter(is_seen).filter(is_unchecked).copied().collect();
        let mut numbers: FxHashMap<Original, usize> = FxHashMap::default();
        let mut number = |block: Original| {
            let next = numbers.len();
            *numbers.entry(block).or_insert(next)
        };
        let mut numbered: Vec<(usize, usize, Way)> =
            ways.into_iter().map(|way| (number(way.from), number(way.to), way)).collect();
        numbered.sort_unstable_by_key(|&(from, to, _)| (from, to));
        let component = components(numbers.len(), &numbered);
        let must_check = |kind: Kind| match kind {
            Kind::Inner => policy.loops != LoopChecks::Never,
            Kind::Boring => false,
            Kind::Cross => true,
        };
        let on_cycle =
            |&&(from, to, way): &&(usize, usize, Way)| component[from] == component[to] && must_check(way.kind);
        numbered.iter().find(on_cycle).map(|&(_, _, way)| way.from)
    }
}

/// Returns for each of so many blocks which of them it shares cycles with, as a number. Ways are
/// sorted by where they start. (Two searches, the second backwards: Kosaraju.)
fn components(n_blocks: usize, ways: &[(usize, usize, Way)]) -> Vec<usize> {
    let forward: Vec<(usize, usize)> = ways.iter().map(|&(from, to, _)| (from, to)).collect();
    let mut backward: Vec<(usize, usize)> = ways.iter().map(|&(from, to, _)| (to, from)).collect();
    backward.sort_unstable();
    let mut is_seen = vec![false; n_blocks];
    let mut finished = Vec::with_capacity(n_blocks);
    for root in 0..n_blocks {
        search(&forward, root, &mut is_seen, &mut finished);
    }
    let mut component = vec![usize::MAX; n_blocks];
    let mut is_seen = vec![false; n_blocks];
    for root in finished.into_iter().rev() {
        let mut found = Vec::new();
        search(&backward, root, &mut is_seen, &mut found);
        found.into_iter().for_each(|block| component[block] = root);
    }
    component
}

/// Appends what can be reached from a block and has not been seen, each behind all that it leads
/// to.
fn search(ways: &[(usize, usize)], root: usize, is_seen: &mut [bool], finished: &mut Vec<usize>) {
    if std::mem::replace(&mut is_seen[root], true) {
        return;
    }
    let first = |block: usize| ways.partition_point(|&(from, _)| from < block);
    let mut open = vec![(root, first(root))];
    while let Some((block, next)) = open.last_mut() {
        match ways.get(*next).filter(|&&(from, _)| from == *block) {
            Some(&(_, to)) => {
                *next += 1;
                if !std::mem::replace(&mut is_seen[to], true) {
                    open.push((to, first(to)));
                }
            }
            None => {
                finished.push(*block);
                open.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether there is a cycle that should meet a check under each of these policies, if the ways
    /// are these and arrivals at block 9 check.
    fn cycles<const N: usize>(ways: &[(u32, u32, Kind)], policies: [&str; N]) -> [bool; N] {
        let way =
            |&(from, to, kind): &(u32, u32, Kind)| Way { from: Original(from), to: Original(to), kind, arrives: true };
        let unchecked = Unchecked { ways: ways.iter().map(way).collect() };
        let checking = [Original(9)].into_iter().collect();
        policies.map(|name| unchecked.cycle(name.parse().expect("a policy"), &checking).is_some())
    }

    #[test]
    fn ways_forward_are_no_cycles() {
        let ways = [(1, 2, Kind::Inner), (1, 3, Kind::Inner), (2, 3, Kind::Cross), (3, 4, Kind::Inner)];
        assert_eq!(cycles(&ways, ["orig"]), [false]);
    }

    #[test]
    fn what_a_policy_does_not_check_it_need_not() {
        let policies = ["orig", "EN", "LN", "L4"];
        let inner = [(1, 2, Kind::Inner), (2, 1, Kind::Inner), (2, 3, Kind::Cross)];
        assert_eq!(cycles(&inner, policies), [true, true, false, true]);
        let recursion = [(1, 2, Kind::Inner), (2, 1, Kind::Cross)];
        assert_eq!(cycles(&recursion, policies), [true, false, true, true]);
        let boring = [(1, 2, Kind::Boring), (2, 1, Kind::Boring), (2, 3, Kind::Inner)];
        assert_eq!(cycles(&boring, policies), [false; 4]);
        let nested = [(1, 2, Kind::Boring), (2, 1, Kind::Boring), (2, 3, Kind::Inner), (3, 1, Kind::Inner)];
        assert_eq!(cycles(&nested, policies), [true, true, false, true]);
    }

    #[test]
    fn arrivals_that_check_break_cycles() {
        let ways = [(1, 9, Kind::Inner), (9, 1, Kind::Cross)];
        assert_eq!(cycles(&ways, ["orig", "EC"]), [false; 2]);
        let to_itself = [(4, 4, Kind::Inner), (9, 9, Kind::Inner)];
        assert_eq!(cycles(&to_itself, ["orig", "LN"]), [true, false]);
        assert_eq!(cycles(&to_itself[1..], ["orig"]), [false]);
    }
}
