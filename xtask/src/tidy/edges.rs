//! The crate graph: which member may use which, and what pure crates must keep out.
//!
//! The table is the design; `cargo metadata` is the truth. A crate on disk without a row, or an
//! edge without an entry, needs a decision and therefore an edit here. Rows without a crate are
//! planned crates.

use crate::tidy::Complaint;
use crate::workspace::Workspace;

struct Rule {
    name: &'static str,
    may_use: &'static [&'static str],
    /// Bytes and values in, values out: no file, clock, thread, environment, network or terminal.
    pure: bool,
}

const RULES: &[Rule] = &[
    Rule { name: "attach", may_use: &["emit", "image", "wire"], pure: false },
    Rule { name: "center", may_use: &["export", "profile", "store"], pure: false },
    Rule {
        name: "cli",
        may_use: &[
            "attach", "emit", "export", "fixtures", "flow", "image", "profile", "recorder", "sampling", "store",
            "symbols", "wire",
        ],
        pure: false,
    },
    // `emit-verify` for its tests only.
    Rule { name: "emit", may_use: &["emit-verify", "flow", "image", "wire"], pure: true },
    Rule { name: "emit-verify", may_use: &["emit", "flow", "image", "wire"], pure: true },
    Rule { name: "export", may_use: &["profile"], pure: true },
    // `fixtures` is for tests, examples and benchmarks only.
    Rule { name: "fixtures", may_use: &["profile"], pure: false },
    Rule { name: "flow", may_use: &["image"], pure: true },
    Rule { name: "image", may_use: &[], pure: true },
    Rule {
        name: "lab",
        may_use: &[
            "attach",
            "center",
            "cli",
            "emit",
            "emit-verify",
            "export",
            "flow",
            "image",
            "profile",
            "recorder",
            "sampling",
            "store",
            "symbols",
            "wire",
        ],
        pure: false,
    },
    Rule { name: "profile", may_use: &["fixtures"], pure: true },
    Rule {
        name: "recorder",
        may_use: &["attach", "emit", "flow", "image", "profile", "sampling", "store", "symbols", "wire"],
        pure: false,
    },
    Rule { name: "runtime", may_use: &["sampling", "wire"], pure: false },
    Rule { name: "sampling", may_use: &[], pure: true },
    Rule { name: "store", may_use: &["fixtures", "profile", "wire"], pure: false },
    Rule { name: "symbols", may_use: &["fixtures", "image", "profile"], pure: false },
    Rule { name: "wire", may_use: &[], pure: true },
    Rule { name: "xtask", may_use: &[], pure: false },
];

/// Packages that reach for the operating system; a pure crate's ordinary dependencies must not
/// bring them in.
const IMPURE_PACKAGES: &[&str] = &[
    "async-std",
    "crossbeam",
    "env_logger",
    "hyper",
    "indicatif",
    "libc",
    "memmap2",
    "mio",
    "nix",
    "num_cpus",
    "rayon",
    "reqwest",
    "rusqlite",
    "rustix",
    "tempfile",
    "tokio",
    "windows-sys",
];

pub fn check(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for member in &workspace.crates {
        let Some(rule) = RULES.iter().find(|rule| rule.name == member.name) else {
            complaints.push(format!("{}: no row in the table of xtask/src/tidy/edges.rs", member.name));
            continue;
        };
        for used in member.members_used.iter().filter(|used| !rule.may_use.contains(&used.as_str())) {
            complaints.push(format!("{}: must not use the member crate `{used}`", member.name));
        }
        for package in IMPURE_PACKAGES.iter().filter(|name| rule.pure && member.foreign.contains(**name)) {
            complaints.push(format!("{}: is pure and must not depend on `{package}`, even indirectly", member.name));
        }
    }
    complaints
}

/// Returns whether the table says that a crate is pure.
pub fn is_pure(name: &str) -> bool {
    RULES.iter().any(|rule| rule.name == name && rule.pure)
}

/// Crates of the design that are not on disk yet.
pub fn planned(workspace: &Workspace) -> Vec<&'static str> {
    let names = RULES.iter().map(|rule| rule.name);
    names.filter(|name| workspace.crates.iter().all(|member| member.name != *name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{member, workspace};

    #[test]
    fn edges_of_the_table_are_accepted() {
        let crates = vec![member("image", &[]), member("flow", &["image"]), member("cli", &["flow", "image"])];
        assert_eq!(check(&workspace(crates, &[])), Vec::<Complaint>::new());
    }

    #[test]
    fn an_edge_against_the_direction_is_refused() {
        let complaints = check(&workspace(vec![member("image", &["flow"])], &[]));
        assert_eq!(complaints, ["image: must not use the member crate `flow`"]);
    }

    #[test]
    fn an_unknown_crate_needs_a_row() {
        let complaints = check(&workspace(vec![member("helpers", &[])], &[]));
        assert_eq!(complaints, ["helpers: no row in the table of xtask/src/tidy/edges.rs"]);
    }

    #[test]
    fn pure_crates_keep_the_operating_system_out() {
        let mut flow = member("flow", &[]);
        flow.foreign.extend(["libc".to_owned(), "petgraph".to_owned()]);
        let mut cli = member("cli", &[]);
        cli.foreign.insert("libc".to_owned());
        let complaints = check(&workspace(vec![flow, cli], &[]));
        assert_eq!(complaints, ["flow: is pure and must not depend on `libc`, even indirectly"]);
    }

    #[test]
    fn the_table_is_sorted_and_names_only_its_own_rows() {
        assert!(RULES.is_sorted_by_key(|rule| rule.name));
        for used in RULES.iter().flat_map(|rule| rule.may_use) {
            assert!(RULES.iter().any(|rule| rule.name == *used), "{used}");
        }
    }

    #[test]
    fn rows_without_a_crate_are_planned() {
        let here = workspace(vec![member("image", &[])], &[]);
        assert!(planned(&here).contains(&"flow"));
        assert!(!planned(&here).contains(&"image"));
    }
}
