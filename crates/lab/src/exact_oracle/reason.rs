//! Why a count can differ that both observers have right, or that strobe says it does not have.
//!
//! Some reasons show in the counts themselves ([`Explainer::of_flow`]), so that little else can
//! hide behind them. Others are places where the two runs are not the same program, however alike
//! their conditions: these go by function ([`Explainer::of_function`]).

use std::collections::{HashMap, HashSet};

use flow::{FunctionFlow, Transfer};
use iced_x86::{CpuidFeature, Instruction, Mnemonic};
use image::Svma;

use super::compare::{Finding, Reason};
use super::counts::{Counts, Place};
use crate::oracle::Index;

/// Functions in which the two runs are not the same program.
const ELSEWHERE: &[(Reason, &str, &[&str])] = &[
    (Reason::Vdso, "ld-linux-x86-64.so.2", &["_dl_fini", "_dl_sort_maps", "dfs_traversal.part.0", "memcpy"]),
    (
        Reason::Vdso,
        LIBC,
        &["time", "time_syscall", "__gettimeofday", "__gettimeofday_syscall", "clock_getres", "clock_gettime"],
    ),
    (
        Reason::Runtime,
        LIBC,
        &["__register_atfork", "__unregister_atfork", "pthread_key_create", "__libc_sigaction", "sigaction", "signal"],
    ),
];
const LIBC: &str = "libc.so.6";
/// How the names of string functions begin, of which there is one for each kind of processor.
const STRING_FUNCTIONS: [&str; 4] = ["__str", "__mem", "__wcs", "__wmem"];
const FOR_PROCESSOR: &str = "_sse2";
/// What `malloc` does when the heap cannot grow.
const HEAP_HAS_ENDED: &str = "sysmalloc_mmap_fallback.constprop.0";
/// What `malloc` is made of, and what it calls.
const ALLOCATOR: [&str; 18] = [
    "__default_morecore",
    "_int_free",
    "_int_malloc",
    "_int_memalign",
    "_int_realloc",
    "alloc_perturb",
    "brk",
    "calloc",
    "malloc",
    "malloc_consolidate",
    "memcpy",
    "mmap",
    "realloc",
    "sbrk",
    "sysmalloc",
    HEAP_HAS_ENDED,
    "systrim.constprop.0",
    "unlink_chunk.constprop.0",
];

/// Finds reasons in one file.
#[derive(Debug)]
pub struct Explainer<'a> {
    index: &'a Index<'a>,
    file: &'a str,
    names: &'a HashMap<u64, Vec<String>>,
    callgrind: &'a Counts,
    strobe: &'a Counts,
    counts_paths: bool,
    /// Calls that did not return, by entry of the function.
    n_unreturned: HashMap<Svma, u64>,
    /// Entries of functions that ask for the processor, and of those that only they call.
    with_cpuid: HashSet<Svma>,
    /// Entries of functions that execute x87 instructions.
    with_x87: HashSet<Svma>,
    /// Whether the heap ended under callgrind alone.
    has_heap_ended: bool,
}

impl<'a> Explainer<'a> {
    /// `names` are names of functions by their entry, `counts` those of callgrind and strobe, and
    /// `counts_paths` is what strobe counted.
    #[must_use]
    pub fn new(
        index: &'a Index<'a>,
        file: &'a str,
        names: &'a HashMap<u64, Vec<String>>,
        [callgrind, strobe]: [&'a Counts; 2],
        counts_paths: bool,
    ) -> Explainer<'a> {
        let n_unreturned = unreturned_calls(index, callgrind);
        let with_cpuid = functions_with(index, callgrind, |insn| insn.mnemonic() == Mnemonic::Cpuid);
        let with_cpuid = with_helpers(index, callgrind, with_cpuid);
        let with_x87 = functions_with(index, callgrind, |insn| insn.cpuid_features().contains(&CpuidFeature::FPU));
        let is_fallback = |(_, names): &(&u64, &Vec<String>)| names.iter().any(|name| name == HEAP_HAS_ENDED);
        let fallback = names.iter().find(is_fallback).map(|(&entry, _)| Place::Instruction(Svma(entry)));
        let has_heap_ended =
            file == LIBC && fallback.is_some_and(|entry| count(callgrind, entry) > 0 && count(strobe, entry) == 0);
        Explainer {
            index,
            file,
            names,
            callgrind,
            strobe,
            counts_paths,
            n_unreturned,
            with_cpuid,
            with_x87,
            has_heap_ended,
        }
    }

    /// The reason why a count differs, if it has one.
    #[must_use]
    pub fn reason(&self, finding: &Finding) -> Option<Reason> {
        let function = self.index.function(finding.place.at())?;
        self.of_flow(function, finding).or_else(|| self.of_function(function))
    }

    fn of_function(&self, function: &FunctionFlow) -> Option<Reason> {
        if self.with_cpuid.contains(&function.entry) {
            return Some(Reason::Processor);
        }
        if self.with_x87.contains(&function.entry) {
            return Some(Reason::Precision);
        }
        let names = self.names.get(&function.entry.0)?;
        let is_listed = |(_, file, functions): &&(Reason, &str, &[&str])| {
            *file == self.file && names.iter().any(|name| functions.contains(&name.as_str()))
        };
        if let Some(&(reason, ..)) = ELSEWHERE.iter().find(is_listed) {
            return Some(reason);
        }
        let is_string_function = |name: &String| {
            STRING_FUNCTIONS.iter().any(|start| name.starts_with(start)) && name.contains(FOR_PROCESSOR)
        };
        let entry = Place::Instruction(function.entry);
        let is_called_as_often = count(self.callgrind, entry) == count(self.strobe, entry);
        let is_of_strings = names.iter().any(is_string_function);
        if self.file == LIBC && is_called_as_often && is_of_strings {
            return Some(Reason::Alignment);
        }
        let is_allocator = names.iter().any(|name| ALLOCATOR.contains(&name.as_str()));
        (self.has_heap_ended && (is_allocator || is_of_strings)).then_some(Reason::Heap)
    }

    fn of_flow(&self, function: &FunctionFlow, finding: &Finding) -> Option<Reason> {
        let Finding { place, callgrind, strobe, .. } = *finding;
        if strobe == callgrind + 1 && self.is_last_block(function, place.at()) {
            return Some(Reason::End);
        }
        if strobe > callgrind {
            return None;
        }
        if let Place::Instruction(at) = place
            && self.is_charged_with_stub(function, at, strobe)
        {
            return Some(Reason::Stub);
        }
        if let Place::Edge(from, _) = place
            && self.edges_from(function, from) < count(self.strobe, Place::Instruction(from))
        {
            return Some(Reason::Undetermined);
        }
        if !self.counts_paths {
            return None;
        }
        let n_unreturned = self.n_unreturned.get(&function.entry).copied().unwrap_or(0);
        (callgrind - strobe <= n_unreturned).then_some(Reason::Unfinished)
    }

    /// Whether the block has a system call that callgrind never saw.
    fn is_last_block(&self, function: &FunctionFlow, at: Svma) -> bool {
        let mut blocks = function.cfg.blocks.iter().filter(|block| block.range.contains(at));
        blocks.any(|block| {
            let first = block.range.start;
            let insns = std::iter::successors(self.index.instruction(first), |insn| {
                self.index.instruction(Svma(insn.next_ip())).filter(|next| block.range.contains(Svma(next.ip())))
            });
            let mut system_calls = insns.filter(|insn| insn.mnemonic() == Mnemonic::Syscall);
            system_calls.any(|insn| {
                let place = Place::Instruction(Svma(insn.ip()));
                count(self.strobe, place) == count(self.callgrind, place) + 1
            })
        })
    }

    /// Whether callgrind itself says that the instruction before an indirect call or jump was
    /// executed as often as strobe says of that.
    fn is_charged_with_stub(&self, function: &FunctionFlow, at: Svma, strobe: u64) -> bool {
        let is_indirect =
            |insn: &Instruction| matches!(Transfer::of(insn), Transfer::IndirectCall | Transfer::IndirectJump);
        let Some(block) = function.cfg.blocks.iter().find(|block| block.range.contains(at)) else { return false };
        let first = Place::Instruction(block.range.start);
        block.range.start != at
            && self.index.instruction(at).as_ref().is_some_and(is_indirect)
            && count(self.callgrind, first) == strobe
    }

    /// How often a jump went somewhere, according to strobe.
    fn edges_from(&self, function: &FunctionFlow, from: Svma) -> u64 {
        let cfg = &function.cfg;
        let Some(block) = cfg.graph.blocks().find(|&block| cfg.block(block).last() == from) else { return 0 };
        let targets = cfg.graph.out_edges(block).filter_map(|edge| cfg.edge_facts(edge).target);
        targets.map(|to| count(self.strobe, Place::Edge(from, to))).sum()
    }
}

fn count(counts: &Counts, place: Place) -> u64 {
    counts.get(&place).copied().unwrap_or(0)
}

/// By entry of the function: calls that were executed more often than what follows them, as far as
/// that was not reached by jumps; and the block in which the program ended, which jumps reached
/// more often than callgrind says that it was executed.
fn unreturned_calls(index: &Index<'_>, counts: &Counts) -> HashMap<Svma, u64> {
    let mut arrivals: HashMap<Svma, u64> = HashMap::new();
    for (place, n) in counts {
        if let Place::Edge(_, to) = *place {
            *arrivals.entry(to).or_default() += n;
        }
    }
    let mut unreturned: HashMap<Svma, u64> = HashMap::new();
    for (&to, &n) in &arrivals {
        let n_vanished = n.saturating_sub(count(counts, Place::Instruction(to)));
        if let Some(function) = index.function(to).filter(|_| n_vanished != 0 && !index.is_outside_text(to)) {
            *unreturned.entry(function.entry).or_default() += n_vanished;
        }
    }
    for (&place, &n) in counts {
        let Place::Instruction(at) = place else { continue };
        let Some(insn) = index.instruction(at) else { continue };
        let is_call = matches!(Transfer::of(&insn), Transfer::Call(_) | Transfer::IndirectCall);
        if let Some(function) = index.function(at).filter(|_| is_call) {
            let site = Svma(insn.next_ip());
            let executed = count(counts, Place::Instruction(site));
            let n_returned = executed.saturating_sub(arrivals.get(&site).copied().unwrap_or(0));
            *unreturned.entry(function.entry).or_default() += n.saturating_sub(n_returned);
        }
    }
    unreturned
}

/// Entries of functions that execute certain instructions.
fn functions_with(index: &Index<'_>, counts: &Counts, is_such: impl Fn(&Instruction) -> bool) -> HashSet<Svma> {
    let entries = counts.keys().filter_map(|&place| {
        let Place::Instruction(at) = place else { return None };
        let insn = index.instruction(at).filter(&is_such)?;
        index.function(Svma(insn.ip())).map(|function| function.entry)
    });
    entries.collect()
}

/// With functions that are called directly, and by these functions alone.
fn with_helpers(index: &Index<'_>, counts: &Counts, functions: HashSet<Svma>) -> HashSet<Svma> {
    let mut is_called_elsewhere: HashMap<Svma, bool> = HashMap::new();
    for place in counts.keys() {
        let Place::Call(from, to) = *place else { continue };
        let is_elsewhere = index.function(from).is_none_or(|caller| !functions.contains(&caller.entry));
        *is_called_elsewhere.entry(to).or_default() |= is_elsewhere;
    }
    let helpers = is_called_elsewhere.into_iter().filter(|&(_, is_elsewhere)| !is_elsewhere).map(|(to, _)| to);
    helpers.collect::<HashSet<Svma>>().union(&functions).copied().collect()
}
