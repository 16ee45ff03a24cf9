//! A small program, a profile of it, and the `strobe` that reads it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fixtures::run;
use image::Image;
use profile::model::{
    Block, BlockEnd, BlockId, Call, Context, ContextId, Edge, EdgeKind, Function, FunctionId, Module, ModuleId,
    Path as BlockPath, Thread,
};
use profile::{Estimate, Profile};
use tempfile::TempDir;

/// A word that a scrubbed archive must not contain.
pub const SECRET: &str = "hush-hush";

const SOURCE: &str = "\
static __attribute__((noinline)) int step(int x) { return x * 3 + 1; }
int main(int argc, char **argv) {
  int sum = 0;
  for (int i = 0; i < 1000; i++)
    sum += step(i);
  return sum & 1;
}
";

/// A folder with a program, and a profile of it.
pub struct Fixture {
    pub folder: TempDir,
    pub program: PathBuf,
    pub profile: PathBuf,
}

impl Fixture {
    pub fn new() -> Fixture {
        Fixture::compiled(&["gcc", "-g", "-O1"])
    }

    /// With a compiler and its options.
    pub fn compiled(compiler: &[&str]) -> Fixture {
        let fixture = Fixture::unrecorded(SOURCE, compiler);
        store::save(&fixture.profile, &profile_of(&fixture.program, 1)).expect("a profile");
        fixture
    }

    /// A program of which there is no profile yet.
    pub fn unrecorded(source: &str, compiler: &[&str]) -> Fixture {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
        let (source_path, program) = (path("program.c"), path(&format!("program-{SECRET}")));
        fs::write(&source_path, source).expect("a source file");
        let [name, options @ ..] = compiler else { panic!("no compiler") };
        run(name, &[options, &["-Wl,--build-id", "-o", &program, &source_path]].concat());
        let profile = path("profile.strobe").into();
        Fixture { folder, program: program.into(), profile }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `strobe` in the folder.
    pub fn strobe(&self, arguments: &[&str]) -> Output {
        self.run(env!("CARGO_BIN_EXE_strobe"), arguments)
    }

    /// Runs something that may run `strobe`.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Output {
        Command::new(program)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("XDG_CACHE_HOME", self.path("cache"))
            .output()
            .unwrap_or_else(|error| panic!("{program}: {error}; run `cargo xtask packages`"))
    }

    /// Runs `strobe`, which must succeed, for what it prints.
    pub fn printed(&self, arguments: &[&str]) -> String {
        let output = self.strobe(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "strobe {arguments:?}: {errors}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs `strobe`, which must fail, for its one line of complaint.
    pub fn complaint(&self, arguments: &[&str]) -> String {
        let output = self.strobe(arguments);
        assert_eq!(output.status.code(), Some(1), "strobe {arguments:?}");
        let errors = String::from_utf8(output.stderr).expect("text");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        errors
    }
}

/// As if `main` had called `step` a number of times, in its first block.
pub fn profile_of(program: &Path, n_calls: u64) -> Profile {
    let bytes = fs::read(program).expect("the program");
    let image = Image::parse(&bytes).expect("a program");
    let symbol = |name: &str| {
        let symbol = image.symbols().iter().find(|symbol| symbol.name == name);
        symbol.map(|symbol| (symbol.address.0, symbol.size)).unwrap_or_else(|| panic!("no {name}"))
    };
    let count = Estimate::exact(n_calls);
    let function = |(address, size), name: &str| Function {
        module: ModuleId(0),
        address,
        size,
        name: name.to_owned(),
        entries: count,
        self_ns: Estimate::exact(1_000_000 * n_calls),
    };
    let (main, step) = (symbol("main"), symbol("step"));
    let block = |function, (address, size): (u64, u64), end| Block {
        function: FunctionId(function),
        address,
        size: size as u32,
        last: size as u32 - 1,
        n_insns: 4,
        end,
        count,
        self_ns: count,
    };
    let context = |parent: Option<u32>, function| Context {
        parent: parent.map(ContextId),
        function: FunctionId(function),
        call_site: None,
        entries: count,
        self_ns: Estimate::exact(1_000_000 * n_calls),
        kernel_ns: Estimate::default(),
        misses: 0,
    };
    let path = BlockPath {
        function: FunctionId(1),
        blocks: vec![BlockId(1)],
        back_to: None,
        n_branches: 0,
        count,
        self_ns: Estimate::exact(1_000_000 * n_calls),
        misses: 0,
    };
    let build_id = image.build_id().map(ToString::to_string).expect("a build-id");
    Profile {
        facts: [("command".to_owned(), format!("./program --token {SECRET}")), ("host".to_owned(), SECRET.to_owned())]
            .into(),
        modules: vec![Module { path: program.to_str().expect("text").to_owned(), build_id }],
        functions: vec![function(main, "main"), function(step, "step")],
        blocks: vec![block(0, main, BlockEnd::Branch), block(1, step, BlockEnd::Return)],
        edges: vec![Edge { from: BlockId(0), to: BlockId(0), kind: EdgeKind::Taken, is_back: true, count }],
        paths: vec![path],
        calls: vec![Call { site: BlockId(0), callee: FunctionId(1), is_tail: false, count }],
        contexts: vec![context(None, 0), context(Some(0), 1)],
        threads: vec![Thread { pid: 1, tid: 1, command: format!("{} {SECRET}", program.display()), cpu_ns: 5 }],
        ..Profile::default()
    }
}
