//! The same conditions for a program under callgrind and under `strobe record --exact`.
//!
//! **When counting starts.** strobe takes over when the dynamic linker calls the first constructor,
//! which is its own. Under callgrind a small library stands where strobe's is, with the same claim
//! to be first, and its constructor has callgrind forget what it has counted. So neither side
//! counts what the dynamic linker did before: relocation, and the resolvers of `IFUNC` symbols that
//! it calls.
//!
//! **What is loaded.** Constructors and destructors are called file by file, so both sides have as
//! many files: under strobe, a library with empty constructors stands for valgrind's. (Only
//! strobe's side has the vDSO, the kernel's own library, which valgrind hides.)
//!
//! **Environment.** Programs walk through, copy and hash their environment. callgrind is asked by
//! `env(1)` which one it gives to a program, and strobe's run gets the same variables in the same
//! order. The one that has to differ, `LD_PRELOAD`, has the same length.
//!
//! **Processor.** valgrind shows programs another one. glibc is told to make use of neither
//! ([`TUNABLES`]), and all symbols are bound before either side counts, so that no lookup passes
//! through the symbols of strobe's library.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// Features that only one of the two processors has, or that glibc prefers on one of them, and
/// sizes of caches.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-BMI1,-BMI2,-ERMS,-FMA,-FMA4,-FSRM,-LZCNT,-MOVBE,\
    -POPCNT,-RTM,-SSE3,-SSE4_1,-SSE4_2,-SSSE3,-XSAVE,-XSAVEC,-OSXSAVE,-AVX_Fast_Unaligned_Load,-Fast_Copy_Backward,\
    -Fast_Rep_String,-Fast_Unaligned_Copy,-Fast_Unaligned_Load,-Slow_BSF,-Prefer_PMINUB_for_stringop,\
    -Prefer_No_VZEROUPPER,-Prefer_ERMS,-Prefer_FSRM:\
    glibc.cpu.x86_data_cache_size=32768:glibc.cpu.x86_shared_cache_size=1048576:\
    glibc.cpu.x86_non_temporal_threshold=786432:glibc.cpu.x86_rep_movsb_threshold=2048:\
    glibc.cpu.x86_rep_stosb_threshold=2048";

/// A library to be built: its name, its source, and options of gcc.
type Library = (&'static str, &'static str, &'static [&'static str]);

const LIBRARIES: [Library; 2] = [
    (
        "mark",
        "#include <valgrind/callgrind.h>\n\
         __attribute__((constructor)) static void mark(void) { CALLGRIND_ZERO_STATS; }\n",
        &["-nostdlib", "-Wl,-z,initfirst"],
    ),
    ("plain", "", &["-nodefaultlibs"]),
];

/// How programs are run.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Where programs run.
    root: PathBuf,
    /// Where the libraries are.
    dir: PathBuf,
}

impl Conditions {
    /// Conditions of programs that run in `root`; the libraries are built in `dir`.
    pub fn prepare(root: &Path, dir: &Path) -> anyhow::Result<Conditions> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let conditions = Conditions { root: root.to_owned(), dir: dir.canonicalize()? };
        LIBRARIES.iter().try_for_each(|library| conditions.build(library))?;
        Ok(conditions)
    }

    fn build(&self, &(name, text, options): &Library) -> anyhow::Result<()> {
        let source = self.dir.join(name).with_extension("c");
        fs::write(&source, text)?;
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-shared", "-fPIC", "-Wl,-z,now", "-o"]).arg(self.library(name)).args(options).arg(&source);
        let built = gcc.output().context("cannot start gcc; install the package gcc")?;
        ensure!(built.status.success(), "cannot build {name}.so: {}", String::from_utf8_lossy(&built.stderr));
        Ok(())
    }

    fn library(&self, name: &str) -> PathBuf {
        self.dir.join(name).with_extension("so")
    }

    /// What to put in front of `valgrind`. `padding_bytes` is the length of a variable that is
    /// there to move the stack.
    #[must_use]
    pub fn in_front_of_valgrind(&self, padding_bytes: usize) -> String {
        let home = std::env::var("HOME").unwrap_or_else(|_| "/".to_owned());
        let (mark, padding) = (self.library("mark").to_string_lossy().into_owned(), "x".repeat(padding_bytes));
        let variables = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", &home),
            ("LC_ALL", "C"),
            ("LD_BIND_NOW", "1"),
            ("LD_PRELOAD", &mark),
            ("GLIBC_TUNABLES", TUNABLES),
            ("JSIMD_FORCESSE2", "1"),
            ("PADDING", &padding),
        ];
        environment_command(variables.into_iter())
    }

    /// What to put in front of `strobe`.
    pub fn in_front_of_strobe(&self, padding_bytes: usize) -> anyhow::Result<String> {
        let text = self.environment_under_valgrind(padding_bytes)?;
        let plain = self.library("plain").to_string_lossy().into_owned();
        let mut variables: Vec<(&str, String)> = Vec::new();
        for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
            let value = if name == "LD_PRELOAD" { padded(&plain, value.len())? } else { value.to_owned() };
            variables.push((name, value));
        }
        Ok(environment_command(variables.iter().map(|(name, value)| (*name, value.as_str()))))
    }

    /// The environment of a program that is started under valgrind, a variable in a line.
    fn environment_under_valgrind(&self, padding_bytes: usize) -> anyhow::Result<String> {
        let script = format!("{} valgrind -q --tool=none env", self.in_front_of_valgrind(padding_bytes));
        let mut shell = Command::new("sh");
        let output = shell.arg("-c").arg(&script).current_dir(&self.root).output().context("cannot start a shell")?;
        let messages = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`valgrind env` failed; install the package valgrind: {messages}");
        String::from_utf8(output.stdout).context("the environment is no text")
    }
}

/// The path with as many slashes in front as it takes.
fn padded(path: &str, len: usize) -> anyhow::Result<String> {
    ensure!(path.starts_with('/') && path.len() <= len, "{path} cannot be brought to {len} bytes");
    Ok(format!("{}{path}", "/".repeat(len - path.len())))
}

fn environment_command<'a>(variables: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    variables.fold("env -i".to_owned(), |mut command, (name, value)| {
        // Writing to a string cannot fail.
        let _ = write!(command, " {name}='{value}'");
        command
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_any_length_names_the_same_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "here").unwrap();
        let long = padded(path.to_str().unwrap(), 700).unwrap();
        assert_eq!((long.len(), fs::read_to_string(long).unwrap()), (700, "here".to_owned()));
        assert!(padded("/a/b", 3).is_err() && padded("a/b", 30).is_err());
    }
}
