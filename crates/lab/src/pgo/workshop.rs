//! Sources and compilers: from the name of a Debian source package to programs.
//!
//! Source packages are fetched with lists of their own below the folder, so that nothing of the
//! system's settings is touched. Programs compiled without a profile are kept for the next run;
//! what depends on a profile is made anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::corpus;
use crate::pgo::subject::Subject;

const PACKAGES: &str = include_str!("../../packages-pgo.txt");

/// Fetches and unpacks the source package `$1`, from where the system gets its binary packages.
const FETCH: &str = "\
mkdir -p apt/parts apt/lists/partial apt/cache/archives/partial src/$1
cat $(grep -l debian-archive-keyring /etc/apt/sources.list.d/*.sources) /dev/null | sed 's/^Types:.*/Types: deb-src/' >apt/parts/source.sources
cat /etc/apt/sources.list /dev/null 2>/dev/null | sed -n 's/^deb /deb-src /p' >apt/parts/source.list
options=\"-qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$PWD/apt/parts -o Dir::State::lists=$PWD/apt/lists
-o Dir::Cache=$PWD/apt/cache -o APT::Sandbox::User=root\"
apt-get $options update
cd src/$1
apt-get $options source --download-only $1
dpkg-source --no-check -x $1_*.dsc source
";

/// Complains about packages that are not installed.
pub fn check_packages() -> anyhow::Result<()> {
    let missing = corpus::missing_from(PACKAGES)?;
    ensure!(missing.is_empty(), "missing packages; run `apt-get install {}`", missing.join(" "));
    Ok(())
}

/// Installs those packages.
pub fn install_packages() -> anyhow::Result<()> {
    corpus::install_from(PACKAGES).map(drop)
}

/// A folder with sources, programs, profiles and recordings of one subject.
#[derive(Clone, Debug)]
pub struct Workshop {
    subject: Subject,
    folder: PathBuf,
    source: PathBuf,
}

/// How to compile.
#[derive(Clone, Copy, Debug)]
pub struct Compiler {
    pub c: &'static str,
    pub cpp: &'static str,
    pub flags: &'static str,
    pub link: &'static str,
}

impl Workshop {
    /// Fetches the source if it is not there.
    pub fn open(subject: &Subject, dir: &Path) -> anyhow::Result<Workshop> {
        let folder = dir.join(subject.name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let dir = dir.canonicalize()?;
        let source = dir.join("src").join(subject.package).join("source");
        let is_prepared = source.join(".prepared");
        if !source.exists() {
            eprintln!("{}: fetching the source", subject.name);
            succeed(Command::new("sh").args(["-ec", FETCH, "fetch", subject.package]).current_dir(&dir))?;
        }
        if !is_prepared.exists() {
            succeed(Command::new("sh").args(["-ec", subject.prepare]).current_dir(&source))?;
            fs::write(is_prepared, "")?;
        }
        Ok(Workshop { subject: *subject, folder: folder.canonicalize()?, source })
    }

    pub fn source(&self) -> &Path {
        &self.source
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of a file of this subject.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Version of the source package.
    pub fn version(&self) -> anyhow::Result<String> {
        let output = succeed(Command::new("dpkg-parsechangelog").args(["-S", "Version"]).current_dir(&self.source))?;
        Ok(output.trim().to_owned())
    }

    /// The program compiled as stated, kept from an earlier run if it is there.
    pub fn base(&self, name: &str, compiler: Compiler) -> anyhow::Result<PathBuf> {
        let program = self.file(name);
        if program.exists() { Ok(program) } else { self.compile(name, compiler, "") }
    }

    /// Compiles, with more flags.
    pub fn compile(&self, name: &str, compiler: Compiler, more: &str) -> anyhow::Result<PathBuf> {
        eprintln!("{}: compiling {name}", self.subject.name);
        let objects = self.file(&format!("{name}.objects"));
        fs::create_dir_all(&objects)?;
        let program = self.file(name);
        let n_jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let mut shell = Command::new("sh");
        shell.args(["-ec", self.subject.compile]).current_dir(&objects);
        shell.envs([("CC", compiler.c), ("CXX", compiler.cpp), ("LINK", compiler.link)]);
        shell.env("FLAGS", format!("-w {} {more}", compiler.flags)).env("JOBS", n_jobs.to_string());
        shell.env("SRC", &self.source).env("OUT", &program);
        succeed(&mut shell)?;
        fs::remove_dir_all(objects)?;
        Ok(program)
    }
}

/// Runs a command to its end and returns all that it said; a failure is an error that says so.
pub fn succeed(command: &mut Command) -> anyhow::Result<String> {
    const END_BYTES: usize = 2000;
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    let end: String = said.chars().skip(said.chars().count().saturating_sub(END_BYTES)).collect();
    ensure!(output.status.success(), "{name} failed ({}):\n{end}", output.status);
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_says_why() {
        assert_eq!(succeed(Command::new("sh").args(["-c", "echo one; echo two >&2"])).unwrap(), "one\ntwo\n");
        let error = succeed(Command::new("sh").args(["-c", "echo why; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("why") && error.contains('3'), "{error}");
    }
}
