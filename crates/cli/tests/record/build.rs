//! Compiles the programs of `tests/programs`, each into a temporary folder of its own together with
//! its libraries.
//!
//! What has been compiled is kept, in the folder that cargo has for tests, by a hash of the sources
//! and the options: many tests run the same program.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
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
    writes_over_itself: bool,
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
        Program { source, flags: vec!["-O2"], libraries: Vec::new(), arguments: Vec::new(), writes_over_itself: false }
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

    /// Strobe stays out of code that the program makes writable, and the program spends its time
    /// there.
    pub fn writes_over_itself(self) -> Program {
        Program { writes_over_itself: true, ..self }
    }

    /// Added after the scale, which is every program's first argument.
    pub fn arguments(mut self, arguments: &[&'static str]) -> Program {
        self.arguments.extend(arguments);
        self
    }

    pub fn build(&self) -> Executable {
        let kept = self.kept();
        // Links instead of copies: a program that is still open for writing in some child cannot be
        // started.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
        for entry in fs::read_dir(&kept).expect("compiled programs") {
            let entry = entry.expect("compiled programs");
            fs::hard_link(entry.path(), folder.path().join(entry.file_name()))
                .expect("a link in the same folder of cargo");
        }
        let file = folder.path().join(PROGRAM);
        let arguments = [scale().to_string()].into_iter().chain(self.arguments.iter().map(|&a| a.to_owned())).collect();
        Executable {
            folder,
            file,
            arguments,
            is_static: self.flags.contains(&"-static"),
            has_bursts: !self.writes_over_itself,
        }
    }

    /// The folder with the program and its libraries, compiled now or earlier.
    fn kept(&self) -> PathBuf {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
        fs::create_dir_all(&all).expect("a folder for compiled programs");
        let kept = all.join(format!("{:016x}", self.hash()));
        if !kept.exists() {
            let folder = tempfile::tempdir_in(&all).expect("a temporary folder");
            self.compile_into(folder.path());
            // Another test may have been faster.
            if fs::rename(folder.path(), &kept).is_ok() {
                let _ = folder.keep();
            }
        }
        kept
    }

    fn compile_into(&self, folder: &Path) {
        for library in &self.libraries {
            let file = folder.join(library.file);
            if library.source.ends_with(".go") {
                let name = format!("-ldflags=-extldflags=-Wl,-soname,{}", library.file);
                compile(go(library.source, &file).args(library.flags).arg(name).arg(sources().join(library.source)));
                continue;
            }
            let mut compiler = compiler(library.source, &file);
            // Else the program would look for it where it was linked.
            let name = format!("-Wl,-soname,{}", library.file);
            compile(compiler.args(["-O2", "-shared", "-fPIC", &name]).args(library.flags));
        }
        let file = folder.join(PROGRAM);
        if self.source.ends_with(".go") {
            compile(go(self.source, &file).args(&self.flags[1..]).arg(sources().join(self.source)));
            return;
        }
        let mut compiler = compiler(self.source, &file);
        // The dynamic symbols are for programs that name their own functions in backtraces.
        compiler.args(["-rdynamic", "-pthread", "-Wl,-rpath,$ORIGIN"]).args(&self.flags);
        compiler.args(self.libraries.iter().filter(|library| library.is_linked).map(|l| folder.join(l.file)));
        compile(compiler.arg("-lm"));
    }

    /// Of all that the compiler is given; headers are few, and every program has them all.
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        include_str!("build.rs").hash(&mut hasher);
        (self.source, &self.flags).hash(&mut hasher);
        for library in &self.libraries {
            (library.source, library.file, library.flags, library.is_linked).hash(&mut hasher);
        }
        let mut headers: Vec<PathBuf> =
            fs::read_dir(sources()).expect("the sources").flatten().map(|entry| entry.path()).collect();
        headers.retain(|path| path.extension().is_some_and(|extension| extension == "h"));
        headers.sort();
        let given = [self.source].into_iter().chain(self.libraries.iter().map(|library| library.source));
        for path in given.map(|source| sources().join(source)).chain(headers) {
            fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).hash(&mut hasher);
        }
        hasher.finish()
    }
}

const PROGRAM: &str = "program";

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// A program ready to run.
#[derive(Debug)]
pub struct Executable {
    folder: TempDir,
    file: PathBuf,
    arguments: Vec<String>,
    is_static: bool,
    has_bursts: bool,
}

impl Executable {
    /// An installed program.
    pub fn installed(file: &str, arguments: &[&str]) -> Executable {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Executable { folder, file: file.into(), arguments, is_static: false, has_bursts: true }
    }

    /// The file with other arguments.
    pub fn with_arguments(mut self, arguments: &[&str]) -> Executable {
        self.arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        self
    }

    /// Whether bursts are to be expected, given time.
    pub fn has_bursts(&self) -> bool {
        self.has_bursts
    }

    /// Strobe stays out of such programs.
    pub fn is_static(&self) -> bool {
        self.is_static
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

/// The programs' first argument: 10 is some tenths of a second of CPU time, and five runs of each
/// must fit.
fn scale() -> u32 {
    6 * repetitions()
}

fn compiler(source: &str, output: &Path) -> Command {
    let mut command = Command::new(if source.ends_with(".cpp") { "g++" } else { "gcc" });
    command.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(output).arg(sources().join(source));
    command
}

/// Go keeps what it has compiled of its own library, which takes longer than our programs.
fn go(source: &str, output: &Path) -> Command {
    assert!(source.ends_with(".go"), "{source}: not in Go");
    let mut command = Command::new("go");
    command.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go")).args(["build", "-o"]).arg(output);
    command
}

#[track_caller]
fn compile(command: &mut Command) {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().unwrap_or_else(|error| panic!("{name}: {error}; run `cargo xtask packages`"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}
