//! Unpacking an archive, which may come from anywhere.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path};

use anyhow::{Context as _, Result, bail, ensure};
use symbols::{DEBUG_SUFFIX, FOLDER};

use crate::tools::archive::{PROFILE, is_build_id};

/// Makes the folder, which must not be there yet, so that nothing is overwritten.
pub fn extract(archive: &Path, folder: &Path) -> Result<()> {
    let file = File::open(archive).with_context(|| format!("{}: cannot be read", archive.display()))?;
    fs::create_dir(folder).with_context(|| {
        format!("{}: cannot be made; name a folder that is not there yet with -o", folder.display())
    })?;
    let extracted = extract_into(file, folder).with_context(|| format!("{}: not extracted", archive.display()));
    if extracted.is_err() {
        let _ = fs::remove_dir_all(folder);
    }
    extracted
}

fn extract_into(file: impl Read, folder: &Path) -> Result<()> {
    let damaged = "not an archive made by `strobe archive`, or damaged";
    let mut tar = tar::Archive::new(zstd::Decoder::new(file).context(damaged)?);
    fs::create_dir(folder.join(FOLDER))?;
    for entry in tar.entries().context(damaged)? {
        let mut entry = entry.context(damaged)?;
        let name = entry.path().context(damaged)?.into_owned();
        let is_file = entry.header().entry_type().is_file();
        ensure!(is_file && is_expected(&name), "it has an entry {}, which no profile has", name.display());
        let mut out = File::create_new(folder.join(&name)).with_context(|| name.display().to_string())?;
        io::copy(&mut entry, &mut out).with_context(|| name.display().to_string())?;
    }
    if !folder.join(PROFILE).is_file() {
        bail!("it has no profile");
    }
    Ok(())
}

/// Whether an archive can have an entry of this name.
fn is_expected(name: &Path) -> bool {
    let parts: Option<Vec<&str>> = name
        .components()
        .map(|part| match part {
            Component::Normal(part) => part.to_str(),
            _ => None,
        })
        .collect();
    match parts.as_deref() {
        Some([PROFILE]) => true,
        Some([FOLDER, file]) => is_build_id(file.strip_suffix(DEBUG_SUFFIX).unwrap_or(file)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_archives_have_is_expected() {
        for good in ["profile.strobe", "files/0123abcd", "files/0123abcd.debug"] {
            assert!(is_expected(Path::new(good)), "{good}");
        }
        for bad in [
            "",
            "..",
            "/profile.strobe",
            "../profile.strobe",
            "files",
            "files/..",
            "files/x",
            "files/.debug",
            "files/ab/cd",
            "files/../ab",
            "files/ab.debug.debug",
            "other/ab",
        ] {
            assert!(!is_expected(Path::new(bad)), "{bad}");
        }
    }

    fn packed(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
        for (name, bytes) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            tar.append_data(&mut header, name, *bytes).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn a_failure_leaves_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (archive, target) = (folder.path().join("x.tar.zst"), folder.path().join("x"));
        let half = packed(&[("profile.strobe", &[7; 5000])]);
        for bytes in [&b"no archive"[..], &half[..half.len() / 2], &packed(&[("evil", b"")]), &packed(&[])] {
            fs::write(&archive, bytes).unwrap();
            assert!(extract(&archive, &target).is_err());
            assert!(!target.exists());
        }
    }

    #[test]
    fn a_folder_that_is_there_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("x.tar.zst");
        fs::write(&archive, packed(&[("profile.strobe", b"x")])).unwrap();
        assert!(extract(&archive, folder.path()).is_err());
        assert!(archive.exists());
    }
}
