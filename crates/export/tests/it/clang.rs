//! clang takes counts by line and orders of blocks for a small program, and does what they ask for.
//!
//! Runs with `STROBE_CONSUMERS=1`. Blocks and their ids come from clang's own map of the program,
//! lines from LLVM's symbolizer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use export::{BinaryFacts, Error, Format, Options, SymbolOffset, csv, propeller};
use profile::model::{
    Block, BlockEnd, BlockId, Call, Edge, EdgeKind, Function, FunctionId, Module, ModuleId, Path as BlockPath,
};
use profile::symbols::{SourceFrame, Symbols};
use profile::{Estimate, Profile};

use crate::fixture::text;
use crate::program::{file, large_readers_wanted, run, run_for_all_output};

/// Lines of `choose.c`.
const CHOOSE_LINE: u32 = 15;
const RARE_LINE: u32 = 17;
const USUAL_LINE: u32 = 19;

#[test]
fn llvm_profdata_reads_counts_and_inlines() {
    if !large_readers_wanted() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = Program::build(folder.path(), "program", &[]);
    let profile = file(folder.path(), "llvm.prof", text(Format::LlvmSample, &program.profile(100, 900), &program));
    let shown = run(Command::new("llvm-profdata-19").args(["show", "--sample", "--all-functions"]).arg(&profile));
    for expected in [
        "Function: choose: ",
        &format!("{}: 100, calls: rare:100", RARE_LINE - CHOOSE_LINE),
        &format!("{}: 900, calls: usual:900", USUAL_LINE - CHOOSE_LINE),
        "inlined callee: twice: ",
    ] {
        assert!(shown.contains(expected), "no {expected:?} in:\n{shown}");
    }
}

#[test]
fn clang_weighs_branches_by_the_profile() {
    if !large_readers_wanted() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = Program::build(folder.path(), "program", &[]);
    let (rare, usual) = program.branch_weights(folder.path(), 100, 900);
    assert!(rare * 5 < usual, "{rare} {usual}");
    let (rare, usual) = program.branch_weights(folder.path(), 900, 100);
    assert!(usual * 5 < rare, "{rare} {usual}");
}

#[test]
fn clang_orders_blocks_as_asked() {
    if large_readers_wanted() {
        assert_eq!(
            blocks_of_choose_after(100, 900, propeller::write_clusters),
            order(["entry", "usual", "join", "rare"])
        );
        assert_eq!(
            blocks_of_choose_after(900, 100, propeller::write_clusters),
            order(["entry", "rare", "join", "usual"])
        );
    }
}

#[test]
fn clang_clones_paths_as_asked() {
    if large_readers_wanted() {
        let found = blocks_of_choose_after(400, 600, propeller::write_paths);
        assert_eq!(found, order(["entry", "usual", "join", "rare", "join"]));
    }
}

fn order<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

type Writer = fn(&Profile, &Options<'_>, &mut dyn std::io::Write) -> Result<(), Error>;

/// Compiles the program with an order of blocks, and says what that of `choose` has become.
#[track_caller]
fn blocks_of_choose_after(n_rare: u64, n_usual: u64, write: Writer) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let program = Program::build(folder.path(), "program", &[]);
    let options = Options { module: None, table: csv::Table::Functions, facts: &program };
    let mut bytes = Vec::new();
    write(&program.profile(n_rare, n_usual), &options, &mut bytes).expect("ids are known");
    let list = file(folder.path(), "order", &bytes);
    let option = format!("-fbasic-block-sections=list={}", list.display());
    let ordered = Program::build(folder.path(), "ordered", &[&option]);
    run(&mut Command::new(&ordered.path));
    let name = |id: u32| program.roles().into_iter().find(|role| program.choose()[role.1.index()].id == id);
    ordered.choose().iter().map(|block| name(block.id).map_or("?", |role| role.0).to_owned()).collect()
}

/// `choose.c`, compiled by clang.
struct Program {
    path: PathBuf,
    /// By function.
    blocks: BTreeMap<String, Vec<MappedBlock>>,
    lines: RefCell<BTreeMap<u64, Vec<SourceFrame>>>,
}

/// A machine basic block.
#[derive(Clone, Copy, Debug)]
struct MappedBlock {
    id: u32,
    address: u64,
    size: u32,
}

impl Program {
    #[track_caller]
    fn build(folder: &Path, name: &str, more: &[&str]) -> Program {
        let path = folder.join(name);
        let log = run_for_all_output(
            compile().args(["-fuse-ld=lld-19", "-fbasic-block-address-map"]).args(more).arg("-o").arg(&path),
        );
        assert_eq!(log, "", "clang complains");
        let map = run(Command::new("llvm-readobj-19").arg("--bb-addr-map").arg(&path));
        Program { path, blocks: parse_map(&map), lines: RefCell::default() }
    }

    fn choose(&self) -> &[MappedBlock] {
        &self.blocks["choose"]
    }

    /// The blocks of `choose` by what they do.
    #[track_caller]
    fn roles(&self) -> [(&'static str, BlockId); 4] {
        let with_line = |line: u32| {
            let has_line = |block: &MappedBlock| {
                let mut addresses = block.address..block.address + u64::from(block.size);
                addresses.any(|address| self.frames(ModuleId(0), address).iter().any(|frame| frame.line == line))
            };
            BlockId(self.choose().iter().position(has_line).expect("a block of this line") as u32)
        };
        let (rare, usual) = (with_line(RARE_LINE), with_line(USUAL_LINE));
        let join = (1..4).map(BlockId).find(|block| *block != rare && *block != usual).expect("four blocks");
        [("entry", BlockId(0)), ("rare", rare), ("usual", usual), ("join", join)]
    }

    /// `choose` went by its two ways as often as given.
    #[track_caller]
    fn profile(&self, n_rare: u64, n_usual: u64) -> Profile {
        let [(_, entry), (_, rare), (_, usual), (_, join)] = self.roles();
        let n_both = n_rare + n_usual;
        let counts = BTreeMap::from([(entry, n_both), (rare, n_rare), (usual, n_usual), (join, n_both)]);
        let function = |name: &str, entries| Function {
            module: ModuleId(0),
            address: self.blocks[name][0].address,
            size: 1,
            name: name.to_owned(),
            entries: Estimate::exact(entries),
            self_ns: Estimate::default(),
        };
        let edge =
            |from, to, count| Edge { from, to, kind: EdgeKind::Taken, is_back: false, count: Estimate::exact(count) };
        let path = |blocks: &[BlockId], count| BlockPath {
            function: FunctionId(0),
            blocks: blocks.to_vec(),
            back_to: None,
            n_branches: 1,
            count: Estimate::exact(count),
            self_ns: Estimate::default(),
            misses: 0,
        };
        let call = |site, callee, count| Call {
            site,
            callee: FunctionId(callee),
            is_tail: false,
            count: Estimate::exact(count),
        };
        Profile {
            modules: vec![Module { path: "program".into(), build_id: String::new() }],
            functions: vec![function("choose", n_both), function("rare", n_rare), function("usual", n_usual)],
            blocks: (0..).map(BlockId).zip(self.choose()).map(|(id, block)| block.counted(counts[&id])).collect(),
            edges: vec![
                edge(entry, rare, n_rare),
                edge(entry, usual, n_usual),
                edge(rare, join, n_rare),
                edge(usual, join, n_usual),
            ],
            paths: vec![path(&[entry, rare, join], n_rare), path(&[entry, usual, join], n_usual)],
            calls: vec![call(rare, 1, n_rare), call(usual, 2, n_usual)],
            ..Profile::default()
        }
    }

    /// Weights that clang gives to the two ways of `choose`.
    #[track_caller]
    fn branch_weights(&self, folder: &Path, n_rare: u64, n_usual: u64) -> (u64, u64) {
        let profile = file(folder, "llvm.prof", text(Format::LlvmSample, &self.profile(n_rare, n_usual), self));
        let option = format!("-fprofile-sample-use={}", profile.display());
        let code = run(compile().args(["-S", "-emit-llvm", "-fno-inline", "-o", "-"]).arg(option));
        weights(&code)
    }
}

fn compile() -> Command {
    let mut clang = Command::new("clang-19");
    clang.args(["-O2", "-g", "-fdebug-info-for-profiling"]);
    clang.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/choose.c"));
    clang
}

/// The weights at the only conditional branch of `choose`: it tests whether the remainder is
/// unequal to 0 or equal, in this order of sides.
#[track_caller]
fn weights(code: &str) -> (u64, u64) {
    let body = code.split("@choose(").nth(1).and_then(|rest| rest.split("\n}").next()).expect("the function");
    let branch = body.lines().find(|line| line.contains("br i1")).expect("a branch");
    let first_target = branch.split("label %").nth(1).and_then(|rest| rest.split(',').next()).expect("a target");
    let first_block = body.split(&format!("\n{first_target}:")).nth(1).expect("the block");
    let is_rare_first =
        first_block.find("@rare").unwrap_or(usize::MAX) < first_block.find("@usual").unwrap_or(usize::MAX);
    let node = branch.split("!prof ").nth(1).and_then(|rest| rest.split(',').next()).expect("weights");
    let definition = code.lines().find(|line| line.starts_with(&format!("{node} = "))).expect("a definition");
    let numbers: Vec<u64> = definition
        .split("i32 ")
        .skip(1)
        .filter_map(|word| word.trim_end_matches([',', '}', ' ']).parse().ok())
        .collect();
    let &[first, second] = numbers.as_slice() else { panic!("{definition}") };
    if is_rare_first { (first, second) } else { (second, first) }
}

impl MappedBlock {
    /// The calls of the program are the first instructions of their blocks.
    fn counted(&self, count: u64) -> Block {
        Block {
            function: FunctionId(0),
            address: self.address,
            size: self.size,
            last: 0,
            n_insns: 1,
            end: BlockEnd::Jump,
            count: Estimate::exact(count),
            self_ns: Estimate::default(),
        }
    }
}

/// The blocks in the listing of `llvm-readobj --bb-addr-map`, in the order of addresses.
fn parse_map(listing: &str) -> BTreeMap<String, Vec<MappedBlock>> {
    let mut blocks: BTreeMap<String, Vec<MappedBlock>> = BTreeMap::new();
    let (mut name, mut base, mut id, mut offset) = (String::new(), 0, 0, 0);
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a number");
    for line in listing.lines() {
        match line.trim().split_once(": ") {
            Some(("Name", value)) => value.clone_into(&mut name),
            Some(("Base Address", value)) => base = number(value),
            Some(("ID", value)) => id = value.parse().expect("an id"),
            Some(("Offset", value)) => offset = number(value),
            Some(("Size", value)) => {
                let block = MappedBlock { id, address: base + offset, size: number(value) as u32 };
                blocks.entry(name.clone()).or_default().push(block);
            }
            _ => {}
        }
    }
    blocks.values_mut().for_each(|blocks| blocks.sort_by_key(|block| block.address));
    blocks
}

impl Symbols for Program {
    fn frames(&self, _module: ModuleId, address: u64) -> Vec<SourceFrame> {
        let known = self.lines.borrow().get(&address).cloned();
        known.unwrap_or_else(|| {
            let frames = self.symbolize(address);
            self.lines.borrow_mut().insert(address, frames.clone());
            frames
        })
    }
}

impl Program {
    fn symbolize(&self, address: u64) -> Vec<SourceFrame> {
        let answer = run(Command::new("llvm-symbolizer-19")
            .arg(format!("--obj={}", self.path.display()))
            .args(["--output-style=JSON", &format!("{address:#x}")]));
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        let number = |frame: &serde_json::Value, key: &str| frame[key].as_u64().expect("a number") as u32;
        let frames = answer[0]["Symbol"].as_array().expect("frames").iter().map(|frame| SourceFrame {
            function: frame["FunctionName"].as_str().expect("a name").to_owned(),
            file: frame["FileName"].as_str().expect("a name").to_owned(),
            line: number(frame, "Line"),
            discriminator: number(frame, "Discriminator"),
            function_line: number(frame, "StartLine"),
            ..SourceFrame::default()
        });
        frames.collect()
    }
}

impl BinaryFacts for Program {
    fn bolt_symbol(&self, _module: ModuleId, _address: u64) -> Option<SymbolOffset> {
        None
    }

    fn is_jump_target(&self, _module: ModuleId, _address: u64) -> bool {
        false
    }

    fn basic_block_id(&self, block: BlockId) -> Option<u32> {
        self.choose().get(block.index()).map(|block| block.id)
    }
}
