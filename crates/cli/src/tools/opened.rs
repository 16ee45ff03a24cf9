//! Profiles as the tools read them, with the files that an archive brought along.

use std::path::Path;

use anyhow::Result;
use profile::Profile;
use symbols::Symbolizer;

use crate::look_up;

/// Reads a profile.
pub fn open(path: &Path) -> Result<Profile> {
    Ok(store::open(path)?)
}

/// A symbolizer that knows all functions of the profile at `path` by name. Most names are in the
/// profile; only the others are looked up.
pub fn symbolizer(profile: &Profile, path: &Path) -> Symbolizer {
    let mut symbolizer = Symbolizer::new(profile, &look_up::of_profile(path));
    let nameless = profile.functions.iter().filter(|row| row.name.is_empty());
    let entries: Vec<_> = nameless.map(|row| (row.module, row.address)).collect();
    symbolizer.resolve(&entries);
    symbolizer
}
