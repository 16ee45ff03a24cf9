//! Values of which a part was seen, as estimates for the whole run.
//!
//! Bursts see a small part of what instructions load, and not the same part everywhere; events that
//! end when values are known are those of the first part of the run. How often the block of an
//! instruction ran is known better, so an instruction counts as often as its block, and values by
//! their shares of what was seen of it. The shares are as if that were picked at random. It was
//! not, but came in a row, so that their errors are larger than stated where values keep for long.

use std::collections::BTreeMap;

use crate::estimate::Estimate;
use crate::model::{Block, ModuleId, NotedValue, Profile};

/// Makes rows with counts of what was seen into rows with counts of the whole run. Rows of
/// instructions that are in no block of the profile have no count, and are left out, unless it has
/// no blocks at all.
#[must_use]
pub fn of_whole_run(profile: &Profile, seen: Vec<NotedValue>) -> Vec<NotedValue> {
    if profile.blocks.is_empty() {
        return seen;
    }
    let mut blocks: BTreeMap<(ModuleId, u64), &Block> = BTreeMap::new();
    for block in &profile.blocks {
        blocks.insert((profile.functions[block.function.index()].module, block.address), block);
    }
    let around = |module: ModuleId, address: u64| {
        let (&(in_module, start), block) = blocks.range(..=(module, address)).next_back()?;
        (in_module == module && address - start < u64::from(block.size)).then_some(block.count)
    };
    let mut site = None;
    let rows = seen.into_iter().filter_map(|row| {
        // The row about all values of an instruction comes before the others.
        if row.value.is_none() {
            site = around(row.module, row.address).map(|count| (count, row.count));
        }
        let (block, all) = site?;
        Some(NotedValue { count: part(block, all, row.count), ..row })
    });
    rows.collect()
}

/// The part of a block's executions that `of` is of all that was seen.
fn part(block: Estimate, all: Estimate, of: Estimate) -> Estimate {
    if all.value <= 0.0 {
        return Estimate { seen: of.seen, ..Estimate::default() };
    }
    let share = (of.value / all.value).min(1.0);
    let of_share = share * (1.0 - share) / all.seen.max(1) as f64;
    let value = share * block.value;
    Estimate { value, variance: share * share * block.variance + block.value * block.value * of_share, seen: of.seen }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BlockEnd, Function, FunctionId, ValueKind};

    fn row(address: u64, value: Option<u64>, count: u64) -> NotedValue {
        let count = Estimate::exact(count);
        NotedValue { module: ModuleId(0), address, kind: ValueKind::Load, value, value_module: None, count }
    }

    #[test]
    fn an_instruction_counts_as_often_as_its_block() {
        let count = Estimate { value: 1000.0, variance: 100.0, seen: 10 };
        let block = |address: u64| Block {
            function: FunctionId(0),
            address,
            size: 0x10,
            last: 0xf,
            n_insns: 4,
            end: BlockEnd::Next,
            count,
            self_ns: Estimate::default(),
        };
        let function = Function {
            module: ModuleId(0),
            address: 0x100,
            size: 0x200,
            name: String::new(),
            entries: Estimate::default(),
            self_ns: Estimate::default(),
        };
        let profile =
            Profile { functions: vec![function], blocks: vec![block(0x100), block(0x200)], ..Profile::default() };
        let seen = vec![
            row(0x104, None, 20),
            row(0x104, Some(7), 15),
            row(0x104, Some(8), 5),
            // Behind the block, and before the next.
            row(0x110, None, 9),
            row(0x110, Some(7), 9),
            row(0x20f, None, 1),
            row(0x20f, Some(3), 1),
        ];
        let rows = of_whole_run(&profile, seen);
        let values: Vec<(u64, Option<u64>, f64)> =
            rows.iter().map(|row| (row.address, row.value, row.count.value)).collect();
        let expected = [
            (0x104, None, 1000.0),
            (0x104, Some(7), 750.0),
            (0x104, Some(8), 250.0),
            (0x20f, None, 1000.0),
            (0x20f, Some(3), 1000.0),
        ];
        assert_eq!(values, expected);
        // The error of the block, and that of a share of 15 in 20.
        let variance = 0.75 * 0.75 * 100.0 + 1000.0 * 1000.0 * 0.75 * 0.25 / 20.0;
        assert!((rows[1].count.variance - variance).abs() < 1e-6, "{rows:?}");
        assert_eq!((rows[0].count.variance, rows[0].count.seen), (100.0, 20));
        let seen = vec![row(0x104, None, 20)];
        assert_eq!(of_whole_run(&Profile::default(), seen.clone()), seen);
    }
}
