//! Making an archive.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use image::{DebugLinks, Image};
use profile::Profile;
use symbols::{DEBUG_SUFFIX, FOLDER, debug_files};

use crate::output;
use crate::progress::Progress;
use crate::tools::archive::{PROFILE, binary_of, is_build_id, scrub};
use crate::tools::opened;

/// Packs fast: most bytes are code and debug data, which the lowest levels halve already.
const COMPRESSION_LEVEL: i32 = 3;

/// Files that are not there or have been rebuilt are left out, and said so.
pub fn create(profile_path: &Path, archive: &Path, is_scrubbed: bool) -> Result<()> {
    let profile = opened::open(profile_path)?;
    output::write_file(archive, |out| {
        let mut packer = Packer::new(out)?;
        if is_scrubbed {
            packer.add_bytes(PROFILE, &scrubbed(profile, archive)?)?;
        } else {
            let bytes = fs::read(profile_path).with_context(|| profile_path.display().to_string())?;
            packer.add_bytes(PROFILE, &bytes)?;
            packer.add_files(&profile, profile_path)?;
        }
        packer.finish()
    })
}

/// Written anew, a profile has none of the tables beside those of [`Profile`], such as processes
/// and raw traces.
fn scrubbed(mut profile: Profile, archive: &Path) -> Result<Vec<u8>> {
    scrub::scrub(&mut profile);
    let mut beside = archive.as_os_str().to_owned();
    beside.push(format!(".{}.scrubbed", std::process::id()));
    let temporary = PathBuf::from(beside);
    let bytes = store::save(&temporary, &profile).map_err(anyhow::Error::new).and_then(|()| Ok(fs::read(&temporary)?));
    let _ = fs::remove_file(&temporary);
    bytes
}

struct Packer<W: Write> {
    tar: tar::Builder<zstd::Encoder<'static, W>>,
    names: BTreeSet<String>,
}

impl<W: Write> Packer<W> {
    fn new(out: W) -> Result<Packer<W>> {
        let encoder = zstd::Encoder::new(out, COMPRESSION_LEVEL)?;
        Ok(Packer { tar: tar::Builder::new(encoder), names: BTreeSet::new() })
    }

    /// The binaries of a profile that are still those that ran, with their debug files.
    fn add_files(&mut self, profile: &Profile, profile_path: &Path) -> Result<()> {
        let progress = Progress::new();
        progress.show("packing binaries and debug files");
        for module in &profile.modules {
            // Code of the kernel has a name in brackets.
            if !is_build_id(&module.build_id) || module.path.starts_with('[') {
                continue;
            }
            let path = binary_of(profile_path, module);
            match fs::read(&path).ok().filter(|bytes| has_build_id(bytes, &module.build_id)) {
                Some(bytes) => self.add_binary(&path, &module.build_id, &bytes)?,
                None => {
                    let why = "not there or rebuilt since the recording, so not in the archive";
                    writeln!(std::io::stderr(), "strobe: warning: {}: {why}", path.display())?;
                }
            }
        }
        Ok(())
    }

    fn add_binary(&mut self, path: &Path, build_id: &str, bytes: &[u8]) -> Result<()> {
        self.add_bytes(&format!("{FOLDER}/{build_id}"), bytes)?;
        let links = DebugLinks::of_file(bytes).unwrap_or_default();
        let debug = debug_files::find(path, &links);
        let (naming_file, alternate) = match &debug {
            Some(file) => {
                self.add_bytes(&format!("{FOLDER}/{build_id}{DEBUG_SUFFIX}"), &file.bytes)?;
                (file.path.as_path(), DebugLinks::of_file(&file.bytes).ok().and_then(|links| links.alternate))
            }
            None => (path, links.alternate),
        };
        let Some(link) = alternate else { return Ok(()) };
        let Some(shared) = debug_files::find_alternate(naming_file, &link) else { return Ok(()) };
        self.add_bytes(&format!("{FOLDER}/{}{DEBUG_SUFFIX}", link.build_id), &shared.bytes)
    }

    /// A name that is there already is the same file.
    fn add_bytes(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        if !self.names.insert(name.to_owned()) {
            return Ok(());
        }
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        Ok(self.tar.append_data(&mut header, name, bytes)?)
    }

    fn finish(self) -> Result<()> {
        self.tar.into_inner()?.finish()?.flush()?;
        Ok(())
    }
}

fn has_build_id(bytes: &[u8], build_id: &str) -> bool {
    Image::parse(bytes).is_ok_and(|image| image.build_id().is_some_and(|found| found.to_string() == build_id))
}
