//! Live registers of copies that are never left, by what the functions of a module have agreed on.
//!
//! Code that is compiled together may pass anything in any register, and does (`-fipa-ra`,
//! assembly). But whatever functions of the module have agreed on with each other shows in them;
//! with others they keep to the calling convention. What this takes for granted is that convention,
//! and that unwind information tells where a return finds its address. What is not shown is live:
//!
//! * **A return** needs what callers may need: by the convention if it is certain to be one to the
//!   caller, else everything; and what is live behind any direct call. Of that, a register that the
//!   callee may have changed is needed only if somebody is known to read it: it was lost anyway, if
//!   nobody does.
//! * **A call** needs what the callee reads, and what it cannot change. Unknown code reads what the
//!   convention allows, of what may have been set since a call before has overwritten it; and `r11`
//!   only in a module of which a function reads it at once.
//! * **A module that breaks the convention**, by reading scratch registers behind calls of unknown
//!   code at more than one place in so many, has results in all of them.
//! * **The dynamic linker** has entries with conventions of its own.
//!
//! Callees are asked apart from callers, so that what one caller needs is not taken for what
//! another passes: first for what callees read, with and without what is behind jumps to unknown
//! places, then for what callers read, and then for what is live.

use flow::ModuleFlow;
use flow::graph::BlockId;
use image::{Image, SymbolSource};

use super::Registers;
use super::evidence::{Callee, End, Evidence, KEPT, R11, SCRATCH};
use super::set::Set;

const ALL: Set = Set::REGISTERS;
/// One place in so many may read a scratch register behind a call: the graph has ways that are
/// never taken.
const LEAST_CONVENTIONAL: usize = 50;
/// Whoever exports this is the dynamic linker.
const LINKER_ENTRY: &str = "__tls_get_addr";

/// By function and block.
type OfBlocks = Vec<Vec<Set>>;

/// Works out what is live.
pub(super) fn registers(image: &Image<'_>, flow: &ModuleFlow) -> Registers {
    let module = Module::new(image, flow);
    let read_by_callees =
        |has_unknown| module.solve(&Pass { callees: None, has_unknown, callers: Callers::Convention });
    let (known, all) = (read_by_callees(false), read_by_callees(true));
    let read = module.solve(&Pass { callees: Some(&known.0), has_unknown: false, callers: Callers::Known });
    let pass = Pass { callees: Some(&all.0), has_unknown: true, callers: Callers::All { known: &read.0 } };
    let (at_start, at_return) = module.solve(&pass);
    let at_end = (0..at_start.len()).map(|function| {
        let blocks = 0..at_start[function].len();
        blocks.map(|block| module.at_end(&pass, &at_start, at_return[function], function, block) & ALL).collect()
    });
    let at_end = at_end.collect();
    Registers { at_start: at_start.into_iter().map(registers_of).collect(), at_end }
}

fn registers_of(sets: Vec<Set>) -> Vec<Set> {
    sets.into_iter().map(|set| set & ALL).collect()
}

struct Module<'a> {
    flow: &'a ModuleFlow,
    functions: Vec<Evidence>,
    /// By function: who calls it or jumps to it.
    callers: Vec<Vec<usize>>,
    /// By function: what it and whoever it calls may change.
    changed: Vec<Set>,
    /// By function and block: what may have been set at its end, since a call has overwritten it.
    set: OfBlocks,
    /// By function: what a return needs whoever has called.
    at_return: Vec<Set>,
    /// What unknown code returns beside `rax` and `rdx`.
    odd_results: Set,
    /// What unknown code may read.
    arguments: Set,
}

/// A question to all functions, answered by the least sets that agree with each other.
struct Pass<'a> {
    /// What callees read; `None`: as this pass finds.
    callees: Option<&'a OfBlocks>,
    /// Whether code behind jumps to unknown places may read everything.
    has_unknown: bool,
    callers: Callers<'a>,
}

/// What returns need.
enum Callers<'a> {
    /// What the convention says.
    Convention,
    /// And what callers need that are known.
    Known,
    /// And, of registers that the callee changes, only what known callers read.
    All { known: &'a OfBlocks },
}

impl<'a> Module<'a> {
    fn new(image: &Image<'_>, flow: &'a ModuleFlow) -> Module<'a> {
        let functions: Vec<Evidence> =
            flow.functions.iter().map(|function| Evidence::new(image, flow, function)).collect();
        let count = |of: fn(&Evidence) -> usize| functions.iter().map(of).sum::<usize>();
        let (n_sites, n_odd_sites) = (count(|each| each.n_sites), count(|each| each.n_odd_sites));
        let odd_results = if n_odd_sites * LEAST_CONVENTIONAL > n_sites { SCRATCH } else { Set::NONE };
        let takes_r11 = functions.iter().any(|each| each.takes_r11);
        let exports = |name: &str| {
            image.symbols().iter().any(|symbol| symbol.source == SymbolSource::Dynsym && symbol.name == name)
        };
        let is_linker = exports(LINKER_ENTRY);
        let at_return = functions.iter().zip(flow.shares_code()).map(|(each, shares)| match each.results {
            Some(results) if !shares && !is_linker => (ALL - SCRATCH) | results | odd_results,
            _ => ALL,
        });
        let mut module = Module {
            flow,
            callers: callers(&functions),
            changed: Vec::new(),
            set: Vec::new(),
            at_return: at_return.collect(),
            odd_results,
            arguments: if takes_r11 { ALL } else { ALL - R11 },
            functions,
        };
        module.changed = module.changed();
        module.set = (0..module.functions.len()).map(|function| module.set_in(function)).collect();
        module
    }

    fn changed(&self) -> Vec<Set> {
        let own = self.functions.iter().map(|each| {
            each.blocks.iter().fold(Set::NONE, |all, block| {
                let is_unknown = match block.end {
                    End::Call(callee) | End::TailCall(callee) | End::LastCall(callee) => {
                        !matches!(callee, Callee::Known(..))
                    }
                    End::Unknown => true,
                    End::Within | End::Return | End::Trap => false,
                };
                all | block.written | if is_unknown { ALL - KEPT } else { Set::NONE }
            })
        });
        let mut changed: Vec<Set> = own.collect();
        self.until_settled(|function| {
            let before = changed[function];
            let callees = self.functions[function].blocks.iter().filter_map(|block| called(block.end));
            let all = callees.fold(before, |all, (callee, _)| all | changed[callee]);
            changed[function] = all;
            if all == before { Vec::new() } else { self.callers[function].clone() }
        });
        changed
    }

    /// Returns, by block, the registers that may have been set at its end, since a call has
    /// overwritten them.
    fn set_in(&self, function: usize) -> Vec<Set> {
        let (graph, evidence) = (&self.flow.functions[function].cfg.graph, &self.functions[function]);
        let n_blocks = evidence.blocks.len();
        if evidence.blocks.iter().any(|block| block.end == End::Unknown) {
            return vec![ALL; n_blocks];
        }
        let kept = (ALL - SCRATCH) | self.odd_results;
        let mut at_start = vec![Set::NONE; n_blocks];
        graph.entries().iter().for_each(|entry| at_start[entry.index()] = ALL);
        loop {
            let mut has_grown = false;
            for block in graph.blocks() {
                let facts = &evidence.blocks[block.index()];
                let before = at_start[block.index()] | facts.written;
                let behind = match facts.end {
                    End::Call(Callee::Known(callee, _)) => {
                        (before - self.changed[callee]) | kept | self.functions[callee].results.unwrap_or(ALL)
                    }
                    End::Call(_) => kept,
                    _ => before,
                };
                for next in graph.successors(block) {
                    let more = at_start[next.index()] | behind;
                    has_grown |= std::mem::replace(&mut at_start[next.index()], more) != more;
                }
            }
            if !has_grown {
                return at_start.iter().zip(&evidence.blocks).map(|(&set, facts)| set | facts.written).collect();
            }
        }
    }

    /// Asks functions until nobody has to be asked again: all of them once, and then whom an answer
    /// names.
    fn until_settled(&self, mut ask: impl FnMut(usize) -> Vec<usize>) {
        let mut is_stale = vec![true; self.functions.len()];
        while is_stale.contains(&true) {
            for function in 0..is_stale.len() {
                if std::mem::take(&mut is_stale[function]) {
                    ask(function).into_iter().for_each(|other| is_stale[other] = true);
                }
            }
        }
    }

    /// Returns what is live at the start of every block, and at the returns of every function.
    fn solve(&self, pass: &Pass<'_>) -> (OfBlocks, Vec<Set>) {
        let mut live: OfBlocks = self.functions.iter().map(|each| vec![Set::NONE; each.blocks.len()]).collect();
        let mut at_return = self.at_return.clone();
        self.until_settled(|function| {
            let mut has_grown = false;
            loop {
                let mut changed = false;
                for block in (0..live[function].len()).rev() {
                    let behind = self.at_end(pass, &live, at_return[function], function, block);
                    let before = self.functions[function].blocks[block].effect.before(behind);
                    changed |= std::mem::replace(&mut live[function][block], before) != before;
                }
                has_grown |= changed;
                if !changed {
                    break;
                }
            }
            match pass.callers {
                Callers::Convention if has_grown => self.callers[function].clone(),
                Callers::Convention => Vec::new(),
                Callers::Known | Callers::All { .. } => self.demand(pass, &live, &mut at_return, function),
            }
        });
        (live, at_return)
    }

    /// Lets the returns of callees need what the function needs behind its calls. Returns whose
    /// returns need more.
    fn demand(&self, pass: &Pass<'_>, live: &OfBlocks, at_return: &mut [Set], function: usize) -> Vec<usize> {
        let mut stale = Vec::new();
        for (block, facts) in self.functions[function].blocks.iter().enumerate() {
            let demanded = match (facts.end, &pass.callers) {
                (End::Call(Callee::Known(callee, _)), Callers::All { known }) => {
                    let untouched = self.behind(live, function, block) - self.changed[callee];
                    (callee, untouched | self.behind(known, function, block))
                }
                (End::Call(Callee::Known(callee, _)), _) => (callee, self.behind(live, function, block)),
                (End::TailCall(Callee::Known(callee, _)), _) => (callee, at_return[function]),
                _ => continue,
            };
            let (callee, more) = demanded;
            if !(more - at_return[callee]).is_empty() {
                at_return[callee] = at_return[callee] | more;
                stale.push(callee);
            }
        }
        stale
    }

    /// Returns what is live at the end of a block: before a call, but for its operands.
    fn at_end(&self, pass: &Pass<'_>, live: &OfBlocks, at_return: Set, function: usize, block: usize) -> Set {
        let behind = self.behind(live, function, block);
        let read_by = |callee| match callee {
            Callee::Known(callee, entry) => pass.callees.unwrap_or(live)[callee][entry],
            Callee::Conventional => self.arguments & self.set[function][block] | KEPT,
            Callee::Any => ALL,
        };
        match self.functions[function].blocks[block].end {
            End::Within => behind,
            End::Call(callee @ Callee::Known(..)) => read_by(callee) | KEPT | behind,
            End::Call(callee) => read_by(callee) | behind & self.odd_results,
            // A conditional jump may also go on.
            End::TailCall(callee) => read_by(callee) | at_return | behind,
            End::LastCall(callee) => read_by(callee) | KEPT,
            End::Return => at_return,
            // Handlers see everything, and can go on from there.
            End::Trap => ALL,
            End::Unknown if pass.has_unknown || self.functions[function].results.is_none() => ALL,
            End::Unknown => behind,
        }
    }

    fn behind(&self, live: &OfBlocks, function: usize, block: usize) -> Set {
        let next = self.flow.functions[function].cfg.graph.successors(BlockId(block as u32));
        next.fold(Set::NONE, |all, next| all | live[function][next.index()])
    }
}

fn called(end: End) -> Option<(usize, usize)> {
    match end {
        End::Call(callee) | End::TailCall(callee) | End::LastCall(callee) => match callee {
            Callee::Known(function, block) => Some((function, block)),
            Callee::Conventional | Callee::Any => None,
        },
        End::Within | End::Return | End::Trap | End::Unknown => None,
    }
}

fn callers(functions: &[Evidence]) -> Vec<Vec<usize>> {
    let mut callers = vec![Vec::new(); functions.len()];
    for (caller, evidence) in functions.iter().enumerate() {
        for (callee, _) in evidence.blocks.iter().filter_map(|block| called(block.end)) {
            if callers[callee].last() != Some(&caller) {
                callers[callee].push(caller);
            }
        }
    }
    callers
}
