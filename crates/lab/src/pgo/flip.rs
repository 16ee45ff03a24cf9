//! Profiles with the bias of every conditional branch inverted: what was taken falls through, and
//! the reverse.
//!
//! Only the two counts of each branch change places. Flow is no longer conserved then; what reads
//! the profile has to make the best of it, as of every wrong profile.

use profile::Profile;
use profile::model::{BlockEnd, EdgeKind};

use crate::pgo::code::{Branch, Code};

/// Flips a profile of BOLT: records `1 function offset 1 function offset mispredictions count`.
/// Others are left as they are.
pub fn fdata(text: &str, code: &Code) -> String {
    let flipped = |line: &str| flipped_record(line, code).unwrap_or_else(|| line.to_owned()) + "\n";
    text.lines().map(flipped).collect()
}

fn flipped_record(line: &str, code: &Code) -> Option<String> {
    let fields: Vec<&str> = line.split(' ').collect();
    let &["1", from, from_offset, "1", to, to_offset, mispredictions, count] = fields.as_slice() else { return None };
    let (start, size) = code.function(from)?;
    let address = |offset| u64::from_str_radix(offset, 16).ok()?.checked_add(start);
    let other = other_side(code.branch(address(from_offset)?)?, address(to_offset)?)?.checked_sub(start)?;
    let is_inside = from == to && other < size;
    is_inside.then(|| format!("1 {from} {from_offset} 1 {to} {other:x} {mispredictions} {count}"))
}

fn other_side(Branch { taken, next }: Branch, side: u64) -> Option<u64> {
    match side {
        side if side == taken => Some(next),
        side if side == next => Some(taken),
        _ => None,
    }
}

/// Flips a profile of strobe. Counts of blocks become what now flows into them.
pub fn profile(profile: &mut Profile) {
    let mut sides = vec![[None; 2]; profile.blocks.len()];
    for (index, edge) in profile.edges.iter().enumerate() {
        let side = match edge.kind {
            EdgeKind::FallThrough => 0,
            EdgeKind::Taken => 1,
            _ => continue,
        };
        if profile.blocks[edge.from.index()].end == BlockEnd::Branch {
            sides[edge.from.index()][side] = Some(index);
        }
    }
    for pair in sides {
        if let [Some(next), Some(taken)] = pair {
            let count = profile.edges[next].count;
            profile.edges[next].count = profile.edges[taken].count;
            profile.edges[taken].count = count;
        }
    }
    for block in &mut profile.blocks {
        let function = &profile.functions[block.function.index()];
        block.count = if function.address == block.address { function.entries } else { Default::default() };
    }
    for edge in &profile.edges {
        profile.blocks[edge.to.index()].count += edge.count;
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use profile::Estimate;
    use profile::model::{Block, BlockId, Edge, Function, FunctionId, Module, ModuleId};

    use super::*;

    #[test]
    fn a_branch_of_a_program_changes_sides_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let (source, object) = (folder.path().join("f.s"), folder.path().join("f.o"));
        let text = ".type f, @function\nf: test %edi, %edi\njz 1f\nnop\n1: call g\nret\n.size f, . - f\n\
                    .globl g\n.type g, @function\ng: ret\n.size g, . - g\n";
        std::fs::write(&source, text).unwrap();
        let status = Command::new("gcc").arg("-c").arg(&source).arg("-o").arg(&object).status();
        assert!(status.expect("gcc is needed").success());
        let code = Code::read(&object).unwrap();
        let exact = "1 f/1 2 1 f/1 5 0 70\n1 f/1 2 1 f/1 4 3 30\n1 f/1 5 1 g 0 0 100\n0 [unknown] 0 1 f/1 0 0 100\n";
        let flipped = "1 f/1 2 1 f/1 4 0 70\n1 f/1 2 1 f/1 5 3 30\n1 f/1 5 1 g 0 0 100\n0 [unknown] 0 1 f/1 0 0 100\n";
        assert_eq!(fdata(exact, &code), flipped);
        assert_eq!(fdata(flipped, &code), exact);
    }

    #[test]
    fn blocks_behind_a_branch_exchange_their_counts() {
        let block = |index: u64, end, count| Block {
            function: FunctionId(0),
            address: index * 4,
            size: 4,
            last: 0,
            n_insns: 1,
            end,
            count: Estimate::exact(count),
            self_ns: Estimate::default(),
        };
        let edge = |from, to, kind, count| Edge {
            from: BlockId(from),
            to: BlockId(to),
            kind,
            is_back: false,
            count: Estimate::exact(count),
        };
        let function = Function {
            module: ModuleId(0),
            address: 0,
            size: 16,
            name: "f".to_owned(),
            entries: Estimate::exact(10),
            self_ns: Estimate::default(),
        };
        let mut example = Profile {
            modules: vec![Module::default()],
            functions: vec![function],
            blocks: vec![
                block(0, BlockEnd::Branch, 10),
                block(1, BlockEnd::Jump, 1),
                block(2, BlockEnd::Next, 9),
                block(3, BlockEnd::Return, 10),
            ],
            edges: vec![
                edge(0, 1, EdgeKind::FallThrough, 1),
                edge(0, 2, EdgeKind::Taken, 9),
                edge(1, 3, EdgeKind::Taken, 1),
                edge(2, 3, EdgeKind::FallThrough, 9),
            ],
            ..Profile::default()
        };
        let before = example.clone();
        profile(&mut example);
        assert_eq!(example.blocks.iter().map(|block| block.count.value).collect::<Vec<_>>(), [10.0, 9.0, 1.0, 10.0]);
        profile(&mut example);
        assert_eq!(example, before);
    }
}
