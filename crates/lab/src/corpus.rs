//! The corpus: unmodified Debian programs with deterministic inputs.
//!
//! `corpus/workloads.tsv` lists the programs; `corpus/generate.py` makes their inputs in a data
//! directory. Both are compiled into the binary, so that the lab needs no source tree. A workload
//! is a shell command run from the data directory; a tool's command line goes straight in front of
//! it. What it must put out is in [`outputs`].

pub mod outputs;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use crate::table::Table;

const WORKLOADS: &str = include_str!("../corpus/workloads.tsv");
const GENERATOR: &str = include_str!("../corpus/generate.py");
const PACKAGES: &str = include_str!("../packages.txt");

/// Where inputs and outputs go unless the user says otherwise; cargo's target directory is never
/// committed.
pub const DEFAULT_DIR: &str = "target/corpus";

/// One program and how to run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Short name, after the paper benchmark it stands for.
    pub name: &'static str,
    /// Debian package of the program.
    pub package: &'static str,
    /// Benchmarks of the papers that it stands for.
    pub stands_for: &'static str,
    /// Shell command, to be run from the data directory.
    pub command: &'static str,
}

impl Workload {
    /// The program's file.
    #[must_use]
    pub fn program(&self) -> &'static Path {
        Path::new(self.command.split(' ').next().unwrap_or_default())
    }

    /// The command behind the program's name: arguments and redirections.
    #[must_use]
    pub fn arguments(&self) -> &'static str {
        self.command.split_once(' ').map_or("", |(_, arguments)| arguments)
    }
}

/// A workload without its shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// The file to execute.
    pub program: PathBuf,
    /// What follows the program's name.
    pub arguments: Vec<OsString>,
    /// Where the standard input comes from; nothing if it is not said.
    pub input: Option<PathBuf>,
    /// Where the standard output goes.
    pub output: Option<PathBuf>,
}

/// All programs, in the order of the table.
#[must_use]
pub fn workloads() -> Vec<Workload> {
    let rows = WORKLOADS.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|row| {
        let mut fields = row.split('\t');
        Some(Workload {
            name: fields.next()?,
            package: fields.next()?,
            stands_for: fields.next()?,
            command: fields.next()?,
        })
    })
    .collect()
}

/// The programs with the given names, or all if none is given.
pub fn select(names: &[String]) -> anyhow::Result<Vec<Workload>> {
    let all = workloads();
    if names.is_empty() {
        return Ok(all);
    }
    let find = |name: &String| {
        let known = || all.iter().map(|workload| workload.name).collect::<Vec<_>>().join(", ");
        let found = all.iter().find(|workload| workload.name == *name);
        found.copied().with_context(|| format!("no corpus program `{name}`; there are {}", known()))
    };
    names.iter().map(find).collect()
}

/// The programs, for people.
#[must_use]
pub fn table() -> Table {
    let mut table = Table::new(&["name", "package", "stands for", "program"]);
    for Workload { name, package, stands_for, command } in workloads() {
        let program = command.split(' ').next().unwrap_or_default();
        table.row([name, package, stands_for, program].map(str::to_owned));
    }
    table
}

/// How much work the inputs make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Size {
    /// The least that exercises the program.
    Tiny,
    /// About 0.3 s of native time; for tools that slow programs down 50 times.
    Short,
    /// 1 to 4 s of native time.
    Full,
    /// 10 s of native time or more.
    Long,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Size::Tiny => "tiny",
            Size::Short => "short",
            Size::Full => "full",
            Size::Long => "long",
        })
    }
}

/// A directory with generated inputs of one size.
#[derive(Clone, Debug)]
pub struct Data {
    root: PathBuf,
}

impl Data {
    /// Makes the inputs of `programs` under `dir`, those that are not there and current already.
    pub fn generate(dir: &Path, size: Size, programs: &[Workload]) -> anyhow::Result<Data> {
        let root = dir.join(size.to_string());
        fs::create_dir_all(&root).with_context(|| format!("cannot make the corpus directory {}", root.display()))?;
        let root = root.canonicalize()?;
        let script = root.join("generate.py");
        fs::write(&script, GENERATOR)?;
        let status = Command::new(python())
            .arg(&script)
            .arg(&root)
            .arg(size.to_string())
            .args(programs.iter().map(|workload| workload.name))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .context("cannot start python3; install the package python3.11")?;
        ensure!(status.success(), "the input generator failed; `strobe-lab corpus install` installs what it needs");
        Ok(Data { root })
    }

    /// The directory that commands run from.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file to execute that behaves as the program: the program itself, or a copy without its
    /// set-group-id bit, because tools that run a program inside their own process refuse such
    /// files.
    pub fn runnable(&self, workload: &Workload) -> anyhow::Result<PathBuf> {
        const SET_ID_BITS: u32 = 0o6000;
        let program = workload.program().canonicalize().with_context(|| {
            format!("{} is missing; run `apt-get install {}`", workload.program().display(), workload.package)
        })?;
        if fs::metadata(&program)?.permissions().mode() & SET_ID_BITS == 0 {
            return Ok(program);
        }
        let copy = self.root.join("bin").join(workload.name);
        fs::create_dir_all(self.root.join("bin"))?;
        fs::write(&copy, fs::read(&program)?)?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
        Ok(copy)
    }

    /// The workload under a tool: `prefix` is put in front of the command.
    pub fn command(&self, workload: &Workload, prefix: &str) -> anyhow::Result<Command> {
        let program = self.runnable(workload)?;
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("exec {prefix} '{}' {}", program.display(), workload.arguments()))
            .current_dir(&self.root)
            .stdin(Stdio::null());
        Ok(command)
    }

    /// The same, for a run of which only the tool's findings matter.
    pub(crate) fn quiet_command(&self, workload: &Workload, prefix: &str) -> anyhow::Result<Command> {
        let mut command = self.command(workload, prefix)?;
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }

    /// The workload as a shell would run it, for tools that start programs themselves.
    pub(crate) fn invocation(&self, workload: &Workload) -> anyhow::Result<Invocation> {
        let program = self.runnable(workload)?;
        let mut invocation = Invocation { program, arguments: Vec::new(), input: None, output: None };
        let mut words = Vec::new();
        let mut parts = workload.arguments().split_ascii_whitespace();
        while let Some(part) = parts.next() {
            match part {
                "<" => invocation.input = parts.next().map(|path| self.root.join(path)),
                ">" => invocation.output = parts.next().map(|path| self.root.join(path)),
                word => words.push(word),
            }
        }
        if !words.is_empty() {
            let script = format!("printf '%s\\0' {}", words.join(" "));
            let output = Command::new("sh").args(["-c", &script]).current_dir(&self.root).output()?;
            ensure!(output.status.success(), "a shell does not understand the arguments of {}", workload.name);
            let arguments = output.stdout.split_inclusive(|&byte| byte == 0).map(|word| &word[..word.len() - 1]);
            invocation.arguments = arguments.map(|word| OsStr::from_bytes(word).to_owned()).collect();
        }
        Ok(invocation)
    }

    /// What the input of a program depends on, in a few digits.
    pub(crate) fn stamp(&self, workload: &Workload) -> anyhow::Result<String> {
        const N_DIGITS: usize = 8;
        let path = self.root.join("stamps").join(workload.name);
        let stamp = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(stamp.chars().take(N_DIGITS).collect())
    }
}

fn python() -> &'static str {
    const SYSTEM: &str = "/usr/bin/python3.11";
    if Path::new(SYSTEM).exists() { SYSTEM } else { "python3" }
}

/// Debian packages that the lab needs and that are not installed.
pub fn missing_packages() -> anyhow::Result<Vec<&'static str>> {
    missing_from(PACKAGES)
}

/// Packages of a list, one in a line, that are not installed.
pub(crate) fn missing_from(packages: &'static str) -> anyhow::Result<Vec<&'static str>> {
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat", "${db:Status-Status} ${binary:Package}\n"])
        .output()
        .context("cannot run dpkg-query; the corpus consists of Debian packages")?;
    let listing = String::from_utf8_lossy(&output.stdout);
    let installed: BTreeSet<&str> = listing
        .lines()
        .filter_map(|line| line.strip_prefix("installed "))
        .map(|package| package.split_once(':').map_or(package, |(name, _architecture)| name))
        .collect();
    Ok(packages.lines().filter(|package| !installed.contains(package)).collect())
}

/// Installs the packages that are missing, and returns their names.
pub fn install_packages() -> anyhow::Result<Vec<&'static str>> {
    install_from(PACKAGES)
}

/// Installs packages of a list that are missing, and returns their names.
pub(crate) fn install_from(packages: &'static str) -> anyhow::Result<Vec<&'static str>> {
    let missing = missing_from(packages)?;
    if missing.is_empty() {
        return Ok(missing);
    }
    for arguments in [vec!["update"], [&["install", "--yes", "--no-install-recommends"], missing.as_slice()].concat()] {
        let status = Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(&arguments)
            .status()
            .context("cannot run apt-get")?;
        if !status.success() {
            bail!("`apt-get {}` failed ({status}); run it as root, with Debian 12 in its sources", arguments.join(" "));
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_25_distinct_programs_whose_packages_get_installed() {
        let programs = workloads();
        assert_eq!(programs.len(), 25);
        let names: BTreeSet<_> = programs.iter().map(|workload| workload.name).collect();
        assert_eq!(names.len(), 25);
        for workload in programs {
            assert!(workload.program().is_absolute(), "{workload:?}");
            assert!(PACKAGES.lines().any(|package| package == workload.package), "{workload:?} is not in packages.txt");
            assert!(GENERATOR.contains(&format!("\"{}\": ", workload.name)), "{workload:?} has no input");
        }
    }

    #[test]
    fn an_unknown_program_is_named_in_the_error() {
        let error = select(&["gizp".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("`gizp`") && error.contains("gzip"), "{error}");
    }

    #[test]
    fn an_invocation_is_what_a_shell_makes_of_a_command() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("device"), "-d 8k\n").unwrap();
        let data = Data { root: root.path().to_owned() };
        let command = "/bin/sh $(cat device) -l \"a;b\" < in/a.txt > out/b.out";
        let shell = Workload { name: "sh", package: "dash", stands_for: "", command };
        let invocation = data.invocation(&shell).unwrap();
        assert_eq!(invocation.arguments, ["-d", "8k", "-l", "a;b"]);
        assert_eq!(invocation.input, Some(root.path().join("in/a.txt")));
        assert_eq!(invocation.output, Some(root.path().join("out/b.out")));
        let alone = data.invocation(&Workload { command: "/bin/sh", ..shell }).unwrap();
        assert_eq!((alone.arguments, alone.input, alone.output), (Vec::new(), None, None));
    }

    #[test]
    fn inputs_are_made_once_and_the_same_each_time() {
        let programs = select(&["gzip".to_owned()]).unwrap();
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let text = |dir: &tempfile::TempDir| {
            let data = Data::generate(dir.path(), Size::Tiny, &programs).unwrap();
            data.root().join("in/text.txt")
        };
        let path = text(&first);
        let content = fs::read(&path).unwrap();
        assert_eq!(content, fs::read(text(&second)).unwrap());
        fs::write(&path, "kept").unwrap();
        assert_eq!(fs::read(text(&first)).unwrap(), b"kept");
    }
}
