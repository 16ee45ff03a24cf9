//! Which events are noted: a set of places in programs, as text.
//!
//! ```text
//! set     = part { "|" part }          in any of them
//! part    = each { "&" each }          in all of them
//! each    = "!" each | "(" set ")" | word | places
//! word    = "all" | class | "load" bytes | "store" bytes | "module:" name | "function:" name
//! places  = range { "," range }        addresses in the file of a module
//! range   = address [ ".." address ]   hexadecimal, with 0x; the end is not in it
//! ```
//!
//! A name with blanks or one of `&|!()` goes in double quotes. A compressor does not look into
//! tuples, so one can serve several types of profile at once; which of them a message belongs to,
//! its tuple says, and the classes `value`, `argument`, `address`, `target` and `type` select by
//! it.
//!
//! Selecting is done once for each place, when code is translated: what is not selected costs
//! nothing.

mod parse;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{BitOr, Range};
use core::str::FromStr;

use crate::error::ParseError;

/// A set of properties of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Classes(u16);

impl Classes {
    /// None.
    pub const NONE: Classes = Classes(0);
    /// The instruction reads memory.
    pub const LOAD: Classes = Classes(1);
    /// The instruction writes memory.
    pub const STORE: Classes = Classes(1 << 1);
    /// The instruction calls.
    pub const CALL: Classes = Classes(1 << 2);
    /// The instruction jumps to a computed address.
    pub const JUMP: Classes = Classes(1 << 3);
    /// The instruction jumps on a condition.
    pub const BRANCH: Classes = Classes(1 << 9);
    /// What is noted is what was loaded.
    pub const VALUE: Classes = Classes(1 << 4);
    /// What is noted is an argument of a function.
    pub const ARGUMENT: Classes = Classes(1 << 5);
    /// What is noted is an address of memory.
    pub const ADDRESS: Classes = Classes(1 << 6);
    /// What is noted is where control goes.
    pub const TARGET: Classes = Classes(1 << 7);
    /// What is noted is a table of methods.
    pub const TYPE: Classes = Classes(1 << 8);

    const NAMES: [(&'static str, Classes); 10] = [
        ("load", Classes::LOAD),
        ("store", Classes::STORE),
        ("call", Classes::CALL),
        ("jump", Classes::JUMP),
        ("branch", Classes::BRANCH),
        ("value", Classes::VALUE),
        ("argument", Classes::ARGUMENT),
        ("address", Classes::ADDRESS),
        ("target", Classes::TARGET),
        ("type", Classes::TYPE),
    ];

    /// Whether all of these are in the set.
    #[must_use]
    pub fn has(self, others: Classes) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitOr for Classes {
    type Output = Classes;

    fn bitor(self, others: Classes) -> Classes {
        Classes(self.0 | others.0)
    }
}

/// Something that could be noted, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Address of the instruction in the file of its module.
    pub pc: u64,
    /// Its properties.
    pub classes: Classes,
    /// Bytes of memory that the instruction accesses; 0: none.
    pub bytes: u32,
    /// Name of the module's file.
    pub module: &'a str,
    /// Which of [`Selector::function_names`] the function is called by.
    pub functions: &'a [&'a str],
}

/// A set of places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Every place.
    All,
    /// Places with a property.
    Class(Classes),
    /// Places with a property that access so many bytes.
    Access(Classes, u32),
    /// Places with addresses in one of these ranges.
    Places(Box<[Range<u64>]>),
    /// Places in modules whose file name has this text.
    Module(String),
    /// Places in functions of this name.
    Function(String),
    /// Places in any of these sets.
    AnyOf(Box<[Selector]>),
    /// Places in all of these sets.
    AllOf(Box<[Selector]>),
    /// Places not in this set.
    Not(Box<Selector>),
}

impl Selector {
    /// Whether it is in the set.
    #[must_use]
    pub fn selects(&self, candidate: &Candidate<'_>) -> bool {
        match self {
            Selector::All => true,
            Selector::Class(class) => candidate.classes.has(*class),
            Selector::Access(class, bytes) => candidate.classes.has(*class) && candidate.bytes == *bytes,
            Selector::Places(ranges) => ranges.iter().any(|range| range.contains(&candidate.pc)),
            Selector::Module(text) => candidate.module.contains(text.as_str()),
            Selector::Function(name) => candidate.functions.contains(&name.as_str()),
            Selector::AnyOf(sets) => sets.iter().any(|set| set.selects(candidate)),
            Selector::AllOf(sets) => sets.iter().all(|set| set.selects(candidate)),
            Selector::Not(set) => !set.selects(candidate),
        }
    }

    /// The names of functions in it.
    #[must_use]
    pub fn function_names(&self) -> Vec<&str> {
        match self {
            Selector::Function(name) => [name.as_str()].into(),
            Selector::AnyOf(sets) | Selector::AllOf(sets) => sets.iter().flat_map(Selector::function_names).collect(),
            Selector::Not(set) => set.function_names(),
            _ => Vec::new(),
        }
    }

    fn any_of(mut sets: Vec<Selector>) -> Selector {
        match sets.len() {
            1 => sets.remove(0),
            _ => Selector::AnyOf(sets.into_boxed_slice()),
        }
    }

    fn all_of(mut sets: Vec<Selector>) -> Selector {
        match sets.len() {
            1 => sets.remove(0),
            _ => Selector::AllOf(sets.into_boxed_slice()),
        }
    }
}

impl FromIterator<Selector> for Selector {
    /// What is in any of them.
    fn from_iter<I: IntoIterator<Item = Selector>>(sets: I) -> Selector {
        Selector::any_of(sets.into_iter().collect())
    }
}

impl FromStr for Selector {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Selector, ParseError> {
        parse::parse(text)
    }
}

/// As it is parsed.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::All => f.write_str("all"),
            Selector::Class(class) => f.write_str(name_of(*class)),
            Selector::Access(class, bytes) => write!(f, "{}{bytes}", name_of(*class)),
            Selector::Places(ranges) => write_separated(f, ranges, ",", |f, range| {
                if range.end - range.start == 1 {
                    write!(f, "{:#x}", range.start)
                } else {
                    write!(f, "{:#x}..{:#x}", range.start, range.end)
                }
            }),
            Selector::Module(text) => write_name(f, "module:", text),
            Selector::Function(name) => write_name(f, "function:", name),
            Selector::AnyOf(sets) => write_separated(f, sets, " | ", |f, set| write!(f, "{set}")),
            Selector::AllOf(sets) => write_separated(f, sets, " & ", write_part),
            Selector::Not(set) => {
                f.write_str("!")?;
                write_part(f, set)
            }
        }
    }
}

fn name_of(class: Classes) -> &'static str {
    Classes::NAMES.iter().find(|&&(_, each)| each == class).map_or("all", |(name, _)| name)
}

fn write_part(f: &mut fmt::Formatter<'_>, set: &Selector) -> fmt::Result {
    match set {
        Selector::AnyOf(_) | Selector::AllOf(_) => write!(f, "({set})"),
        _ => write!(f, "{set}"),
    }
}

fn write_name(f: &mut fmt::Formatter<'_>, prefix: &str, name: &str) -> fmt::Result {
    let quote = if name.chars().all(parse::is_plain) { "" } else { "\"" };
    write!(f, "{prefix}{quote}{name}{quote}")
}

fn write_separated<T>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    separator: &str,
    write: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        f.write_str(if index == 0 { "" } else { separator })?;
        write(f, item)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    const LOAD: Candidate<'_> = Candidate {
        pc: 0x1000,
        classes: Classes(Classes::LOAD.0 | Classes::VALUE.0),
        bytes: 8,
        module: "libc.so.6",
        functions: &["qsort"],
    };

    #[test]
    fn each_selector_selects_what_it_says() {
        for text in [
            "all",
            "load",
            "value",
            "load8",
            "0x1000",
            "0xfff..0x1001",
            "0x1,0x2..0x10,0x1000",
            "module:libc",
            "function:qsort",
            "function:main | load",
            "load & module:libc & function:qsort",
            "!store",
            "!(store | function:main)",
            "store & function:main | load8",
        ] {
            assert!(text.parse::<Selector>().unwrap().selects(&LOAD), "{text}");
        }
        for text in [
            "store",
            "address",
            "load4",
            "store8",
            "0x1001",
            "0x0..0x1000",
            "module:libm",
            "function:main",
            "function:qsor",
            "load & store",
            "!load",
            "!(load & value)",
            "load & (store | function:main)",
        ] {
            assert!(!text.parse::<Selector>().unwrap().selects(&LOAD), "{text}");
        }
    }

    #[test]
    fn several_are_one_that_selects_what_any_of_them_does() {
        let sets = || ["store", "function:qsort & load"].map(|text| text.parse::<Selector>().unwrap()).into_iter();
        let both: Selector = sets().collect();
        assert!(both.selects(&LOAD));
        assert_eq!(both.function_names(), ["qsort"]);
        assert_eq!(both.to_string().parse::<Selector>().unwrap(), both);
        assert_eq!(sets().take(1).collect::<Selector>(), Selector::Class(Classes::STORE));
    }
}
