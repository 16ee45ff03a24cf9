//! The full trace (`--exact=trace`): every path in the order in which paths ended. `stepped` has
//! the order itself.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::Command;

use crate::build::{Executable, Program};
use crate::compare::expect_same;
use crate::exact::counted;
use crate::recorder::{finish, run_native, start_recorded};
use crate::stepped::PathKey;

/// Words of the trace of `counted.c` around its 300 handlers.
const N_MARKS: u64 = 600;

pub fn path(executable: &Executable) -> PathBuf {
    executable.beside("profile.trace")
}

/// What `strobe dump trace` prints of the last recording, even if the file is not whole.
pub fn dump(executable: &Executable, options: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strobe"));
    let output = command.args(["dump", "trace"]).arg(path(executable)).args(options).output().expect("strobe starts");
    String::from_utf8(output.stdout).expect("text")
}

fn address(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_else(|_| panic!("{text} is no address"))
}

/// Lines of the program's own functions, by thread, in parts.
fn own_lines(text: &str) -> BTreeMap<String, Vec<Vec<&str>>> {
    let mut threads: BTreeMap<String, Vec<Vec<&str>>> = BTreeMap::new();
    for line in text.lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        if let [thread, _, function, ..] = parts[..]
            && (function.starts_with("program!") || function.starts_with("program+"))
        {
            threads.entry(thread.to_owned()).or_default().push(parts);
        }
    }
    threads
}

/// Whole paths of the program itself in the order in which they ended, of each thread.
pub fn paths(executable: &Executable) -> Vec<Vec<PathKey>> {
    let text = dump(executable, &[]);
    let key = |parts: &Vec<&str>| -> Option<PathKey> {
        let [_, _, _, _, blocks, end] = parts[..] else { panic!("{parts:?}") };
        let blocks = blocks.strip_prefix("blocks=").expect("blocks");
        let is_whole = !blocks.starts_with("...");
        let back_to = end.strip_prefix("end=back-to:").map(address);
        is_whole.then(|| (blocks.split(',').map(address).collect(), back_to))
    };
    own_lines(&text).values().map(|lines| lines.iter().filter_map(key).collect()).collect()
}

/// Blocks of the program itself in the order in which they ran, of each thread.
pub fn blocks(executable: &Executable) -> Vec<Vec<u64>> {
    let text = dump(executable, &["--blocks"]);
    own_lines(&text).values().map(|lines| lines.iter().map(|parts| address(parts[3])).collect()).collect()
}

#[track_caller]
fn expect_same_output(program: &Program) {
    let executable = program.build();
    let recorded = finish("a full trace", start_recorded(&executable, &["--exact=trace"]));
    expect_same("a full trace", &run_native(&executable), &recorded);
}

#[test]
fn signal_handlers_are_traced() {
    expect_same_output(&Program::new("signals.c"));
}

#[test]
fn jumps_out_of_handlers_are_traced() {
    expect_same_output(&Program::new("siglongjmp.c"));
}

#[test]
fn threads_and_children_are_traced() {
    expect_same_output(&Program::new("threads.c"));
    expect_same_output(&Program::new("fork.c"));
}

/// 64 threads, signals, jumps: as many records as paths that were counted, and the same profile as
/// without a trace.
#[test]
fn counts_are_those_of_paths() {
    let executable = Program::new("counted.c").flags(&["-O1", "-fno-optimize-sibling-calls"]).build();
    let own = |profile: &profile::Profile| -> BTreeMap<PathKey, u64> {
        let address = |block: &profile::model::BlockId| profile.blocks[block.index()].address;
        let is_own = |path: &&profile::model::Path| {
            let module = profile.functions[path.function.index()].module;
            profile.modules[module.index()].path.ends_with("/program")
        };
        let key = |path: &profile::model::Path| {
            (path.blocks.iter().map(address).collect(), path.back_to.as_ref().map(address))
        };
        profile.paths.iter().filter(is_own).map(|path| (key(path), path.count.value as u64)).collect()
    };
    let expected = own(&counted(&executable, "--exact=paths"));
    assert_eq!(own(&counted(&executable, "--exact=trace")), expected);
    let facts = store::facts(&executable.beside("profile")).expect("facts");
    assert_eq!(facts["trace_records_lost"], "0", "{facts:?}");
    // Handlers lie between two marks, which are words of the trace but no paths.
    assert_eq!(facts["trace_records"], facts["paths_ended"], "{facts:?}");
    assert_eq!(
        (facts["unknown_paths"].as_str(), facts["trace_marks"].clone()),
        ("0", N_MARKS.to_string()),
        "{facts:?}"
    );
    let mut traced: BTreeMap<PathKey, u64> = BTreeMap::new();
    let threads = paths(&executable);
    assert!(threads.len() > 64, "only {} threads", threads.len());
    threads.into_iter().flatten().for_each(|key| *traced.entry(key).or_default() += 1);
    assert_eq!(traced, expected);
}

/// A trace that takes no more bytes, as on a full disk: here it is a pipe, whose reader goes when
/// it has the start. The program puts out the same, and its profile is the same; what the trace
/// does not have is counted.
#[test]
fn a_trace_that_cannot_be_written_on_is_counted_as_lost() {
    const START_BYTES: usize = 16;
    let executable = Program::new("counted.c").flags(&["-O1"]).build();
    let made = Command::new("mkfifo").arg(path(&executable)).status().expect("mkfifo starts");
    assert!(made.success(), "{made}");
    let pipe = path(&executable);
    let reader = std::thread::spawn(move || {
        let mut start = [0; START_BYTES];
        std::fs::File::open(pipe).and_then(|mut pipe| pipe.read_exact(&mut start))
    });
    let recorded = finish("a full disk", start_recorded(&executable, &["--exact=trace"]));
    expect_same("a full disk", &run_native(&executable), &recorded);
    reader.join().expect("a reader").expect("the start of a trace");
    assert!(recorded.stderr.contains("LOST"), "{}", recorded.stderr);
    let facts = store::facts(&executable.beside("profile")).expect("facts");
    let number = |name: &str| -> u64 { facts[name].parse().expect("a number") };
    let n_words = number("trace_records") + number("trace_marks") + number("trace_records_lost");
    assert!(number("trace_records_lost") > 0 && number("paths_ended") > 0, "{facts:?}");
    assert_eq!(n_words, number("paths_ended") + N_MARKS, "{facts:?}");
}

#[test]
fn a_part_of_a_trace_is_that_part() {
    let executable = Program::new("stepped/recursion.c").flags(&["-O1"]).build();
    counted(&executable, "--exact=trace");
    for options in [&[][..], &["--blocks"]] {
        let all = dump(&executable, options);
        let lines = |text: &str| -> Vec<String> {
            let is_record = |line: &&str| line.split(' ').take(2).all(|part| part.parse::<u64>().is_ok());
            text.lines().filter(is_record).map(str::to_owned).collect()
        };
        let part = dump(&executable, &[options, &["--from", "7", "--limit", "20"]].concat());
        assert_eq!(lines(&part), lines(&all)[7..27], "{options:?}");
    }
    let nobody = dump(&executable, &["--thread", "1"]);
    assert!(lines_of_threads(&nobody).is_empty(), "{nobody}");
}

fn lines_of_threads(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with("thread")).collect()
}
