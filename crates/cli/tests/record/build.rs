//! Compiles the programs of `tests/programs`, each into a temporary folder of its own together with its libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// What to run: a source file with the flags, libraries and arguments that it needs.
#[derive(Clone, Debug)]
pub struct Program {
    source: &'static str,
    flags: Vec<&'static str>,
    libraries: Vec<Library>,
    arguments: Vec<&'static str>,
}

/// A shared object beside the program.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    pub source: &'static str,
    pub file: &'static str,
    pub flags: &'static [&'static str],
    /// Linked to the program; otherwise the program opens it itself.
    pub is_linked: bool,
}

impl Program {
    pub fn new(source: &'static str) -> Program {
        Program { source, flags: vec!["-O2"], libraries: Vec::new(), arguments: Vec::new() }
    }

    /// Added after `-O2`: the last optimization level counts.
    pub fn flags(mut self, flags: &[&'static str]) -> Program {
        self.flags.extend(flags);
        self
    }

    pub fn libraries(mut self, libraries: &[Library]) -> Program {
        self.libraries.extend(libraries);
        self
    }

    /// Added after the scale, which is every program's first argument.
    pub fn arguments(mut self, arguments: &[&'static str]) -> Program {
        self.arguments.extend(arguments);
        self
    }

    pub fn build(&self) -> Executable {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for library in &self.libraries {
            let file = folder.path().join(library.file);
            if library.source.ends_with(".go") {
                compile(go(library.source, &file).args(library.flags).arg(source(library.source)));
                continue;
            }
            let mut compiler = compiler(library.source, &file);
            compile(compiler.args(["-O2", "-shared", "-fPIC"]).args(library.flags));
        }
        let file = folder.path().join("program");
        if self.source.ends_with(".go") {
            compile(go(self.source, &file).args(&self.flags[1..]).arg(source(self.source)));
            return self.executable(folder, file);
        }
        let mut compiler = compiler(self.source, &file);
        // The dynamic symbols are for programs that name their own functions in backtraces.
        compiler.args(["-rdynamic", "-pthread", "-Wl,-rpath,$ORIGIN"]).args(&self.flags);
        compiler.args(self.libraries.iter().filter(|library| library.is_linked).map(|l| folder.path().join(l.file)));
        compile(compiler.arg("-lm"));
        self.executable(folder, file)
    }

    fn executable(&self, folder: TempDir, file: PathBuf) -> Executable {
        let arguments = [scale().to_string()].into_iter().chain(self.arguments.iter().map(|&a| a.to_owned())).collect();
        Executable { folder, file, arguments }
    }
}

/// A program ready to run.
#[derive(Debug)]
pub struct Executable {
    folder: TempDir,
    file: PathBuf,
    arguments: Vec<String>,
}

impl Executable {
    /// An installed program.
    pub fn installed(file: &str, arguments: &[&str]) -> Executable {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Executable { folder, file: file.into(), arguments }
    }

    /// The file with other arguments.
    pub fn with_arguments(mut self, arguments: &[&str]) -> Executable {
        self.arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        self
    }

    /// The file and its arguments.
    pub fn command_line(&self) -> Vec<String> {
        let file = self.file.to_str().expect("a temporary folder with a UTF-8 name");
        [file.to_owned()].into_iter().chain(self.arguments.iter().cloned()).collect()
    }

    /// A path for files of the harness, out of the program's sight.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// How often the work of the smallest run is done.
pub fn repetitions() -> u32 {
    match std::env::var("STROBE_TEST_SCALE") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("STROBE_TEST_SCALE={text}: not a whole number")),
        Err(_) => 1,
    }
}

/// The programs' first argument: 10 is some tenths of a second of CPU time, and five runs of each must fit.
fn scale() -> u32 {
    6 * repetitions()
}

fn compiler(source: &str, output: &Path) -> Command {
    let mut command = Command::new(if source.ends_with(".cpp") { "g++" } else { "gcc" });
    command.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(output).arg(self::source(source));
    command
}

/// Go keeps what it has compiled of its own library, which takes longer than our programs.
fn go(source: &str, output: &Path) -> Command {
    assert!(source.ends_with(".go"), "{source}: not in Go");
    let mut command = Command::new("go");
    command.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go")).args(["build", "-o"]).arg(output);
    command
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

#[track_caller]
fn compile(command: &mut Command) {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().unwrap_or_else(|error| panic!("{name}: {error}; run `cargo xtask packages`"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}
