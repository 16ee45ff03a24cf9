//! Versions of dependencies are stated once, in the root manifest; members refer to them.
//!
//! The runtime and its tests are a workspace of their own, which the root manifest knows nothing
//! of.

use crate::tidy::Complaint;
use crate::workspace::{TextFile, Workspace};

const ROOT: &str = "Cargo.toml";
const OTHER_WORKSPACE: &str = "crates/runtime/";

pub fn check(workspace: &Workspace) -> Vec<Complaint> {
    let is_member = |file: &&TextFile| {
        file.path.ends_with("/Cargo.toml") && !file.path.starts_with(OTHER_WORKSPACE) && file.path != ROOT
    };
    workspace.files.iter().filter(is_member).flat_map(own_versions).collect()
}

fn own_versions(manifest: &TextFile) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut table = "";
    for (index, line) in manifest.text.lines().map(str::trim).enumerate() {
        if let Some(name) = line.strip_prefix('[') {
            table = name.trim_end_matches(']');
            // `[dependencies.name]` has its keys on lines of their own.
            if table.contains("dependencies.") {
                complaints.push(format!("{}:{}: a table of its own for one dependency", manifest.path, index + 1));
            }
        } else if table.ends_with("dependencies")
            && let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#'))
            && !key.trim().ends_with(".workspace")
            && !value.contains("workspace = true")
        {
            let place = format!("{}:{}", manifest.path, index + 1);
            complaints.push(format!("{place}: `{}` does not take its version from {ROOT}", key.trim()));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::workspace;

    #[test]
    fn versions_of_members_are_found() {
        let member = "[package]\nversion = \"1\"\n[dependencies]\na.workspace = true\n# c = \"1\"\n\
                      b = { workspace = true, features = [\"x\"] }\nc = \"1\"\nd = { path = \"../d\" }\n\
                      [dev-dependencies]\ne = { version = \"1\" }\n[dependencies.f]\n[features]\ng = []\n";
        let files = [
            ("Cargo.toml", "[workspace.dependencies]\na = \"1\"\n"),
            ("crates/a/Cargo.toml", member),
            ("crates/runtime/tests/Cargo.toml", "[dependencies]\nlibc = \"0.2\"\n"),
        ];
        assert_eq!(
            check(&workspace(Vec::new(), &files)),
            [
                "crates/a/Cargo.toml:7: `c` does not take its version from Cargo.toml",
                "crates/a/Cargo.toml:8: `d` does not take its version from Cargo.toml",
                "crates/a/Cargo.toml:10: `e` does not take its version from Cargo.toml",
                "crates/a/Cargo.toml:11: a table of its own for one dependency",
            ]
        );
    }
}
