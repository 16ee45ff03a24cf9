//! BOLT takes both of its formats for a program whose counts are known.
//!
//! Runs with `STROBE_CONSUMERS=1`. BOLT chooses what it is by the name of its file, so that it is
//! called where it is installed, not through the links in `/usr/bin`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use export::{BinaryFacts, Error, Options, SymbolOffset, bolt_fdata, bolt_preagg, csv};
use profile::model::{Block, BlockEnd, BlockId, Call, Edge, EdgeKind, Function, FunctionId, Module, ModuleId};
use profile::{Estimate, Profile};

use crate::program::{file, large_readers_wanted, run, run_for_all_output};

const N_ITERATIONS: u64 = 1000;
/// Multiples of 8.
const N_RARE: u64 = 125;

#[test]
fn fdata_straightens_the_hot_way() {
    if large_readers_wanted() {
        check("llvm-19", "data", bolt_fdata::write, &[]);
        check("llvm-22", "data", bolt_fdata::write, &[]);
    }
}

#[test]
fn pre_aggregated_does_the_same() {
    if large_readers_wanted() {
        check("llvm-19", "p", bolt_preagg::write, &["-pa"]);
        check("llvm-22", "p", bolt_preagg::write, &["-pa"]);
    }
}

type Writer = fn(&Profile, &Options<'_>, &mut dyn std::io::Write) -> Result<(), Error>;

/// Per iteration, the program takes the likely branch, or the jump behind the unlikely side, and
/// the back edge; afterwards only the latter two and a rare way back are left.
#[track_caller]
fn check(llvm: &str, data_option: &str, write: Writer, more: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = Program::build(folder.path());
    let facts = Facts(&program);
    let options = Options { module: None, table: csv::Table::Functions, facts: &facts };
    let mut bytes = Vec::new();
    write(&program.profile(), &options, &mut bytes).expect("memory takes everything");
    let data = file(folder.path(), "profile", &bytes);
    let optimized = folder.path().join("optimized");
    let log = run_for_all_output(
        Command::new(format!("/usr/lib/{llvm}/bin/llvm-bolt"))
            .arg(&program.path)
            .arg("-o")
            .arg(&optimized)
            .arg(format!("-{data_option}"))
            .arg(&data)
            .args(["-reorder-blocks=ext-tsp", "-dyno-stats"])
            .args(more),
    );
    assert!(log.contains("2 out of") && !log.contains("invalid"), "{log}");
    let taken: Vec<u64> = log.lines().filter(|line| line.contains(": taken branches")).map(leading_number).collect();
    let n_before = (N_ITERATIONS - N_RARE) + N_RARE + (N_ITERATIONS - 1);
    assert_eq!(taken.first(), Some(&n_before), "{log}");
    assert!(taken.last().is_some_and(|&n_after| n_after <= N_ITERATIONS - 1 + 2 * N_RARE), "{log}");
    let status = |path: &Path| Command::new(path).status().expect("a program").code();
    assert_eq!(status(&optimized), status(&program.path));
}

fn leading_number(line: &str) -> u64 {
    line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
}

/// `branches.S`, linked as BOLT wants it, and its symbols.
struct Program {
    path: PathBuf,
    symbols: BTreeMap<String, u64>,
}

impl Program {
    fn build(folder: &Path) -> Program {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/branches.S");
        let path = folder.join("program");
        run(Command::new("gcc").arg("-Wl,-q").arg("-o").arg(&path).arg(source));
        let listing = run(Command::new("nm").arg(&path));
        let symbol = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let &[value, _, name] = words.as_slice() else { return None };
            Some((name.to_owned(), u64::from_str_radix(value, 16).ok()?))
        };
        Program { path, symbols: listing.lines().filter_map(symbol).collect() }
    }

    fn at(&self, symbol: &str) -> u64 {
        *self.symbols.get(symbol).unwrap_or_else(|| panic!("no symbol {symbol}"))
    }

    fn profile(&self) -> Profile {
        let function = |name: &str, size: &str, entries| Function {
            module: ModuleId(0),
            address: self.at(name),
            size: self.at(size),
            name: name.to_owned(),
            entries: Estimate::exact(entries),
            self_ns: Estimate::default(),
        };
        let n_likely = N_ITERATIONS - N_RARE;
        let ends = [
            (BlockEnd::Next, 1),
            (BlockEnd::Call, N_ITERATIONS),
            (BlockEnd::Branch, N_ITERATIONS),
            (BlockEnd::Jump, N_RARE),
            (BlockEnd::Next, n_likely),
            (BlockEnd::Branch, N_ITERATIONS),
            (BlockEnd::Return, 1),
        ];
        let mut blocks: Vec<Block> =
            (0..).zip(ends).map(|(index, (end, count))| self.block_of_main(index, end, count)).collect();
        let size = self.at("step_end") as u32;
        let last = self.at("step_last") as u32;
        let count = Estimate::exact(N_ITERATIONS);
        let (function_id, address) = (FunctionId(1), self.at("step"));
        blocks.push(Block {
            function: function_id,
            address,
            size,
            last,
            n_insns: 3,
            end: BlockEnd::Return,
            count,
            self_ns: Estimate::default(),
        });
        let edge = |from, to, kind, count| Edge {
            from: BlockId(from),
            to: BlockId(to),
            kind,
            is_back: to <= from,
            count: Estimate::exact(count),
        };
        Profile {
            modules: vec![Module { path: "program".into(), build_id: String::new() }],
            functions: vec![function("main", "m7", 1), function("step", "step_end", N_ITERATIONS)],
            blocks,
            edges: vec![
                edge(0, 1, EdgeKind::FallThrough, 1),
                edge(1, 2, EdgeKind::PastCall, N_ITERATIONS),
                edge(2, 3, EdgeKind::FallThrough, N_RARE),
                edge(2, 4, EdgeKind::Taken, n_likely),
                edge(3, 5, EdgeKind::Taken, N_RARE),
                edge(4, 5, EdgeKind::FallThrough, n_likely),
                edge(5, 1, EdgeKind::Taken, N_ITERATIONS - 1),
                edge(5, 6, EdgeKind::FallThrough, 1),
            ],
            calls: vec![Call { site: BlockId(1), callee: FunctionId(1), is_tail: false, count }],
            ..Profile::default()
        }
    }

    fn block_of_main(&self, index: u32, end: BlockEnd, count: u64) -> Block {
        let start = if index == 0 { 0 } else { self.at(&format!("m{index}")) };
        let size = self.at(&format!("m{}", index + 1)) - start;
        let last = self.at(&format!("m{index}_last")) - start;
        Block {
            function: FunctionId(0),
            address: self.at("main") + start,
            size: size as u32,
            last: last as u32,
            n_insns: 2,
            end,
            count: Estimate::exact(count),
            self_ns: Estimate::default(),
        }
    }
}

/// Knows that `step` is local.
struct Facts<'a>(&'a Program);

impl BinaryFacts for Facts<'_> {
    fn bolt_symbol(&self, _module: ModuleId, address: u64) -> Option<SymbolOffset> {
        let within = |name: &str, end: &str| {
            let offset = address.checked_sub(self.0.at(name))?;
            (offset < self.0.at(end)).then_some(offset)
        };
        let symbol = |name: &str, offset| SymbolOffset { name: name.to_owned(), offset };
        let main = within("main", "m7").map(|offset| symbol("main", offset));
        main.or_else(|| within("step", "step_end").map(|offset| symbol("step/1", offset)))
    }

    fn is_jump_target(&self, _module: ModuleId, _address: u64) -> bool {
        false
    }

    fn basic_block_id(&self, _block: BlockId) -> Option<u32> {
        None
    }
}
