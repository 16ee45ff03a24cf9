//! Debian packages that tests need (compilers for fixtures, programs of the corpus).
//!
//! Each crate lists its own in `packages.txt` beside its manifest: one name per line, `#` starts a
//! comment. Packages that are large and only some tests need are in `packages-consumers.txt`; they
//! and those tests are wanted with `STROBE_CONSUMERS=1`. Nothing is downloaded when everything is
//! there, so the test command works without a network on a prepared machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::steps;

pub fn install_missing(root: &Path) -> Result<()> {
    let has_consumers = std::env::var_os("STROBE_CONSUMERS").is_some_and(|value| value == "1");
    let lists: &[&str] = if has_consumers { &["packages.txt", "packages-consumers.txt"] } else { &["packages.txt"] };
    let wanted = wanted(root, lists)?;
    let Some(installed) = installed(&wanted)? else {
        println!("no dpkg-query here; the tests need: {}", join(&wanted));
        return Ok(());
    };
    let missing: BTreeSet<String> = wanted.difference(&installed).cloned().collect();
    if missing.is_empty() {
        println!("all {} packages are installed", wanted.len());
        return Ok(());
    }
    println!("installing: {}", join(&missing));
    steps::run(apt_get()?.arg("update").arg("-qq"))?;
    steps::run(apt_get()?.args(["install", "-y", "-qq", "--no-install-recommends"]).args(&missing))
}

/// The union of all files with these names.
fn wanted(root: &Path, lists: &[&str]) -> Result<BTreeSet<String>> {
    let mut wanted = BTreeSet::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let folder = entry?.path();
        for list in lists.iter().map(|name| folder.join(name)).filter(|list| list.exists()) {
            let text = fs::read_to_string(&list).with_context(|| list.display().to_string())?;
            wanted.extend(parse_list(&text));
        }
    }
    Ok(wanted)
}

fn parse_list(text: &str) -> impl Iterator<Item = String> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
}

/// Which of `wanted` are installed; `None` on a system without dpkg.
fn installed(wanted: &BTreeSet<String>) -> Result<Option<BTreeSet<String>>> {
    if wanted.is_empty() {
        return Ok(Some(BTreeSet::new()));
    }
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Abbrev} ${Package}\\n"]).args(wanted);
    match query.output() {
        // The exit status says only that some package is unknown; the lines say which ones are
        // installed.
        Ok(output) => Ok(Some(parse_status(&String::from_utf8_lossy(&output.stdout)))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("dpkg-query"),
    }
}

fn parse_status(text: &str) -> BTreeSet<String> {
    text.lines().filter_map(|line| line.strip_prefix("ii")).map(|name| name.trim().to_owned()).collect()
}

fn apt_get() -> Result<Command> {
    let user = Command::new("id").arg("-u").output().context("id -u")?;
    let mut command = if user.stdout.trim_ascii() == b"0" {
        Command::new("env")
    } else {
        let mut sudo = Command::new("sudo");
        sudo.arg("env");
        sudo
    };
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    Ok(command)
}

fn join(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_comments_and_blank_lines() {
        let names: Vec<String> = parse_list("# fixtures\ngcc\n\n  g++  # C++\n").collect();
        assert_eq!(names, ["gcc", "g++"]);
    }

    #[test]
    fn only_fully_installed_packages_count() {
        let installed = parse_status("ii  gcc\nrc  valgrind\nun  perl\nii  libc6-dev\n");
        assert_eq!(join(&installed), "gcc libc6-dev");
    }

    #[test]
    fn lists_of_all_crates_are_united() {
        let root = tempfile::tempdir().unwrap();
        for (name, list) in [("a", "gcc\nxz-utils\n"), ("b", "gcc\n")] {
            let folder = root.path().join("crates").join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("packages.txt"), list).unwrap();
        }
        fs::create_dir(root.path().join("crates/c")).unwrap();
        assert_eq!(join(&wanted(root.path(), &["packages.txt"]).unwrap()), "gcc xz-utils");
    }
}
