//! What experiments work with: programs, recordings, and a folder in which observations are kept.
//!
//! An observation is kept by set, setting and program. Without the folder, everything is measured
//! anew.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::accuracy::{Bench, Extra, Observation, Setting};
use crate::claims::write_whole;
use crate::corpus::{self, Size, Workload};
use crate::peers::{self, Costs};
use crate::pgo::{self, subject::Subject};
use crate::units::{self, Measured};

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Set {
    /// Three programs for 0.3 s: shows that everything works, and no more.
    Smoke,
    /// All programs for 1 to 4 s.
    Quick,
    /// All programs for 10 s or more.
    Full,
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Set::Smoke => "smoke",
            Set::Quick => "quick",
            Set::Full => "full",
        })
    }
}

impl Set {
    /// Size of inputs.
    #[must_use]
    pub fn size(self) -> Size {
        match self {
            Set::Smoke => Size::Short,
            Set::Quick => Size::Full,
            Set::Full => Size::Long,
        }
    }

    /// One sentence for readers of figures.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Set::Smoke => "Smoke set: a few programs, inputs of 0.3 s; the figures only show that everything works.",
            Set::Quick => {
                "Quick set: inputs of 1 to 4 s of CPU time. Accuracy is promised for 10 s or more, which is the full set."
            }
            Set::Full => "Full set: inputs of 10 s of CPU time or more.",
        }
    }

    /// Size of inputs of exact recordings, some of which take ten times as long as the program
    /// itself, and of valgrind.
    #[must_use]
    pub fn exact_size(self) -> Size {
        match self {
            Set::Smoke | Set::Quick => Size::Short,
            Set::Full => Size::Full,
        }
    }

    fn names(self, few: &[&str]) -> Vec<String> {
        match self {
            Set::Smoke => ["gzip", "gsmdec", "li_lua"].map(str::to_owned).into(),
            Set::Quick | Set::Full => few.iter().map(|&name| name.to_owned()).collect(),
        }
    }
}

/// Everything that experiments share.
#[derive(Clone, Debug)]
pub struct Workbench {
    /// How much is measured.
    pub set: Set,
    /// Where inputs and exact profiles are.
    pub dir: PathBuf,
    /// Where sources and programs built from them are.
    pub source_dir: PathBuf,
    /// Where the report and what it is made of go.
    pub report_dir: PathBuf,
    /// Names of programs to use; all if there is none.
    pub programs: Vec<String>,
    /// Options of recordings at the default budget.
    pub with: Vec<Extra>,
}

impl Workbench {
    /// Programs of claims about the corpus.
    pub fn programs(&self) -> anyhow::Result<Vec<Workload>> {
        corpus::select(if self.programs.is_empty() { self.set.names(&[]) } else { self.programs.clone() }.as_slice())
    }

    /// A few programs of different kinds, for claims that need many settings.
    pub fn few_programs(&self) -> anyhow::Result<Vec<Workload>> {
        const FEW: [&str; 6] = ["gzip", "perl", "crafty", "li_lua", "vortex", "gsmenc"];
        corpus::select(if self.programs.is_empty() { self.set.names(&FEW) } else { self.programs.clone() }.as_slice())
    }

    /// Programs whose event streams are recorded.
    pub fn stream_programs(&self) -> anyhow::Result<Vec<Workload>> {
        const FEW: [&str; 8] = ["gcc", "perl", "go", "li_lua", "m88ksim", "vortex", "gzip", "parser"];
        corpus::select(if self.programs.is_empty() { self.set.names(&FEW) } else { self.programs.clone() }.as_slice())
    }

    /// Programs that are compiled from source; those that take long to compile are for the full
    /// set.
    pub fn subjects(&self) -> anyhow::Result<Vec<Subject>> {
        pgo::check()?;
        let names: &[&str] = if self.set == Set::Full { &["lua", "sqlite"] } else { &["lua"] };
        pgo::subject::select(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    /// The default budget, with the options of this workbench.
    #[must_use]
    pub fn default_setting(&self) -> Setting {
        Setting::default_budget().with(&self.with)
    }

    /// Programs at one setting: from files of an earlier run, or measured.
    pub fn observations(&self, programs: &[Workload], setting: &Setting) -> anyhow::Result<Vec<Observation>> {
        programs.iter().map(|workload| self.observation(workload, setting)).collect()
    }

    fn observation(&self, workload: &Workload, setting: &Setting) -> anyhow::Result<Observation> {
        let is_plain = |c: char| c.is_ascii_alphanumeric();
        let setting_name: String = setting.name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
        self.kept(&format!("observations/{setting_name}/{}.json", workload.name), || {
            eprintln!("  {}, {}", workload.name, setting.name);
            let bench = self.bench(&[*workload])?;
            bench.observe(workload, setting, &bench.truth(workload)?)
        })
    }

    /// Recordings of programs.
    pub fn bench(&self, programs: &[Workload]) -> anyhow::Result<Bench> {
        Bench::open(&self.dir, self.set.size(), programs, 1)
    }

    /// The same for exact recordings.
    pub fn exact_bench(&self, programs: &[Workload]) -> anyhow::Result<Bench> {
        Bench::open(&self.dir, self.set.exact_size(), programs, 1)
    }

    /// What other profilers cost: from the files of an earlier run, or measured.
    pub fn peers(&self) -> anyhow::Result<Costs> {
        let strobe = crate::transparency::strobe_program()?;
        let mut all = Costs::default();
        for workload in self.few_programs()? {
            let measure = || peers::measure(&strobe, &self.dir, &[workload], 1);
            all.join(self.kept(&format!("peers/{}.json", workload.name), measure)?);
        }
        if self.set != Set::Smoke {
            const N_ROUNDS: usize = 5;
            for subject in self.subjects()? {
                let measure = || peers::rebuilt::measure(&self.source_dir, &subject, N_ROUNDS);
                all.join(self.kept(&format!("peers/{}-built.json", subject.name), measure)?);
            }
        }
        Ok(all)
    }

    /// Cost by short units of work inside interpreters.
    pub fn units(&self) -> anyhow::Result<Vec<Measured>> {
        let n_rounds = match self.set {
            Set::Smoke => 6,
            Set::Quick => 100,
            Set::Full => 400,
        };
        let strobe = crate::transparency::strobe_program()?;
        self.kept("units.json", || units::measure(&strobe, &self.dir.join("units"), n_rounds))
    }

    /// What an earlier run has measured and put into this file, or what is measured now.
    pub fn kept<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        measure: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let path = self.state(name)?;
        if let Some(kept) = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            return Ok(kept);
        }
        let measured = measure()?;
        write_whole(&path, &serde_json::to_vec_pretty(&measured)?)?;
        Ok(measured)
    }

    /// What was measured of one set, or with some options, says nothing about another.
    fn state_dir(&self) -> PathBuf {
        let options: String = self.with.iter().map(|extra| extra.option()).collect();
        self.report_dir.join("state").join(format!("{}{options}", self.set))
    }

    /// Removes what was measured before.
    pub fn forget(&self) -> anyhow::Result<()> {
        let folder = self.state_dir();
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        Ok(())
    }

    /// The path of a file of state, whose folder is made.
    pub fn state(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.state_dir().join(name);
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(path)
    }
}
