//! Programs made when the tests run, and profiles of them.

use std::fs;
use std::ops::{Deref, Range};
use std::path::PathBuf;

use fixtures::Folder;
pub use fixtures::run;
use profile::model::{Function, Module, ModuleId};
use profile::symbols::SourceFrame;
use profile::{Estimate, Profile, Symbols as _};

use symbols::{Options, Symbolizer};

pub const BUILD_ID: &str = "00112233445566778899aabbccddeeff00112233";

/// The only module of the profiles here.
pub const MODULE: ModuleId = ModuleId(0);

/// `inner` is inlined into `outer`.
pub const INLINING: &str = "\
static inline __attribute__((always_inline)) int inner(int x) {
    return x * 3 + 1;
}
__attribute__((noinline)) int outer(int x) {
    return inner(x) ^ 5;
}
int main(int argc, char **argv) { return outer(argc); }
";

/// A temporary folder with programs and a cache.
pub struct Workshop(Folder);

impl Deref for Workshop {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.0
    }
}

impl Workshop {
    pub fn new() -> Workshop {
        Workshop(Folder::new())
    }

    /// Compiles `source`, a file of this name, to `program`.
    pub fn compile(&self, compiler: &str, source: (&str, &str), flags: &[&str]) -> String {
        let (file, text) = source;
        let (source, program) = (self.write(file, text), self.name("program"));
        let build_id = format!("-Wl,--build-id=0x{BUILD_ID}");
        run(compiler, &[&["-o", &program, &source, &build_id], flags].concat());
        program
    }

    pub fn compile_inlining(&self, flags: &[&str]) -> String {
        self.compile("gcc", ("inlining.c", INLINING), &[&["-O1", "-g"], flags].concat())
    }

    pub fn offline(&self) -> Options {
        Options::offline(Some(self.path("cache")))
    }

    /// The folder in which `kind` of files are kept, and the files in it.
    pub fn kept(&self, kind: &str) -> Vec<PathBuf> {
        let folder = fs::read_dir(self.path("cache").join(kind)).expect("a folder of kept files");
        let paths = folder.map(|entry| entry.expect("an entry").path());
        let mut paths: Vec<PathBuf> = paths.filter(|path| !path.ends_with(".lock")).collect();
        paths.sort();
        paths
    }
}

/// Addresses of a function by its symbol.
#[track_caller]
pub fn addresses_of(program: &str, symbol: &str) -> Range<u64> {
    let symbols = run("nm", &["-S", program]);
    let fields = symbols.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found = fields.filter(|fields| fields.len() == 4).find(|fields| fields[3] == symbol);
    let found = found.unwrap_or_else(|| panic!("no symbol {symbol} in {symbols}"));
    let [start, len] = [0, 1].map(|index| u64::from_str_radix(found[index], 16).expect("a number"));
    start..start + len
}

/// A profile of one module with these functions.
pub fn profile(path: &str, build_id: &str, functions: &[(&Range<u64>, &str)]) -> Profile {
    let functions = functions.iter().map(|&(range, name)| Function {
        module: MODULE,
        address: range.start,
        size: range.end - range.start,
        name: name.to_owned(),
        entries: Estimate::default(),
        self_ns: Estimate::default(),
    });
    Profile {
        functions: functions.collect(),
        modules: vec![Module { path: path.to_owned(), build_id: build_id.to_owned() }],
        ..Profile::default()
    }
}

/// A symbolizer that has resolved these addresses.
pub fn resolved(profile: &Profile, options: &Options, addresses: Range<u64>) -> Symbolizer {
    let mut symbolizer = Symbolizer::new(profile, options);
    resolve(&mut symbolizer, addresses);
    symbolizer
}

pub fn resolve(symbolizer: &mut Symbolizer, addresses: Range<u64>) {
    let wanted: Vec<(ModuleId, u64)> = addresses.map(|address| (MODULE, address)).collect();
    symbolizer.resolve(&wanted);
}

pub fn all_frames(symbolizer: &Symbolizer, addresses: Range<u64>) -> Vec<Vec<SourceFrame>> {
    addresses.map(|address| symbolizer.frames(MODULE, address)).collect()
}

/// Function names and lines, innermost first: `inner:2 outer:5`.
pub fn summary(frames: &[SourceFrame]) -> String {
    let parts: Vec<String> = frames.iter().map(|frame| format!("{}:{}", frame.function, frame.line)).collect();
    parts.join(" ")
}

/// Whether any address is in the inlined function.
pub fn shows_inlining(symbolizer: &Symbolizer, addresses: Range<u64>) -> bool {
    all_frames(symbolizer, addresses).iter().any(|frames| summary(frames) == "inner:2 outer:5")
}
