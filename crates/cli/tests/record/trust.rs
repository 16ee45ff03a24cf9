//! What programs load comes from nobody but the user, and whatever lies in the cache stops no
//! recording.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build::{Executable, Program};
use crate::process::Outcome;
use crate::recorder::{finish, start_strobe_in};

const NOBODY: u32 = 65534;

fn program() -> Executable {
    Program::new("spin.c").build()
}

fn own_user() -> u32 {
    fs::metadata("/proc/self").expect("a process").uid()
}

/// Whether files can be given to another user, as root can.
fn is_root() -> bool {
    let is_root = own_user() == 0;
    if !is_root {
        eprintln!("not tested: what another user has made; only root can");
    }
    is_root
}

/// Records with these changes to the environment, for `env`.
fn record(executable: &Executable, environment: &[&str]) -> Outcome {
    let profile = executable.beside("profile");
    fs::remove_file(&profile).ok();
    let around = [&["env"], environment].concat();
    let options = ["-o", profile.to_str().expect("UTF-8")];
    finish("a recording", start_strobe_in(&around, executable, &options, &executable.command_line()))
}

fn record_with_cache(executable: &Executable, cache: &Path) -> Outcome {
    let outcome = record(executable, &[&format!("XDG_CACHE_HOME={}", cache.display())]);
    assert_eq!(outcome.ended.code, 6, "{}", outcome.stderr);
    outcome
}

fn fact(executable: &Executable, name: &str) -> u64 {
    store::facts(&executable.beside("profile")).expect("a profile")[name].parse().expect("a number")
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.into_iter().flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// Without a cache, the runtime lies in a folder for temporary files, unless others have a hand in
/// it.
#[test]
fn without_a_cache() {
    let executable = program();
    let shared = executable.beside("shared");
    fs::create_dir(&shared).expect("a writable folder");
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).expect("an own folder");
    let temporary = format!("TMPDIR={}", shared.display());
    let environment = ["-u", "HOME", "-u", "XDG_CACHE_HOME", &temporary];
    let folder = shared.join(format!("strobe-{}", own_user()));

    let outcome = record(&executable, &environment);
    assert_eq!(outcome.ended.code, 6, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("nothing is kept for the next run"), "{}", outcome.stderr);
    assert_eq!(fact(&executable, "processes"), 1);

    let expect_refusal = |what: &str| {
        let outcome = record(&executable, &environment);
        assert_eq!(outcome.ended.code, 1, "{what}: {}", outcome.stderr);
        let names_all =
            [&folder.display().to_string(), "XDG_CACHE_HOME", what].iter().all(|part| outcome.stderr.contains(*part));
        assert!(names_all, "{what}: {}", outcome.stderr);
        assert!(outcome.files.is_empty(), "the program ran");
    };
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("an own folder");
    expect_refusal("others can write there");
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("an own folder");
    if is_root() {
        chown(&folder, Some(NOBODY), None).expect("root");
        expect_refusal("belongs to user 65534");
    }
}

/// The library is what strobe carries, whatever lies there under its name.
#[test]
fn an_exchanged_library() {
    let executable = program();
    let cache = executable.beside("cache");
    record_with_cache(&executable, &cache);
    let files = files_below(&cache);
    let library = files.iter().find(|path| path.extension().is_some_and(|it| it == "so")).expect("a runtime");
    let content = fs::read(library).expect("the runtime");
    let mut other = content.clone();
    *other.last_mut().expect("a byte") ^= 1;
    fs::write(library, other).expect("an own file");
    record_with_cache(&executable, &cache);
    assert_eq!(fs::read(library).expect("the runtime"), content);
    if is_root() {
        chown(library, Some(NOBODY), None).expect("root");
        record_with_cache(&executable, &cache);
        assert_eq!(fs::metadata(library).expect("the runtime").uid(), 0);
    }
}

/// Pipes in place of all files of the cache.
#[test]
fn pipes_in_the_cache() {
    let executable = program();
    let cache = executable.beside("cache");
    record_with_cache(&executable, &cache);
    let files = files_below(&cache);
    assert!(files.iter().any(|path| path.extension().is_some_and(|it| it == "copy")), "{files:?}");
    for path in &files {
        fs::remove_file(path).expect("an own file");
        assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
    }
    record_with_cache(&executable, &cache);
    assert_eq!((fact(&executable, "processes"), fact(&executable, "modules_from_cache")), (1, 0));
}

/// What another user has put into the cache is as if it were not there.
#[test]
fn entries_of_another_user() {
    if !is_root() {
        return;
    }
    let executable = program();
    let cache = executable.beside("cache");
    record_with_cache(&executable, &cache);
    record_with_cache(&executable, &cache);
    assert!(fact(&executable, "modules_from_cache") > 0);
    files_below(&cache).iter().for_each(|path| chown(path, Some(NOBODY), None).expect("root"));
    record_with_cache(&executable, &cache);
    assert_eq!(fact(&executable, "modules_from_cache"), 0);
    record_with_cache(&executable, &cache);
    assert!(fact(&executable, "modules_from_cache") > 0, "the next run has its own");
}
