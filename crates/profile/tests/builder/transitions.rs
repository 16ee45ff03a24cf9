//! Every way to get from one block to another, on code made by hand.

use std::sync::Arc;

use profile::builder::{BlockRef, Builder, Burst, Options, Place, Tick};
use profile::code::{CodeBlock, CodeFunction, CodeLoop, ModuleCode, NO_LOOP};
use profile::model::BlockEnd::{self, Branch, Call, IndirectJump, Jump, Next, Return};
use profile::model::EdgeKind::{self, FallThrough, NonLocal, PastCall, Table, Taken};
use profile::model::{ModuleId, Profile};

const SIZE: u32 = 8;

/// Code of blocks of one size; a function's blocks are consecutive.
#[derive(Default)]
struct Code(ModuleCode);

impl Code {
    /// Adds a function with these blocks: how they end, and the index of the target.
    fn function(mut self, blocks: &[(BlockEnd, u32)]) -> Code {
        let function = self.0.functions.len() as u32;
        let address = 0x1000 * u64::from(function + 1);
        self.0.functions.push(CodeFunction { address, size: u64::from(SIZE) * blocks.len() as u64, is_stub: false });
        for (index, &(end, target)) in blocks.iter().enumerate() {
            self.0.blocks.push(CodeBlock {
                address: address + u64::from(SIZE) * index as u64,
                size: SIZE,
                last: SIZE - 4,
                n_insns: 2,
                function,
                end,
                target: u64::from(target),
                innermost_loop: NO_LOOP,
                is_entry: index == 0,
            });
        }
        self
    }

    /// Makes the function that was added last a stub of the linkage table.
    fn stub(mut self) -> Code {
        self.0.functions.last_mut().expect("a function").is_stub = true;
        self
    }

    fn landing_pad(mut self, block: u32) -> Code {
        self.0.blocks[block as usize].is_entry = true;
        self
    }

    /// Puts blocks into a new loop with this header and these back edges.
    fn with_loop(mut self, header: u32, parent: u32, blocks: &[u32], from: &[u32]) -> Code {
        let index = self.0.loops.len() as u32;
        self.0.loops.push(CodeLoop { header, parent });
        for &block in blocks {
            self.0.blocks[block as usize].innermost_loop = index;
        }
        self.0.cuts.extend(from.iter().map(|&from| (from, header)));
        self
    }

    fn link(mut self) -> ModuleCode {
        let addresses: Vec<u64> = self.0.blocks.iter().map(|block| block.address).collect();
        for block in &mut self.0.blocks {
            if matches!(block.end, Jump | Branch | Call) {
                block.target = addresses[block.target as usize];
            }
        }
        self.0.cuts.sort_unstable();
        self.0.check().expect("sound code");
        self.0
    }
}

/// A profile of bursts, each with the blocks whose calls are in progress.
fn profile(code: ModuleCode, bursts: &[(&[u32], &[u32])]) -> Profile {
    let mut builder = Builder::new(Options::COMPLETE);
    let module = builder.module("a", "");
    let code = Arc::new(code);
    let first = builder.set_code(module, code.clone()).expect("numbers");
    for (callers, blocks) in bursts {
        tick(&mut builder, module, &code, first, callers, blocks);
    }
    let profile = builder.profile();
    assert_eq!(profile.verify(), []);
    profile
}

fn tick(builder: &mut Builder, module: ModuleId, code: &ModuleCode, first: BlockRef, callers: &[u32], blocks: &[u32]) {
    let place =
        |block: u32, offset: u64| Place { module: Some(module), address: code.blocks[block as usize].address + offset };
    let stack: Vec<Place> = callers.iter().map(|&call| place(call, u64::from(SIZE) - 1)).collect();
    let refs: Vec<BlockRef> = blocks.iter().map(|&block| BlockRef(first.0 + block)).collect();
    let thread = builder.thread(1, 1, "a");
    builder.tick(&Tick {
        thread,
        cpu_ns: 10,
        outcome: "burst",
        is_kernel: false,
        place: place(blocks[0], 0),
        stack: &stack,
        burst: Some(Burst {
            blocks: &refs,
            starts_mid_block: false,
            last_ran: true,
            taken: profile::builder::Taken::ALL,
            spent_ns: 10.0,
            n_system_calls: 0,
        }),
    });
}

/// Index of a block in the order of the code, from its row.
fn block(profile: &Profile, code: &ModuleCode, id: profile::model::BlockId) -> u32 {
    code.block_at(profile.blocks[id.index()].address).expect("a block of the code")
}

fn edges(profile: &Profile, code: &ModuleCode) -> Vec<(u32, u32, EdgeKind, f64)> {
    let row = |edge: &profile::model::Edge| {
        (block(profile, code, edge.from), block(profile, code, edge.to), edge.kind, edge.count.value)
    };
    profile.edges.iter().map(row).collect()
}

fn paths(profile: &Profile, code: &ModuleCode) -> Vec<(Vec<u32>, Option<u32>, f64)> {
    let index = |&id: &profile::model::BlockId| block(profile, code, id);
    let row = |path: &profile::model::Path| {
        (path.blocks.iter().map(index).collect(), path.back_to.as_ref().map(index), path.count.value)
    };
    profile.paths.iter().map(row).collect()
}

/// Contexts as functions from the root, with entries.
fn contexts(profile: &Profile) -> Vec<(Vec<u32>, f64)> {
    let mut names: Vec<Vec<u32>> = Vec::new();
    for context in &profile.contexts {
        let mut name = context.parent.map_or_else(Vec::new, |parent| names[parent.index()].clone());
        name.push(context.function.0);
        names.push(name);
    }
    names.into_iter().zip(profile.contexts.iter().map(|context| context.entries.value)).collect()
}

/// 0 calls 2; 1 returns | 2 returns.
fn caller_and_callee() -> ModuleCode {
    Code::default().function(&[(Call, 2), (Return, 0)]).function(&[(Return, 0)]).link()
}

#[test]
fn call_and_return() {
    let code = caller_and_callee();
    let profile = profile(code.clone(), &[(&[], &[0, 2, 1])]);
    assert_eq!(edges(&profile, &code), [(0, 1, PastCall, 1.0)]);
    assert_eq!(paths(&profile, &code), [(vec![2], None, 1.0)]);
    assert_eq!(contexts(&profile), [(vec![0], 0.0), (vec![0, 1], 1.0)]);
    assert_eq!(profile.calls.len(), 1);
    assert_eq!(profile.functions[1].entries.value, 1.0);
}

#[test]
fn return_to_a_call_from_before_the_burst() {
    let code = caller_and_callee();
    let profile = profile(code.clone(), &[(&[0], &[2, 1])]);
    assert_eq!(edges(&profile, &code), [(0, 1, PastCall, 1.0)]);
    assert_eq!(paths(&profile, &code), [(vec![2], None, 1.0)]);
    assert_eq!(contexts(&profile), [(vec![0], 0.0), (vec![0, 1], 0.0)]);
    assert!(profile.calls.is_empty());
}

#[test]
fn tail_call_takes_the_place_of_its_caller() {
    // 0 calls 2; 1 returns | 2 jumps to 3 | 3 returns
    let code = Code::default().function(&[(Call, 2), (Return, 0)]).function(&[(Jump, 3)]).function(&[(Return, 0)]);
    let code = code.link();
    let profile = profile(code.clone(), &[(&[], &[0, 2, 3, 1])]);
    assert_eq!(paths(&profile, &code), [(vec![2], None, 1.0), (vec![3], None, 1.0)]);
    assert_eq!(contexts(&profile), [(vec![0], 0.0), (vec![0, 1], 1.0), (vec![0, 2], 1.0)]);
    let tails: Vec<bool> = profile.calls.iter().map(|call| call.is_tail).collect();
    assert_eq!(tails, [false, true]);
}

#[test]
fn recursion_folds() {
    // 0 branches to 2; 1 calls 0; 2 returns
    let code = Code::default().function(&[(Branch, 2), (Call, 0), (Return, 0)]).link();
    let profile = profile(code.clone(), &[(&[], &[0, 1, 0, 1, 0, 2, 2, 2])]);
    assert_eq!(contexts(&profile), [(vec![0], 0.0)]);
    assert_eq!(profile.recursions.len(), 1);
    assert_eq!(profile.recursions[0].count.value, 2.0);
    assert_eq!(paths(&profile, &code), [(vec![0, 1, 2], None, 1.0), (vec![0, 2], None, 1.0)]);
}

#[test]
fn longjmp_skips_frames() {
    // 0 calls 3, setjmp; 1 calls 4; 2 returns | 3 returns | 4 calls 6; 5 returns | 6 jumps anywhere
    let code = Code::default()
        .function(&[(Call, 3), (Call, 4), (Return, 0)])
        .function(&[(Return, 0)])
        .function(&[(Call, 6), (Return, 0)])
        .function(&[(IndirectJump, 0)])
        .link();
    let profile = profile(code.clone(), &[(&[], &[0, 3, 1, 4, 6, 1, 4, 6, 2])]);
    let expected = [(0, 1, PastCall, 1.0), (1, 1, NonLocal, 1.0), (1, 2, PastCall, 1.0)];
    assert_eq!(edges(&profile, &code), expected);
    assert_eq!(paths(&profile, &code), [(vec![3], None, 1.0)]);
    assert_eq!(contexts(&profile).len(), 4);
}

#[test]
fn exception_goes_to_a_landing_pad() {
    // 0 calls 3; 1 returns; 2, the landing pad, returns | 3 calls 5; 4 returns | 5, the unwinder,
    // returns
    let code = Code::default()
        .function(&[(Call, 3), (Return, 0), (Return, 0)])
        .landing_pad(2)
        .function(&[(Call, 5), (Return, 0)])
        .function(&[(Return, 0)])
        .link();
    // The function itself is called from 0 of another one, so that the path from the landing pad
    // ends.
    let profile = profile(code.clone(), &[(&[0], &[0, 3, 5, 2, 1])]);
    assert_eq!(edges(&profile, &code), [(0, 1, PastCall, 1.0), (0, 2, NonLocal, 1.0)]);
    assert_eq!(paths(&profile, &code), [(vec![2], None, 1.0)]);
}

#[test]
fn nested_loops_have_trips() {
    // 0; 1, outer header; 2, inner header, to 4; 3 back to 2; 4 back to 1, or 5
    let ends = [(Next, 0), (Next, 0), (Branch, 4), (Jump, 2), (Branch, 1), (Return, 0)];
    let code = Code::default().function(&ends).with_loop(1, NO_LOOP, &[1, 4], &[4]).with_loop(2, 0, &[2, 3], &[3]);
    let code = code.link();
    let trace = [0, 1, 2, 3, 2, 3, 2, 3, 2, 4, 1, 2, 4, 5];
    let profile = profile(code.clone(), &[(&[], &trace)]);
    let [outer, inner] = &profile.loops[..] else { panic!("two loops") };
    assert_eq!((outer.entries.value, outer.iterations.value), (1.0, 2.0));
    assert_eq!(outer.trips, [0, 1]);
    assert_eq!((inner.entries.value, inner.iterations.value), (2.0, 5.0));
    assert_eq!(inner.trips, [1, 0, 1]);
    assert_eq!((inner.parent, inner.n_partial_visits), (Some(profile::model::LoopId(0)), 0));
    let ends: Vec<Option<u32>> = paths(&profile, &code).into_iter().map(|(_, back_to, _)| back_to).collect();
    assert_eq!(ends, [Some(2), Some(2), Some(1)], "the last path was not seen to end");
}

#[test]
fn irreducible_loop_can_be_entered_at_the_side() {
    // 0 branches to 2; 1, header; 2 back to 1, or 3
    let code = Code::default().function(&[(Branch, 2), (Next, 0), (Branch, 1), (Return, 0)]);
    let code = code.with_loop(1, NO_LOOP, &[1, 2], &[2]).link();
    let profile = profile(code.clone(), &[(&[], &[0, 2, 1, 2, 3])]);
    let each = &profile.loops[0];
    assert_eq!((each.entries.value, each.iterations.value), (1.0, 1.0));
    assert_eq!((each.trips.len(), each.n_partial_visits), (0, 1));
    assert_eq!(paths(&profile, &code)[0], (vec![0, 2], Some(1), 1.0));
}

#[test]
fn switch_and_branch_ways() {
    // 0 switches to 1 or 2; 1 jumps to 3; 2; 3 branches to 5; 4; 5 returns
    let code =
        Code::default().function(&[(IndirectJump, 0), (Jump, 3), (Next, 0), (Branch, 5), (Next, 0), (Return, 0)]);
    let code = code.link();
    let profile = profile(code.clone(), &[(&[], &[0, 1, 3, 4, 5]), (&[], &[0, 2, 3, 4, 5])]);
    let found = edges(&profile, &code);
    assert!(found.contains(&(0, 1, Table, 1.0)) && found.contains(&(0, 2, Table, 1.0)), "{found:?}");
    assert!(found.contains(&(1, 3, Taken, 1.0)) && found.contains(&(2, 3, FallThrough, 1.0)), "{found:?}");
    assert!(found.contains(&(3, 4, FallThrough, 2.0)), "{found:?}");
    assert!(found.contains(&(3, 5, Taken, 0.0)), "a way that was not taken has a row: {found:?}");
}

#[test]
fn unresolved_cycles_end_paths() {
    // 0 and 1 jump anywhere; the code knows no loop.
    let code = Code::default().function(&[(Next, 0), (IndirectJump, 0), (Return, 0)]).link();
    let profile = profile(code.clone(), &[(&[], &[0, 1, 1, 1, 1, 2])]);
    assert_eq!(paths(&profile, &code), [(vec![0, 1], Some(1), 1.0), (vec![1], Some(1), 2.0)]);
    assert!(edges(&profile, &code).contains(&(1, 1, Table, 3.0)));
}

#[test]
fn histories_are_of_the_branches_before() {
    // 0, header, branches to itself, or 1
    let code = Code::default().function(&[(Branch, 0), (Return, 0)]).with_loop(0, NO_LOOP, &[0], &[0]).link();
    let profile = profile(code, &[(&[], &[0; 9])]);
    assert_eq!(profile.histories.len(), 1);
    let history = &profile.histories[0];
    assert_eq!((history.history, history.n_taken, history.n_not_taken), (0b11_1111, 2, 0));
}

#[test]
fn a_stub_is_no_context_of_its_own() {
    let code = Code::default().function(&[(Call, 2), (Return, 0)]).function(&[(IndirectJump, 0)]).stub();
    let code = code.function(&[(Return, 0)]).link();
    let profile = profile(code, &[(&[], &[0, 2, 3, 1])]);
    assert_eq!(contexts(&profile), [(vec![0], 0.0), (vec![0, 2], 1.0)]);
}

#[test]
fn a_jump_to_where_functions_enter_another_keeps_the_stack() {
    let code = Code::default().function(&[(Call, 2), (Return, 0)]).function(&[(Jump, 4)]);
    let code = code.function(&[(Next, 0), (Return, 0)]).landing_pad(4).link();
    let profile = profile(code, &[(&[], &[0, 2, 4, 1])]);
    assert_eq!(contexts(&profile), [(vec![0], 0.0), (vec![0, 1], 1.0), (vec![0, 2], 1.0)]);
}
