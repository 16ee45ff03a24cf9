//! The sound files that fuzzing starts from: small Debian programs, and programs compiled here so
//! that every table that a parser reads occurs (exception tables, compressed debug data, embedded
//! symbol tables, packed relocations).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::mutate::Base;

const INSTALLED: [&str; 3] = ["/usr/bin/true", "/usr/bin/compress", "/usr/bin/tinyscheme"];
const THROWS: &str = include_str!("../../fuzz/throws.cpp");
const SWITCHES: &str = include_str!("../../fuzz/switches.c");

/// Commands that build the other files, run in the directory of the sources.
const BUILD: [&str; 8] = [
    "g++ -O2 -g -gz -o throws throws.cpp",
    "strip -o throws-stripped throws",
    "strip -g -o symbols throws && xz --threads=1 --keep --force symbols",
    "objcopy --add-section .gnu_debugdata=symbols.xz throws-stripped throws-debugdata && rm symbols symbols.xz",
    "gcc -O2 -g -o switches switches.c",
    "gcc -O1 -no-pie -fcf-protection -s -o switches-fixed switches.c",
    "gcc -O2 -fPIC -shared -Wl,-z,pack-relative-relocs -s -o libswitches.so switches.c",
    "rm throws.cpp switches.c",
];

/// Collects the files in `dir`, which must be empty.
pub fn collect(dir: &Path) -> anyhow::Result<()> {
    for path in INSTALLED.map(Path::new) {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let copied = fs::copy(path, dir.join(name));
        copied.with_context(|| format!("{} is missing; `strobe-lab corpus install` installs it", path.display()))?;
    }
    fs::write(dir.join("throws.cpp"), THROWS)?;
    fs::write(dir.join("switches.c"), SWITCHES)?;
    for command in BUILD {
        let output = Command::new("sh").args(["-c", command]).current_dir(dir).output()?;
        let message = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`{command}` failed: {}", message.trim());
    }
    Ok(())
}

/// Reads the files of a directory, in the order of their names.
pub fn read(dir: &Path) -> anyhow::Result<Vec<Base>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.sort();
    let base = |path: PathBuf| {
        Base::new(fs::read(&path)?).with_context(|| format!("{} is not a sound ELF file", path.display()))
    };
    paths.into_iter().map(base).collect()
}
