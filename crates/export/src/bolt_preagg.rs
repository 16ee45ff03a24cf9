//! BOLT's pre-aggregated format: jumps and the ranges run through between them, by address. For
//! `perf2bolt -pa` and `llvm-bolt -pa`.
//!
//! `B from to count 0` is a jump or call (`X:0` is what is outside of the module),
//! `F first last count` a stretch from the target of a jump to the next jump. Names are not needed,
//! so that it works where [`crate::bolt_fdata`] cannot: on stripped files.
//!
//! **Ranges from edges.** A profile counts the steps between neighbouring blocks. A run of blocks
//! that fall into each other is cut into ranges such that each step is covered exactly as often as
//! it was counted: where the count rises, ranges begin, where it falls, the latest end. So a range
//! begins only where more flow enters than the block before passes on, which is what BOLT expects
//! of one.

use std::io;

use profile::Profile;

use crate::bolt::{FallThrough, ModuleFlow};
use crate::error::Error;
use crate::options::Options;
use crate::stacks::last_address;

/// Writes the flow of one module.
///
/// # Errors
/// If `out` fails, or if the profile has no module.
pub fn write(profile: &Profile, options: &Options<'_>, out: &mut dyn io::Write) -> Result<(), Error> {
    let flow = ModuleFlow::new(profile, options.module_of(profile)?);
    for transfer in &flow.transfers {
        writeln!(out, "B {} {} {} 0", place(transfer.from), place(transfer.to), transfer.count)?;
    }
    for range in ranges(&flow.fall_throughs) {
        writeln!(out, "F {:x} {:x} {}", range.first, range.last, range.count)?;
    }
    Ok(())
}

fn place(address: Option<u64>) -> String {
    address.map_or_else(|| "X:0".to_owned(), |address| format!("{address:x}"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    /// Address of the first instruction.
    first: u64,
    /// Address of the last.
    last: u64,
    count: u64,
}

/// Ranges that cover each step as often as it was counted. Steps are ordered by address.
fn ranges(steps: &[FallThrough<'_>]) -> Vec<Range> {
    let mut ranges = Vec::new();
    let mut open = Open::default();
    let mut previous: Option<&FallThrough<'_>> = None;
    for step in steps {
        if let Some(previous) = previous.filter(|previous| previous.to.address != step.from.address) {
            open.lower_to(0, last_address(previous.to), &mut ranges);
        }
        open.lower_to(step.count, last_address(step.from), &mut ranges);
        open.raise_to(step.count, step.from.address);
        previous = Some(step);
    }
    if let Some(previous) = previous {
        open.lower_to(0, last_address(previous.to), &mut ranges);
    }
    ranges
}

/// Ranges that have begun: first addresses and counts.
#[derive(Debug, Default)]
struct Open {
    begun: Vec<(u64, u64)>,
    total: u64,
}

impl Open {
    fn raise_to(&mut self, count: u64, first: u64) {
        if self.total < count {
            self.begun.push((first, count - self.total));
            self.total = count;
        }
    }

    fn lower_to(&mut self, count: u64, last: u64, ended: &mut Vec<Range>) {
        while count < self.total {
            let Some((first, n)) = self.begun.pop() else { break };
            let n_ending = n.min(self.total - count);
            ended.push(Range { first, last, count: n_ending });
            self.total -= n_ending;
            if n_ending < n {
                self.begun.push((first, n - n_ending));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use profile::Estimate;
    use profile::model::{Block, BlockEnd, FunctionId};
    use proptest::prelude::*;

    use super::*;

    const BLOCK_BYTES: u64 = 8;

    fn blocks(n: usize) -> Vec<Block> {
        let block = |index| Block {
            function: FunctionId(0),
            address: index as u64 * BLOCK_BYTES,
            size: BLOCK_BYTES as u32,
            last: 6,
            n_insns: 3,
            end: BlockEnd::Branch,
            count: Estimate::default(),
            self_ns: Estimate::default(),
        };
        (0..n).map(block).collect()
    }

    fn steps<'a>(blocks: &'a [Block], counts: &[u64]) -> Vec<FallThrough<'a>> {
        let steps = blocks.windows(2).zip(counts).filter(|(_, count)| **count != 0);
        steps.map(|(pair, &count)| FallThrough { from: &pair[0], to: &pair[1], count }).collect()
    }

    #[test]
    fn a_range_begins_where_flow_joins_and_ends_where_it_leaves() {
        let blocks = blocks(5);
        let found = ranges(&steps(&blocks, &[10, 15, 4, 0]));
        let range = |first, last, count| Range { first, last, count };
        assert_eq!(found, [range(8, 22, 5), range(0, 22, 6), range(0, 30, 4)]);
    }

    proptest! {
        #[test]
        fn steps_are_covered_as_counted(counts in prop::collection::vec(0_u64..5, 1..30)) {
            let blocks = blocks(counts.len() + 1);
            let mut covered = vec![0; counts.len()];
            for range in ranges(&steps(&blocks, &counts)) {
                let (first, last) = (range.first / BLOCK_BYTES, range.last / BLOCK_BYTES);
                prop_assert!(first < last);
                (first..last).for_each(|step| covered[step as usize] += range.count);
            }
            prop_assert_eq!(covered, counts);
        }
    }
}
