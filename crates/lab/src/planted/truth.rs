//! What a planted program says of itself, and where the marks in its code are.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use object::{Object as _, ObjectSection as _};
use serde::{Deserialize, Serialize};

/// Something that has a cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Thing {
    /// A function with all that it calls, in user mode and in the kernel.
    Function(String),
    /// The paths of a function through a mark, or, if the name begins with `!`, not through it.
    Path {
        /// Linkage name.
        function: String,
        /// The mark.
        mark: String,
    },
}

impl Thing {
    /// Returns its name for people.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Thing::Function(name) => name.clone(),
            Thing::Path { function, mark } => format!("{function}, {mark}"),
        }
    }

    /// Returns whether it is the paths through a mark.
    pub(super) fn is_path(&self) -> bool {
        matches!(self, Thing::Path { .. })
    }
}

/// Times of a run in nanoseconds, by its own clocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// CPU time of the process.
    pub cpu_ns: f64,
    /// What the program knows of its parts.
    pub parts: Vec<Part>,
    /// Time in the kernel with its standard error, where the program knows.
    pub kernel: Option<(f64, f64)>,
    /// User and system time by the kernel's account, where the program asked.
    pub usage: Option<(f64, f64)>,
}

/// A part of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Which.
    pub thing: Thing,
    /// CPU time in it.
    pub ns: f64,
    /// Its standard error.
    pub error_ns: f64,
}

/// Addresses by the name of the mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(BTreeMap<String, Vec<u64>>);

impl Truth {
    /// Reads what a program has printed.
    pub fn parse(text: &str) -> anyhow::Result<Truth> {
        let mut truth = Truth::default();
        let (mut user, mut system) = (None, None);
        for line in text.lines() {
            let number = |word: &str| -> anyhow::Result<f64> {
                word.parse().ok().filter(|value: &f64| value.is_finite()).with_context(|| format!("no number: {line}"))
            };
            let mut part = |thing: Thing, ns: &str, error_ns: &str| -> anyhow::Result<()> {
                truth.parts.push(Part { thing, ns: number(ns)?, error_ns: number(error_ns)? });
                Ok(())
            };
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["function", name, ns, error] => part(Thing::Function(name.to_owned()), ns, error)?,
                ["path", function, mark, ns, error] => {
                    part(Thing::Path { function: function.to_owned(), mark: mark.to_owned() }, ns, error)?;
                }
                ["kernel", ns, error] => truth.kernel = Some((number(ns)?, number(error)?)),
                ["cpu", ns] => truth.cpu_ns = number(ns)?,
                ["user", ns] => user = Some(number(ns)?),
                ["system", ns] => system = Some(number(ns)?),
                _ => bail!("a planted program says what nobody understands: {line}"),
            }
        }
        ensure!(truth.cpu_ns > 0.0, "a planted program does not say what it took");
        truth.usage = user.zip(system);
        Ok(truth)
    }

    /// A part's share of CPU time, with its standard error.
    #[must_use]
    pub fn share(&self, part: &Part) -> (f64, f64) {
        (part.ns / self.cpu_ns, part.error_ns / self.cpu_ns)
    }
}

impl Marks {
    /// Those of a file.
    pub fn read(program: &Path) -> anyhow::Result<Marks> {
        let bytes = fs::read(program).with_context(|| program.display().to_string())?;
        let file = object::File::parse(&*bytes).with_context(|| program.display().to_string())?;
        match file.section_by_name(".planted") {
            Some(section) => Marks::parse(section.data()?),
            None => Ok(Marks::default()),
        }
    }

    /// Addresses of eight bytes, each before a name that ends with a zero.
    pub(super) fn parse(mut bytes: &[u8]) -> anyhow::Result<Marks> {
        let mut marks: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        while let Some((address, rest)) = bytes.split_first_chunk() {
            let length = rest.iter().position(|&byte| byte == 0).context("a mark without an end")?;
            let name = String::from_utf8(rest[..length].to_vec())?;
            marks.entry(name).or_default().push(u64::from_le_bytes(*address));
            bytes = &rest[length + 1..];
        }
        ensure!(bytes.is_empty(), "a mark without a name");
        Ok(Marks(marks))
    }

    /// The addresses of a mark.
    #[must_use]
    pub fn of(&self, name: &str) -> &[u64] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truth_has_parts_and_totals() {
        let truth =
            Truth::parse("function f 70 0\npath f slow 40 2\nkernel 5 1\ncpu 100\nuser 95\nsystem 6\n").unwrap();
        let path = Thing::Path { function: "f".to_owned(), mark: "slow".to_owned() };
        assert_eq!(truth.parts[1], Part { thing: path, ns: 40.0, error_ns: 2.0 });
        assert_eq!(truth.share(&truth.parts[1]), (0.4, 0.02));
        assert_eq!((truth.kernel, truth.usage), (Some((5.0, 1.0)), Some((95.0, 6.0))));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "function f 70 0", "cpu 0", "cpu nan", "cpu 5\npath f 5 0", "cpu 5\nfunction f x 0", "hello"] {
            assert!(Truth::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn marks_are_addresses_with_names() {
        let bytes =
            [&8_u64.to_le_bytes()[..], b"slow\0", &9_u64.to_le_bytes(), b"fast\0", &16_u64.to_le_bytes(), b"slow\0"];
        let marks = Marks::parse(&bytes.concat()).unwrap();
        assert_eq!((marks.of("slow"), marks.of("fast"), marks.of("other")), (&[8, 16][..], &[9][..], &[][..]));
        assert!(Marks::parse(b"12345678slow").is_err());
        assert!(Marks::parse(b"1234").is_err());
    }
}
