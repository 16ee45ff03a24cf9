//! Which functions of two profiles are the same.
//!
//! If both profiles have a module with the same build-id, its functions are matched by address. The
//! functions of all other modules are matched by linkage name, wherever they are: a rebuilt program
//! may lie elsewhere. Functions of one profile that share a name (static ones, or start-up code of
//! several libraries) are taken together. What has no name matches only the same address of the
//! same path.
//!
//! Blocks can be compared within functions of the same build, and within two functions of one name
//! and one size, by their distance from the function's start.

use rustc_hash::FxHashSet;

use crate::merge::keys::Interner;
use crate::model::{Function, FunctionId, Profile};

/// A pair of functions, or of groups of one name.
#[derive(Clone, Debug, Default)]
pub(super) struct Match {
    pub before: Vec<FunctionId>,
    pub after: Vec<FunctionId>,
}

/// Where a function went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Index of the pair.
    pub number: u32,
    /// Whether blocks of the pair can be compared.
    pub is_comparable: bool,
}

/// All functions of two profiles.
#[derive(Debug)]
pub(super) struct Matches {
    pub rows: Vec<Match>,
    /// By function of the first profile.
    pub before: Vec<Place>,
    /// By function of the second.
    pub after: Vec<Place>,
}

#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    SameBuild(&'a str, u64),
    Name(&'a str),
    Path(&'a str, u64),
}

/// Matches the functions of two profiles.
pub(super) fn functions(before: &Profile, after: &Profile) -> Matches {
    let common_builds = &build_ids(before) & &build_ids(after);
    let mut numbers = Interner::default();
    let [before_numbers, after_numbers] = [before, after].map(|profile| {
        let rows = profile.functions.iter().map(|row| numbers.number(key(profile, row, &common_builds)));
        rows.collect::<Vec<u32>>()
    });
    let mut rows = vec![Match::default(); numbers.len()];
    for (index, &number) in before_numbers.iter().enumerate() {
        rows[number as usize].before.push(FunctionId(index as u32));
    }
    for (index, &number) in after_numbers.iter().enumerate() {
        rows[number as usize].after.push(FunctionId(index as u32));
    }
    let is_comparable: Vec<bool> = rows.iter().map(|row| is_comparable(before, after, row)).collect();
    let place = |number| Place { number, is_comparable: is_comparable[number as usize] };
    Matches {
        before: before_numbers.into_iter().map(place).collect(),
        after: after_numbers.into_iter().map(place).collect(),
        rows,
    }
}

fn build_ids(profile: &Profile) -> FxHashSet<&str> {
    profile.modules.iter().map(|module| module.build_id.as_str()).filter(|id| !id.is_empty()).collect()
}

fn key<'a>(profile: &'a Profile, row: &'a Function, common_builds: &FxHashSet<&str>) -> Key<'a> {
    let module = &profile.modules[row.module.index()];
    if common_builds.contains(module.build_id.as_str()) {
        Key::SameBuild(&module.build_id, row.address)
    } else if row.name.is_empty() {
        Key::Path(&module.path, row.address)
    } else {
        Key::Name(&row.name)
    }
}

/// A function that only one profile has can be compared with nothing at all, and its blocks are new
/// or gone.
fn is_comparable(before: &Profile, after: &Profile, row: &Match) -> bool {
    match (&row.before[..], &row.after[..]) {
        ([], [_]) | ([_], []) => true,
        ([one], [other]) => before.functions[one.index()].size == after.functions[other.index()].size,
        _ => false,
    }
}
