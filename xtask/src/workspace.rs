//! The workspace as plain values: what `cargo metadata` and `git ls-files` say, read once.
//!
//! The checks in `tidy` take these values, so that their tests need neither cargo nor a repository.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::paths;

pub struct Workspace {
    pub crates: Vec<Crate>,
    /// Every text file that is or would be committed, sorted by path.
    pub files: Vec<TextFile>,
}

/// A member crate, known by its folder: `crates/cli` is `cli` whatever its package is called.
#[derive(Debug)]
pub struct Crate {
    pub name: String,
    /// Paths of `lib.rs` and `main.rs`, relative to the workspace root.
    pub roots: Vec<String>,
    /// Member crates this one names in its manifest, development and build dependencies included.
    pub members_used: BTreeSet<String>,
    /// Foreign packages in the closure of its ordinary dependencies.
    pub foreign: BTreeSet<String>,
}

pub struct TextFile {
    /// Relative to the workspace root.
    pub path: String,
    pub text: String,
}

impl TextFile {
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }
}

/// The workspace, and the crate that needs one of its own.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "crates/runtime/Cargo.toml"];

impl Workspace {
    pub fn load() -> Result<Workspace> {
        let root = paths::root();
        let mut crates = Vec::new();
        for manifest in MANIFESTS {
            crates.extend(Metadata::read(manifest)?.crates(&root)?);
        }
        crates.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Workspace { crates, files: text_files(&root)? })
    }

    pub fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

fn text_files(root: &Path) -> Result<Vec<TextFile>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("git ls-files")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let listed = String::from_utf8(output.stdout).context("git ls-files")?;
    let paths: BTreeSet<&str> = listed.split_terminator('\0').collect();
    let mut files = Vec::new();
    for path in paths {
        match fs::read(root.join(path)) {
            Ok(bytes) => {
                files.extend(String::from_utf8(bytes).ok().map(|text| TextFile { path: path.to_owned(), text }))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).context(path.to_owned()),
        }
    }
    Ok(files)
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Dependency {
    path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<NodeDependency>,
}

#[derive(Deserialize)]
struct NodeDependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

impl Metadata {
    fn read(manifest: &str) -> Result<Metadata> {
        let output = crate::steps::cargo_command()
            .args(["metadata", "--format-version=1", "--filter-platform=x86_64-unknown-linux-gnu"])
            .args(["--manifest-path", manifest])
            .output()
            .context("cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).context("cargo metadata")
    }

    fn crates(&self, root: &Path) -> Result<Vec<Crate>> {
        let mut crates = Vec::new();
        for package in self.packages.iter().filter(|p| self.workspace_members.contains(&p.id)) {
            let folder = package.manifest_path.parent().context("a manifest without a folder")?;
            // The runtime cannot be linked into a test, so that its tests are a package beside it;
            // they are part of it.
            if folder_name(folder) == "tests" {
                continue;
            }
            let members_used = package.dependencies.iter().filter_map(|d| d.path.as_deref());
            crates.push(Crate {
                name: folder_name(folder),
                roots: roots(package, root),
                members_used: members_used.map(folder_name).collect(),
                foreign: self.foreign_closure(&package.id),
            });
        }
        Ok(crates)
    }

    fn foreign_closure(&self, package: &str) -> BTreeSet<String> {
        let nodes: BTreeMap<&str, &Node> = self.resolve.nodes.iter().map(|n| (n.id.as_str(), n)).collect();
        let names: BTreeMap<&str, &str> = self.packages.iter().map(|p| (p.id.as_str(), p.name.as_str())).collect();
        let mut seen = BTreeSet::from([package]);
        let mut pending = vec![package];
        while let Some(id) = pending.pop() {
            let dependencies = nodes.get(id).map(|node| node.deps.as_slice()).unwrap_or_default();
            for dependency in dependencies.iter().filter(|d| d.dep_kinds.iter().any(|k| k.kind.is_none())) {
                if seen.insert(&dependency.pkg) {
                    pending.push(&dependency.pkg);
                }
            }
        }
        seen.into_iter()
            .filter(|id| !self.workspace_members.iter().any(|member| member == id))
            .filter_map(|id| names.get(id).map(|name| (*name).to_owned()))
            .collect()
    }
}

fn roots(package: &Package, root: &Path) -> Vec<String> {
    let is_root = |target: &&Target| {
        target.kind.iter().any(|kind| matches!(kind.as_str(), "lib" | "bin" | "cdylib" | "proc-macro"))
    };
    let sources = package.targets.iter().filter(is_root).map(|target| target.src_path.as_path());
    sources.map(|path| path.strip_prefix(root).unwrap_or(path).display().to_string()).collect()
}

fn folder_name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
