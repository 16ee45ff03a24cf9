//! Profilers that need a build of their own, on programs compiled from Debian source.
//!
//! Each build is compared with the same compiler's plain one. BOLT instruments the plain build of
//! gcc.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::peers::Costs;
use crate::pgo::speed;
use crate::pgo::subject::{Size, Subject, Workload};
use crate::pgo::workshop::{Compiler, Workshop, succeed};

const BOLT: &str = "/usr/lib/llvm-22/bin/llvm-bolt";

const GCC: Compiler = Compiler { c: "gcc", cpp: "g++", flags: "-O2 -fno-reorder-blocks-and-partition", link: "-Wl,-q" };
const CLANG: Compiler = Compiler { c: "clang-19", cpp: "clang++-19", flags: "-O2", link: "" };

/// What is added to the flags of a compiler, for compiling and linking.
const BUILDS: [(&str, &str, Compiler, &str); 3] = [
    ("gcc -pg (gprof)", "peer-gprof", GCC, "-pg"),
    ("gcc -fprofile-generate", "peer-gcc", GCC, "-fprofile-generate -fprofile-update=single"),
    ("clang -fprofile-generate", "peer-clang", CLANG, "-fprofile-generate"),
];

/// Measures all builds of a program.
pub fn measure(dir: &Path, subject: &Subject, n_rounds: usize) -> anyhow::Result<Costs> {
    let workshop = Workshop::open(subject, dir)?;
    let judging = Workload::new(subject, Size::Judging, workshop.folder(), workshop.source())?;
    let gcc = workshop.base("peer-base", GCC)?;
    let clang = workshop.base("peer-base-clang", CLANG)?;
    let mut costs = Costs { programs: vec![format!("{} (built)", subject.name)], ..Costs::default() };
    let mut add = |name: &str, base: &Path, program: PathBuf| {
        let ratio = ratio(base, program, &judging, n_rounds);
        let first_line = |error: anyhow::Error| format!("{error:#}").lines().next().unwrap_or_default().to_owned();
        costs.ratios.insert(name.to_owned(), vec![ratio.map_err(first_line)]);
    };
    for (name, file, compiler, more) in BUILDS {
        let more = more.replace("-fprofile-generate", &format!("-fprofile-generate={}", dir_of(&workshop, file)));
        let program = match workshop.file(file) {
            program if program.exists() => program,
            _ => workshop.compile(file, Compiler { link: link_of(compiler), ..compiler }, &more)?,
        };
        add(name, if compiler.c == CLANG.c { &clang } else { &gcc }, program);
    }
    add("BOLT -instrument", &gcc, bolt_instrumented(&workshop, &gcc)?);
    Ok(costs)
}

/// Where an instrumented program leaves its counts.
fn dir_of(workshop: &Workshop, file: &str) -> String {
    workshop.file(&format!("{file}.counts")).display().to_string()
}

/// Relocations are for BOLT only.
fn link_of(compiler: Compiler) -> &'static str {
    if compiler.c == GCC.c { "" } else { compiler.link }
}

fn ratio(base: &Path, program: PathBuf, judging: &Workload, n_rounds: usize) -> anyhow::Result<f64> {
    let ratios = speed::measure(&[base.to_owned(), program], judging, n_rounds)?;
    Ok(ratios.get(1).context("two programs have two ratios")?.median)
}

fn bolt_instrumented(workshop: &Workshop, base: &Path) -> anyhow::Result<PathBuf> {
    let program = workshop.file("peer-bolt");
    if !program.exists() {
        let counts = format!("-instrumentation-file={}", workshop.file("peer-bolt.fdata").display());
        succeed(Command::new(BOLT).arg(base).args(["-instrument", &counts, "-o"]).arg(&program))?;
    }
    Ok(program)
}
