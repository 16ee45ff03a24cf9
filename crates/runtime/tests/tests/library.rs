//! The library as a file: what it needs, imports and exports.

use std::path::{Path, PathBuf};
use std::process::Command;

use strobe_runtime_tests::runtime;

const EXPORTS: [&str; 44] = [
    "__ppoll_chk",
    "__sysv_signal",
    "bsd_signal",
    "dlclose",
    "epoll_pwait",
    "epoll_pwait2",
    "execl",
    "execle",
    "execlp",
    "execv",
    "execve",
    "execvp",
    "execvpe",
    "fexecve",
    "mprotect",
    "popen",
    "posix_spawn",
    "posix_spawnp",
    "ppoll",
    "prctl",
    "pselect",
    "pthread_cancel",
    "pthread_create",
    "pthread_sigmask",
    "ptrace",
    "raise",
    "sigaction",
    "sigaltstack",
    "sighold",
    "sigignore",
    "siginterrupt",
    "signal",
    "sigpending",
    "sigprocmask",
    "sigrelse",
    "sigset",
    "sigsuspend",
    "sigtimedwait",
    "sigwait",
    "sigwaitinfo",
    "ssignal",
    "syscall",
    "system",
    "sysv_signal",
];

fn readelf(option: &str) -> String {
    let output = Command::new("readelf").args(["--wide", option]).arg(runtime()).output();
    let output = output.expect("readelf is needed: install the package binutils");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn needs_no_library() {
    let dynamic = readelf("--dynamic");
    assert!(dynamic.contains("INIT_ARRAY"), "{dynamic}");
    assert!(!dynamic.contains("NEEDED"), "{dynamic}");
    assert!(!dynamic.contains("TEXTREL"), "{dynamic}");
}

#[test]
fn exports_exactly_what_it_interposes_and_imports_nothing() {
    let symbols = readelf("--dyn-syms");
    let mut exported = Vec::new();
    for line in symbols.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [_, _, _, _, _, _, section, name] = fields[..]
            && section != "Ndx"
        {
            assert_ne!(section, "UND", "imports {name}");
            exported.push(name);
        }
    }
    exported.sort_unstable();
    let mut expected = EXPORTS.to_vec();
    expected.push("thrd_create");
    assert_eq!(exported, expected);
}

#[test]
fn has_no_thread_local_storage() {
    assert!(!readelf("--program-headers").contains(" TLS "));
}

/// Sources and their text.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(folder).expect("the sources");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![(path.clone(), std::fs::read_to_string(&path).expect("text"))],
        })
        .collect()
}

#[test]
fn global_state_is_in_one_place() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let is_mutable = |line: &str| {
        let declared = line.trim_start().trim_start_matches("pub ");
        declared.starts_with("static ") && ["Atomic", "Cell", "static mut"].iter().any(|each| declared.contains(each))
    };
    let sources = sources(&folder);
    let with_state: Vec<_> = sources.iter().filter(|(_, text)| text.lines().any(is_mutable)).collect();
    assert_eq!(with_state.len(), 1, "{:?}", with_state.iter().map(|(path, _)| path).collect::<Vec<_>>());
    assert!(with_state[0].0.ends_with("statics.rs"));
}
