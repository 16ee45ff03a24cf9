//! What is kept from run to run: nothing that is damaged, foreign or old is used, the limit is
//! kept, and whoever makes the cache smaller disturbs no recording.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fixtures::random::Random;
use serde_json::Value;

use crate::build::{Executable, Program};
use crate::compare::expect_same;
use crate::process::Outcome;
use crate::recorder::{finish, run_native, start_strobe_in};

/// How often all files of a cache are damaged.
const N_ROUNDS: u64 = 4;
/// How long recordings and removals go on at the same time.
const RACE: Duration = Duration::from_secs(4);

fn program() -> Executable {
    Program::new("call_sites.c").build()
}

/// Code is run in copies only, and all of it has been translated when the program ends.
const EXACT: &[&str] = &["--exact=blocks"];
const SAMPLED: &[&str] = &["--rate", "4000", "--burst", "64"];

fn record(executable: &Executable, cache: &Path, options: &[&str]) -> Outcome {
    record_with(executable, cache, options, &[])
}

/// Records with this cache, and with further variables for `env`.
fn record_with(executable: &Executable, cache: &Path, options: &[&str], variables: &[&str]) -> Outcome {
    let profile = executable.beside("profile");
    fs::remove_file(&profile).ok();
    let home = format!("XDG_CACHE_HOME={}", cache.display());
    let around = [&["env", &home], variables].concat();
    let options = [options, &["-o", profile.to_str().expect("UTF-8")]].concat();
    finish("a recording", start_strobe_in(&around, executable, &options, &executable.command_line()))
}

/// `strobe cache WORDS`.
fn strobe_cache(cache: &Path, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strobe"));
    command.arg("cache").args(words).env("XDG_CACHE_HOME", cache).env_remove("STROBE_CACHE_LIMIT");
    let output = command.output().expect("strobe starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "strobe cache {words:?}: {stderr}");
    assert_eq!(stderr, "", "strobe cache {words:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn listed(cache: &Path) -> Vec<Value> {
    let document: Value = serde_json::from_str(&strobe_cache(cache, &["list", "--json"])).expect("JSON");
    document["files"].as_array().expect("files").clone()
}

/// The files of translations, by name.
fn translations(cache: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(cache.join("strobe")).expect("a cache").map(|file| file.expect("a file").path());
    let is_translation = |path: &PathBuf| path.extension().is_some_and(|it| it == "copy" || it == "code");
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    files.filter(is_translation).map(|path| (name(&path), fs::read(&path).expect("own file"))).collect()
}

fn fact(executable: &Executable, name: &str) -> u64 {
    store::facts(&executable.beside("profile")).expect("a profile")[name].parse().expect("a number")
}

/// Files with changed bits, cut off, lengthened, or with what belongs under another name: the
/// program's output is the same, nothing is taken from the cache, and the files are made again.
#[test]
fn damaged_files_are_made_again() {
    let executable = program();
    let native = run_native(&executable);
    let cache = executable.beside("cache");
    expect_same("the first recording", &native, &record(&executable, &cache, EXACT));
    expect_same("the second recording", &native, &record(&executable, &cache, EXACT));
    let n_modules = fact(&executable, "modules_translated");
    assert!(n_modules >= 3 && fact(&executable, "modules_from_cache") == n_modules, "{n_modules} modules");
    let whole = translations(&cache);
    assert_eq!(whole.len() as u64, 2 * n_modules);
    for seed in 0..N_ROUNDS {
        let what = damage_all(&cache, &whole, seed);
        expect_same(&what, &native, &record(&executable, &cache, EXACT));
        assert_eq!(fact(&executable, "modules_translated"), n_modules, "{what}");
        assert_eq!(fact(&executable, "modules_from_cache"), 0, "{what}");
        assert_same_files(&what, &whole, &translations(&cache));
    }
}

/// The same where bursts go through copies while others are being made.
#[test]
fn no_burst_goes_through_damaged_files() {
    let executable = Program::new("spin.c").build();
    let native = run_native(&executable);
    let cache = executable.beside("cache");
    fs::create_dir(&cache).expect("a writable folder");
    let warm = || strobe_cache(&cache, &["warm", &executable.command_line()[0]]);
    warm();
    expect_same("a recording", &native, &record(&executable, &cache, SAMPLED));
    assert!(fact(&executable, "bursts") > 0 && fact(&executable, "modules_from_cache") > 0);
    let whole = translations(&cache);
    for seed in N_ROUNDS..2 * N_ROUNDS {
        let what = damage_all(&cache, &whole, seed);
        expect_same(&what, &native, &record(&executable, &cache, SAMPLED));
        assert_eq!(fact(&executable, "modules_from_cache"), 0, "{what}");
        warm();
        assert_same_files(&what, &whole, &translations(&cache));
    }
}

fn assert_same_files(what: &str, expected: &BTreeMap<String, Vec<u8>>, files: &BTreeMap<String, Vec<u8>>) {
    let names: Vec<&String> = files.keys().collect();
    assert_eq!(names, expected.keys().collect::<Vec<_>>(), "{what}");
    let other = files.iter().find(|&(name, bytes)| expected[name] != *bytes);
    assert!(other.is_none(), "{what}: {}", other.expect("some").0);
}

/// Damages every file of the cache, and returns how.
fn damage_all(cache: &Path, whole: &BTreeMap<String, Vec<u8>>, seed: u64) -> String {
    let mut random = Random(seed);
    let damages = whole.iter().enumerate().map(|(index, (name, bytes))| {
        let other = whole.values().nth((index + 1) % whole.len()).expect("there is one");
        let (what, damaged) = damage(bytes, other, &mut random);
        fs::write(cache.join("strobe").join(name), damaged).expect("own file");
        format!("{name}: {what}")
    });
    format!("seed {seed}: {:?}", damages.collect::<Vec<_>>())
}

/// Returns what was done, and what has come of it.
fn damage(bytes: &[u8], other: &[u8], random: &mut Random) -> (String, Vec<u8>) {
    let mut damaged = bytes.to_vec();
    let place = random.below(bytes.len() as u32) as usize;
    let what = match random.below(8) {
        0..=2 => {
            let bit = random.below(8);
            damaged[place] ^= 1 << bit;
            format!("bit {bit} of byte {place}")
        }
        3 => {
            // The seal, which is at the end, is not all zeros.
            damaged[place..].fill(0);
            format!("zeros from {place}")
        }
        4 | 5 => {
            damaged.truncate(place);
            format!("{place} of {} bytes", bytes.len())
        }
        6 => {
            damaged.push(random.below(256) as u8);
            "one byte more".to_owned()
        }
        _ => {
            damaged = other.to_vec();
            "what belongs to another".to_owned()
        }
    };
    (what, damaged)
}

/// Recordings that start while others write the same files and somebody removes all of them.
#[test]
fn removals_disturb_no_recording() {
    let both = || [(program(), EXACT), (Program::new("spin.c").build(), SAMPLED)];
    let racing: Vec<(Executable, &[&str])> = both().into_iter().chain(both()).collect();
    let cache = racing[0].0.beside("cache");
    fs::create_dir(&cache).expect("a writable folder");
    let is_over = AtomicBool::new(false);
    let started = Instant::now();
    thread::scope(|scope| {
        let recordings: Vec<_> = racing
            .iter()
            .map(|(executable, options)| {
                let cache = &cache;
                scope.spawn(move || {
                    let native = run_native(executable);
                    let mut n_recordings = 0;
                    while n_recordings < 2 || started.elapsed() < RACE {
                        let outcome = record(executable, cache, options);
                        expect_same("a recording among removals", &native, &outcome);
                        assert!(!outcome.stderr.contains("ld.so"), "{}", outcome.stderr);
                        assert_eq!(fact(executable, "processes"), 1, "{}", outcome.stderr);
                        n_recordings += 1;
                    }
                    n_recordings
                })
            })
            .collect();
        for words in [&["clear"][..], &["trim", "--limit", "0"], &["trim", "--limit", "1M"]] {
            let (cache, is_over) = (&cache, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    strobe_cache(cache, words);
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
        let outcomes: Vec<_> = recordings.into_iter().map(|each| each.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        let n_recordings: Vec<i32> = outcomes.into_iter().map(|each| each.expect("no panic")).collect();
        println!("recordings: {n_recordings:?}");
    });
    assert!(listed(&cache).iter().all(|file| file["kind"] != "unfinished"), "{:?}", listed(&cache));
    let executable = &racing[0].0;
    record(executable, &cache, EXACT);
    record(executable, &cache, EXACT);
    assert_eq!(fact(executable, "modules_from_cache"), fact(executable, "modules_translated"));
}

/// The limit holds after every recording that has written something; the program is recorded all
/// the same, and what is removed is made again.
#[test]
fn a_recording_keeps_the_cache_within_its_limit() {
    const LIMIT: u64 = 1 << 20;
    let executable = program();
    let native = run_native(&executable);
    let cache = executable.beside("cache");
    let bytes = || listed(&cache).iter().filter(is_limited).map(|file| file["bytes"].as_u64().expect("bytes")).sum();
    expect_same("without a limit", &native, &record(&executable, &cache, EXACT));
    let all: u64 = bytes();
    assert!(all > LIMIT, "{all} bytes");
    let limit = format!("STROBE_CACHE_LIMIT={LIMIT}");
    expect_same("nothing is written", &native, &record_with(&executable, &cache, EXACT, &[&limit]));
    assert_eq!((bytes(), fact(&executable, "modules_from_cache")), (all, fact(&executable, "modules_translated")));
    fs::remove_file(cache.join("strobe").join(translations(&cache).keys().next().expect("a file"))).expect("own file");
    expect_same("something is written", &native, &record_with(&executable, &cache, EXACT, &[&limit]));
    let left: u64 = bytes();
    assert!(left <= LIMIT, "{left} bytes");
    let outcome = record_with(&executable, &cache, EXACT, &["STROBE_CACHE_LIMIT=much"]);
    expect_same("no limit", &native, &outcome);
    assert!(outcome.stderr.contains("STROBE_CACHE_LIMIT: give"), "{}", outcome.stderr);
}

fn is_limited(file: &&Value) -> bool {
    ["copy", "control_flow", "names"].iter().any(|kind| file["kind"] == *kind)
}

/// What a recording uses is younger than what it does not use, whatever was written first; and
/// files of strobes that are gone do not wait for the limit.
#[test]
fn files_that_are_used_stay() {
    let executable = program();
    let cache = executable.beside("cache");
    record(&executable, &cache, EXACT);
    let (folder, names) = (cache.join("strobe"), translations(&cache));
    let long_ago = SystemTime::now() - Duration::from_secs(1_000_000);
    for name in names.keys() {
        let file = File::options().write(true).open(folder.join(name)).expect("own file");
        file.set_modified(long_ago).expect("own file");
    }
    let gone = folder.join("module-0123456789abcdef-0123456789abcdef.copy");
    let earlier = folder.join("module-0123456789abcdef.code");
    for path in [&gone, &earlier] {
        fs::write(path, b"content").expect("a writable folder");
    }
    record(&executable, &cache, EXACT);
    assert_eq!(fact(&executable, "modules_from_cache"), fact(&executable, "modules_translated"));
    for name in names.keys() {
        let used = fs::metadata(folder.join(name)).and_then(|metadata| metadata.modified()).expect("it is there");
        assert!(used > long_ago + Duration::from_secs(500_000), "{name} was not used");
    }
    assert!(gone.exists() && earlier.exists(), "nothing was written");
    strobe_cache(&cache, &["trim"]);
    assert!(!gone.exists() && !earlier.exists());
    assert_eq!(translations(&cache).len(), names.len());
}

/// After `warm`, the first recording translates nothing and writes nothing.
#[test]
fn the_first_recording_starts_warm() {
    let executable = Program::new("spin.c").build();
    let native = run_native(&executable);
    let cache = executable.beside("cache");
    fs::create_dir(&cache).expect("a writable folder");
    let file = executable.command_line()[0].clone();
    assert_eq!(strobe_cache(&cache, &["warm", &file]), "");
    let warm = translations(&cache);
    expect_same("the first recording", &native, &record(&executable, &cache, &[]));
    let n_modules = fact(&executable, "modules_translated");
    assert!(n_modules >= 3 && fact(&executable, "modules_from_cache") == n_modules, "{n_modules} modules");
    assert!(translations(&cache) == warm, "{:?}", translations(&cache).keys());
    assert_eq!(warm.len() as u64, 2 * n_modules);
    strobe_cache(&cache, &["clear"]);
    let kinds: Vec<Value> = listed(&cache).iter().map(|file| file["kind"].clone()).collect();
    assert_eq!(kinds, ["runtime"], "programs that run may still load it");
}
