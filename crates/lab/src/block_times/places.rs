//! Where time can be: blocks of files, as the control flow has them and profiles name them.
//!
//! Profiles and samples are brought to the same places. A block is named by its first address;
//! where functions share code it belongs to one of them, as in profiles. What is in a file but in
//! no block, and what is in no file, is a place, too: one for each module.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::ensure;
use flow::{Executor, ModuleFlow};
use image::{Image, Segment, Svma};
use profile::Profile;

use super::perf::Sample;
use crate::module::with_analysis;

/// A block, or what is in no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Number of the module, by [`Places`].
    module: u32,
    /// First address of the function, and of the block.
    block: Option<(u64, u64)>,
}

impl Place {
    /// The function as a whole.
    #[must_use]
    pub fn function(self) -> Place {
        Place { block: self.block.map(|(function, _)| (function, function)), ..self }
    }

    /// Whether it is a block.
    #[must_use]
    pub fn is_block(self) -> bool {
        self.block.is_some()
    }
}

/// Time by place, in any unit.
pub type Times = BTreeMap<Place, f64>;

/// Blocks of all modules that were asked for.
#[derive(Debug, Default)]
pub struct Places {
    numbers: BTreeMap<String, u32>,
    modules: Vec<Blocks>,
}

/// Blocks of a file; none if there is no such file.
#[derive(Debug, Default)]
struct Blocks {
    segments: Vec<Segment>,
    /// By first address.
    blocks: Vec<Block>,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    start: u64,
    end: u64,
    function: u64,
}

impl Places {
    /// The block of each sample, and whether the sample is at the first address of its block.
    pub fn of_samples(&mut self, samples: &[Sample], executor: &impl Executor) -> anyhow::Result<Vec<(Place, bool)>> {
        let place = |sample: &Sample| {
            let module = self.module(&sample.file, executor)?;
            let blocks = &self.modules[module as usize];
            let address = blocks.address(sample.offset);
            let block = address.and_then(|address| blocks.containing(address));
            let is_at_start = block.is_some_and(|block| address == Some(block.start));
            Ok((Place { module, block: block.map(|block| (block.function, block.start)) }, is_at_start))
        };
        samples.iter().map(place).collect()
    }

    /// User time of a profile by place.
    pub fn of_profile(&mut self, profile: &Profile, executor: &impl Executor) -> anyhow::Result<Times> {
        let mut times = Times::new();
        let mut elsewhere: Vec<f64> = profile.functions.iter().map(|function| function.self_ns.value).collect();
        for row in profile.blocks.iter().filter(|row| row.self_ns.value > 0.0) {
            let module = &profile.modules[profile.functions[row.function.index()].module.index()];
            let number = self.module(&module.path, executor)?;
            let blocks = &self.modules[number as usize];
            if blocks.blocks.is_empty() {
                continue;
            }
            let block = blocks.containing(row.address).filter(|block| block.start == row.address);
            ensure!(
                block.is_some(),
                "{}: the profile has a block at {:#x}, the file has none",
                module.path,
                row.address
            );
            let place = Place { module: number, block: block.map(|block| (block.function, block.start)) };
            *times.entry(place).or_default() += row.self_ns.value;
            elsewhere[row.function.index()] -= row.self_ns.value;
        }
        for (function, ns) in profile.functions.iter().zip(elsewhere) {
            // What is left of a difference of equal sums is no time.
            if ns > 1e-6 * function.self_ns.value {
                let module = self.module(&profile.modules[function.module.index()].path, executor)?;
                *times.entry(Place { module, block: None }).or_default() += ns;
            }
        }
        Ok(times)
    }

    fn module(&mut self, path: &str, executor: &impl Executor) -> anyhow::Result<u32> {
        if let Some(&number) = self.numbers.get(path) {
            return Ok(number);
        }
        let file = Path::new(path);
        let blocks = if file.is_file() { with_analysis(file, executor, Blocks::of)? } else { Blocks::default() };
        let number = self.modules.len() as u32;
        self.modules.push(blocks);
        self.numbers.insert(path.to_owned(), number);
        Ok(number)
    }
}

impl Blocks {
    fn of(image: &Image<'_>, flow: &ModuleFlow) -> Blocks {
        let mut blocks = Vec::new();
        for function in &flow.functions {
            let is_owner = |start: Svma| flow.function_at(start).is_some_and(|owner| owner.entry == function.entry);
            let own = function.cfg.blocks.iter().map(|block| block.range).filter(|range| is_owner(range.start));
            blocks.extend(own.map(|range| Block {
                start: range.start.0,
                end: range.end.0,
                function: function.entry.0,
            }));
        }
        blocks.sort_by_key(|block| block.start);
        blocks.dedup_by_key(|block| block.start);
        Blocks { segments: image.segments().to_vec(), blocks }
    }

    fn address(&self, offset: u64) -> Option<u64> {
        let segment = self
            .segments
            .iter()
            .filter(|segment| segment.permissions.execute)
            .find(|segment| segment.file_range.contains(&offset))?;
        Some(segment.range.start.0 + (offset - segment.file_range.start))
    }

    fn containing(&self, address: u64) -> Option<Block> {
        let index = self.blocks.partition_point(|block| block.start <= address).checked_sub(1)?;
        Some(self.blocks[index]).filter(|block| address < block.end)
    }
}

#[cfg(test)]
mod tests {
    use flow::Sequential;
    use profile::estimate::Estimate;
    use profile::model::{self, BlockEnd, FunctionId, Module, ModuleId};

    use super::*;

    const PROGRAM: &str = "/bin/true";

    /// Every block of a program is found by each of its bytes, and a profile has the same.
    #[test]
    fn samples_and_profiles_meet_in_the_same_blocks() {
        let mut places = Places::default();
        let number = places.module(PROGRAM, &Sequential).unwrap();
        let blocks = &places.modules[number as usize];
        let (first, segment) = (blocks.blocks[0], blocks.segments.iter().find(|segment| segment.permissions.execute));
        let segment = segment.unwrap();
        let offset_of = |address: u64| address - segment.range.start.0 + segment.file_range.start;
        let sample = |offset: u64| Sample { file: PROGRAM.to_owned(), offset };
        let samples = [sample(offset_of(first.start)), sample(offset_of(first.end - 1)), sample(0)];
        let found = places.of_samples(&samples, &Sequential).unwrap();
        assert_eq!(found[0], (found[1].0, true));
        assert_eq!((found[1].1, found[0].0.is_block()), (first.end - 1 == first.start, true));
        assert!(!found[2].0.is_block(), "no code begins with the file");

        let mut profile = Profile {
            modules: vec![Module { path: PROGRAM.to_owned(), build_id: String::new() }],
            functions: vec![model::Function {
                module: ModuleId(0),
                address: first.function,
                size: 1,
                name: String::new(),
                entries: Estimate::default(),
                self_ns: Estimate::measured(10.0),
            }],
            blocks: vec![model::Block {
                function: FunctionId(0),
                address: first.start,
                size: 1,
                last: 0,
                n_insns: 1,
                end: BlockEnd::Next,
                count: Estimate::exact(1),
                self_ns: Estimate::measured(7.0),
            }],
            ..Profile::default()
        };
        let times = places.of_profile(&profile, &Sequential).unwrap();
        assert_eq!(times, Times::from([(found[0].0, 7.0), (found[2].0, 3.0)]));
        profile.blocks[0].address += 1;
        assert!(places.of_profile(&profile, &Sequential).is_err(), "a block of another file");
    }

    #[test]
    fn what_is_no_file_is_one_place() {
        let mut places = Places::default();
        let samples = [3, 9].map(|offset| Sample { file: "[vdso]".to_owned(), offset });
        let found = places.of_samples(&samples, &Sequential).unwrap();
        assert_eq!(found[0], found[1]);
        assert!(!found[0].0.is_block());
    }
}
