//! How many cycles the instructions of a burst take of a processor that waits for nothing but their
//! inputs.
//!
//! Instructions are taken in, [`WIDTH`] each cycle, in the order in which they ran, start when
//! their inputs are ready, and leave in order; at most [`WINDOW`] are inside. So independent
//! instructions take a fraction of a cycle each, a chain of dependent ones the sum of their
//! latencies, and short chains hide behind each other as far as the window reaches: what makes one
//! loop three times as fast as another of the same length. A cycle takes in nothing behind a jump.
//! Caches are taken to have everything, and branches to be predicted; what mispredictions cost is
//! added elsewhere ([`super::time_model`]).

use super::BlockRef;
use super::code_map::{CodeMap, Located};
use crate::code::{CodeInsn, FIRST_WORD, LOAD_CYCLES, NO_PLACE};

/// Instructions taken in per cycle; times are kept in this part of a cycle.
const WIDTH: u64 = 6;
/// As many as an index of a byte goes round.
const WINDOW: usize = 256;
/// A burst of more blocks than [`MAX_PIECES`] pieces is simulated in part: it would take strobe
/// longer than the program.
const PIECE_BLOCKS: usize = 256;
const MAX_PIECES: usize = 6;
/// Of code whose instructions are not known.
const UNKNOWN: CodeInsn = CodeInsn { inputs: [NO_PLACE; 4], outputs: [NO_PLACE; 3], latency: 1 };

/// The state of the processor; only differences of times mean anything.
#[derive(Debug)]
pub(super) struct Pipeline {
    /// When each place is ready; [`NO_PLACE`] is from the start.
    ready: [u64; 256],
    /// When the latest instructions left.
    left: [u64; WINDOW],
    next: u8,
    /// When the next instruction is taken in.
    now: u64,
    /// When the latest one left.
    latest: u64,
    /// Words that were stored are loaded at once.
    is_eager: bool,
}

impl Pipeline {
    pub fn new() -> Pipeline {
        Pipeline { ready: [0; 256], left: [0; WINDOW], next: 0, now: 0, latest: 0, is_eager: false }
    }

    /// A processor that renames words of memory as it does registers.
    pub fn eager() -> Pipeline {
        Pipeline { is_eager: true, ..Pipeline::new() }
    }

    /// Cycles that the blocks take one after the other; of many, by some pieces of them at equal
    /// distances.
    pub fn run(&mut self, code: &CodeMap, blocks: &[BlockRef]) -> f64 {
        let start = self.latest;
        self.now = self.now.max(start);
        let n_pieces = blocks.len().div_ceil(PIECE_BLOCKS);
        let mut n_run = 0;
        for piece in blocks.chunks(PIECE_BLOCKS).step_by(n_pieces.div_ceil(MAX_PIECES).max(1)) {
            self.run_piece(code, piece);
            n_run += piece.len();
        }
        let share = n_run as f64 / blocks.len().max(1) as f64;
        if n_run == 0 { 0.0 } else { (self.latest - start) as f64 / WIDTH as f64 / share }
    }

    fn run_piece(&mut self, code: &CodeMap, blocks: &[BlockRef]) {
        let mut before: Option<Located<'_>> = None;
        for &block in blocks {
            let Some(located) = code.block(block) else { continue };
            if before.is_some_and(|before| !before.is_followed_by(&located)) {
                self.now = self.now.next_multiple_of(WIDTH);
            }
            before = Some(located);
            match located.insns() {
                [] => (0..located.block.n_insns).for_each(|_| self.take(&UNKNOWN)),
                insns => insns.iter().for_each(|insn| self.take(insn)),
            }
        }
    }

    fn latency(&self, insn: &CodeInsn) -> u8 {
        let has_word = |places: &[u8]| places.iter().any(|place| (FIRST_WORD..NO_PLACE).contains(place));
        match self.is_eager {
            true if has_word(&insn.inputs) => insn.latency.saturating_sub(LOAD_CYCLES),
            true if has_word(&insn.outputs) => 0,
            _ => insn.latency,
        }
    }

    #[inline]
    fn take(&mut self, insn: &CodeInsn) {
        self.now = self.now.max(self.left[usize::from(self.next)]) + 1;
        let [a, b, c, d] = insn.inputs;
        let ready = |place: u8| self.ready[usize::from(place)];
        let starts = self.now.max(ready(a)).max(ready(b)).max(ready(c)).max(ready(d));
        let done = starts + WIDTH * u64::from(self.latency(insn));
        let [a, b, c] = insn.outputs;
        self.ready[usize::from(a)] = done;
        self.ready[usize::from(b)] = done;
        self.ready[usize::from(c)] = done;
        self.ready[usize::from(NO_PLACE)] = 0;
        self.latest = self.latest.max(done);
        self.left[usize::from(self.next)] = self.latest;
        self.next = self.next.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::code::{CodeBlock, CodeFunction, ModuleCode, NO_LOOP};
    use crate::model::BlockEnd;

    const N_INSNS: u32 = 6;

    fn insn(input: u8, output: u8, latency: u8) -> CodeInsn {
        CodeInsn { inputs: [input, NO_PLACE, NO_PLACE, NO_PLACE], outputs: [output, NO_PLACE, NO_PLACE], latency }
    }

    /// Cycles for each of many executions of one block that jumps to itself.
    fn cycles(insns: Vec<CodeInsn>) -> f64 {
        let block = CodeBlock {
            address: 0x1000,
            size: 24,
            last: 20,
            n_insns: N_INSNS,
            function: 0,
            end: BlockEnd::Jump,
            target: 0x1000,
            innermost_loop: NO_LOOP,
            is_entry: true,
        };
        let functions = vec![CodeFunction { address: 0x1000, size: 24, is_stub: false }];
        let code = ModuleCode { functions, blocks: vec![block], insns, ..ModuleCode::default() };
        code.check().expect("consistent");
        let mut map = CodeMap::default();
        let module = map.module("m", "");
        let block = map.set_code(module, Arc::new(code)).expect("room");
        let mut pipeline = Pipeline::new();
        pipeline.run(&map, &[block; 1000]);
        let cycles = pipeline.run(&map, &[block; 1000]) / 1000.0;
        let of_many = pipeline.run(&map, &[block; 50_000]) / 50_000.0;
        assert!((cycles / of_many - 1.0).abs() < 0.02, "{cycles}, {of_many} in pieces");
        cycles
    }

    /// A processor as the header of the module describes it, one instruction after the other.
    fn latest_by_the_book(insns: &[CodeInsn]) -> u64 {
        let (mut ready, mut left, mut now, mut latest) = ([0; 256], Vec::<u64>::new(), 0, 0);
        for insn in insns {
            let oldest_inside = left.len().checked_sub(WINDOW).map_or(0, |index| left[index]);
            now = oldest_inside.max(now) + 1;
            let inputs = insn.inputs.iter().filter(|&&place| place != NO_PLACE);
            let starts = inputs.map(|&place| ready[usize::from(place)]).fold(now, u64::max);
            let done = starts + WIDTH * u64::from(insn.latency);
            for &place in insn.outputs.iter().filter(|&&place| place != NO_PLACE) {
                ready[usize::from(place)] = done;
            }
            latest = done.max(latest);
            left.push(latest);
        }
        latest
    }

    proptest! {
        #[test]
        fn instructions_take_what_they_take_by_the_book(
            insns in prop::collection::vec((0_u8..20, 0_u8..20, 0_u8..20, 1_u8..40), 1..1500),
        ) {
            let place = |number: u8| if number < 12 { number } else { NO_PLACE };
            let insn = |(a, b, to, latency): (u8, u8, u8, u8)| CodeInsn {
                inputs: [place(a), NO_PLACE, place(b), NO_PLACE],
                outputs: [place(to), NO_PLACE, NO_PLACE],
                latency,
            };
            let insns: Vec<CodeInsn> = insns.into_iter().map(insn).collect();
            let mut pipeline = Pipeline::new();
            insns.iter().for_each(|insn| pipeline.take(insn));
            prop_assert_eq!(pipeline.latest, latest_by_the_book(&insns));
        }
    }

    #[test]
    fn independent_instructions_run_together_and_chains_one_by_one() {
        let independent = (0..6).map(|place| insn(NO_PLACE, place, 4)).collect();
        assert!((0.9..1.1).contains(&cycles(independent)));
        let chain = (0..6).map(|_| insn(7, 7, 3)).collect();
        assert!((17.9..18.1).contains(&cycles(chain)));
        let two_chains = (0..6).map(|number| insn(number % 2, number % 2, 3)).collect();
        assert!((8.9..9.1).contains(&cycles(two_chains)));
        assert!((0.9..1.1).contains(&cycles(Vec::new())), "nothing is known to be in the way");
    }
}
