//! Copies at work: a program that runs its own copy (`tests/execution.c`).

use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use emit::{Events, ModuleCopy, Options, Position, Probe};
use flow::{ModuleFlow, Sequential, Transfer};
use image::{Image, Svma};
use wire::clusters::{Cluster, LANDING, LEADER, Version};
use wire::recovery::Run;
use wire::sample::EndReason;
use wire::thread::offset;

use crate::fixture::{build, parse};

pub const LO: u64 = 0x40_0000;
pub const SPAN: u64 = 0x100_0000;
/// Above the first GiB behind the program: the kernel begins the heap of a program at a fixed
/// address anywhere in that.
const COPY_AT: u64 = 0x7000_0000;
const MAP_AT: u64 = 0x5000_0000;
const COPY_ALIGNMENT: usize = 16;
pub const SOURCE: &str = include_str!("../execution.c");

pub fn defines() -> Vec<String> {
    let cluster_field = |field: usize| u64::from(offset::cluster(0)) + field as u64;
    let values = [
        ("LO", LO),
        ("SPAN", SPAN),
        ("COPY_AT", COPY_AT),
        ("MAP_AT", MAP_AT),
        ("SAVED_RAX", offset::SAVED_RAX.into()),
        ("SAVED_RCX", offset::SAVED_RCX.into()),
        ("SAVED_RDX", offset::SAVED_RDX.into()),
        ("SAVED_FLAGS", offset::SAVED_FLAGS.into()),
        ("TARGET", offset::TARGET.into()),
        ("CURSOR", offset::CURSOR.into()),
        ("LIMIT", offset::LIMIT.into()),
        ("CHECKS", offset::CHECKS.into()),
        ("END_REASON", offset::END_REASON.into()),
        ("STATE", offset::STATE.into()),
        ("N_SYSTEM_CALLS", offset::N_SYSTEM_CALLS.into()),
        ("CLUSTER_LO", cluster_field(offset_of!(Cluster, lo))),
        ("CLUSTER_SPAN", cluster_field(offset_of!(Cluster, span))),
        ("CLUSTER_MAP", cluster_field(offset_of!(Cluster, map))),
        ("CLUSTER_CHECKING_MAP", cluster_field(offset_of!(Cluster, checking_map))),
        ("CLUSTER_LEADER_BASE", cluster_field(offset_of!(Cluster, leader_base))),
        ("CLUSTER_COPY_BASE", cluster_field(offset_of!(Cluster, copy_base))),
        ("SYSTEM_CALLS_THAT_LEAVE", offset::SYSTEM_CALLS_THAT_LEAVE.into()),
        ("UNLOADS_PENDING", offset::UNLOADS_PENDING.into()),
    ];
    values.iter().map(|(name, value)| format!("-D{name}={value:#x}ul")).collect()
}

/// A copy as the program reads it.
pub struct Placed {
    pub code: Vec<u8>,
    pub entries: Vec<u8>,
    pub runs: Vec<u8>,
}

pub fn place(copy: &ModuleCopy) -> Placed {
    place_all([copy])
}

/// Copies one behind the other, each with cells of its own; those that only check have their
/// entries in another map.
pub fn place_all<'a>(copies: impl IntoIterator<Item = &'a ModuleCopy>) -> Placed {
    let mut placed = Placed { code: Vec::new(), entries: Vec::new(), runs: Vec::new() };
    let mut first_cell = 0;
    for copy in copies {
        placed.code.resize(placed.code.len().next_multiple_of(COPY_ALIGNMENT), 0xcc);
        let (start, map) =
            (placed.code.len() as u32, if copy.probe().version() == Version::Checking { SPAN } else { 0 });
        let position =
            Position { module_base: LO, copy: COPY_AT + u64::from(start), cluster_lo: LO, first_cell, first_key: 1 };
        placed.code.extend(copy.place(&position).expect("the copy reaches the program"));
        let entries =
            copy.entries().map(|entry| (entry.original, entry.copy, if entry.is_leader { LEADER } else { 0 }));
        let landings = copy.landings().map(|(last_byte, place)| (last_byte, place, LANDING));
        for (original, place, mark) in landings.chain(entries) {
            placed.entries.extend((original + map as u32).to_le_bytes());
            placed.entries.extend(((place + start) | mark).to_le_bytes());
        }
        placed.runs.extend(copy.runs().iter().flat_map(|run| run_bytes(&Run { copy: run.copy + start, ..*run })));
        first_cell += copy.n_cells();
    }
    placed
}

/// What the program printed, and the records of its last burst.
fn run(program: &[u8], copy: &ModuleCopy, max_steps: u32) -> (String, Vec<u32>) {
    let Placed { code, entries, runs } = place(copy);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a file in the temporary folder");
        path
    };
    let paths = [("program", program), ("copy", &code), ("entries", &entries), ("runs", &runs), ("records", &[])]
        .map(|(name, bytes)| file(name, bytes));
    make_executable(&paths[0]);
    let output =
        Command::new(&paths[0]).args(&paths[1..]).arg(max_steps.to_string()).output().expect("the program starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{:?} after {printed}", output.status);
    let records = std::fs::read(&paths[4]).expect("the program's records");
    (printed, records.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
}

/// A run as it lies in memory.
fn run_bytes(run: &Run) -> Vec<u8> {
    let Run { copy, original, kind, saves, save_end, writes, reserved } = *run;
    [&copy.to_le_bytes()[..], &original.to_le_bytes(), &[kind, saves], &save_end, &[writes, reserved]].concat()
}

pub fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("permissions set");
}

fn program(optimization: &str) -> Vec<u8> {
    let defines = defines();
    let mut flags = vec!["-static", "-no-pie", optimization, "-Wl,--build-id=none", "-w"];
    flags.extend(defines.iter().map(String::as_str));
    build("c", SOURCE, &flags)
}

fn translate(image: &Image<'_>, probe: Probe) -> (ModuleFlow, ModuleCopy) {
    let flow = flow::analyze(image, &Sequential);
    let copy = emit::translate(image, &flow, Options { cluster: 0, probe, events: Events::default() }, &Sequential);
    assert_eq!(emit_verify::verify(image, &flow, &copy), Ok(()));
    (flow, copy)
}

/// Whether control can go from the block at `from` to the one at `to`.
pub fn can_follow(flow: &ModuleFlow, from: Svma, to: Svma) -> bool {
    let block_at = |at: Svma| {
        let function = flow.function_at(at)?;
        Some(*function.cfg.block(function.cfg.block_at(at)?))
    };
    let (Some(block), Some(_)) = (block_at(from), block_at(to)) else { return false };
    match block.transfer {
        Transfer::Next => to == block.range.end,
        Transfer::Jump(target) | Transfer::Call(target) => to == target,
        Transfer::Branch(target) => to == target || to == block.range.end,
        Transfer::IndirectJump | Transfer::IndirectCall | Transfer::Return => true,
        Transfer::Trap => false,
    }
}

#[track_caller]
fn check(optimization: &str) {
    let file = program(optimization);
    let image = parse(&file);
    let (flow, copy) = translate(&image, Probe::Trace);
    let (printed, records) = run(&file, &copy, 0);
    assert!(records.len() > 1000, "{printed}");
    let blocks: Vec<Svma> = records.iter().map(|&record| Svma(LO + u64::from(record))).collect();
    for pair in blocks.windows(2) {
        assert!(can_follow(&flow, pair[0], pair[1]), "{} cannot follow {}", pair[1], pair[0]);
    }
    let is_full = |line: &&str| line.contains(&format!("reason {}, checks left 0,", EndReason::Full as u8));
    assert!(printed.lines().filter(is_full).count() > 50, "{printed}");

    let (_, bare) = translate(&image, Probe::None);
    let (bare_printed, bare_records) = run(&file, &bare, 0);
    assert!(bare_records.is_empty());
    let checks_left = |printed: &str| -> Vec<String> {
        let bursts = printed.lines().filter(|line| line.contains("checks left"));
        bursts.map(|line| line.split(", records").next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(checks_left(&printed), checks_left(&bare_printed), "records change nothing about checks");
}

#[test]
fn optimized() {
    check("-O2");
}

#[test]
fn not_optimized() {
    check("-O0");
}

#[test]
fn recovery_from_every_step() {
    let file = program("-O2");
    let image = parse(&file);
    let (_, copy) = translate(&image, Probe::Trace);
    let (printed, _) = run(&file, &copy, 300);
    assert_eq!(printed.matches("same after any of").count(), 13, "{printed}");
    assert!(printed.matches("same after any of 300 steps").count() >= 4, "{printed}");
}
