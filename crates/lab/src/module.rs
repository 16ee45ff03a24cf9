//! A file from disk, parsed and analysed.

use std::fs;
use std::path::Path;

use anyhow::Context;
use flow::{Executor, ModuleFlow};
use image::Image;

/// Reads and analyses the file at `path`, and hands the result to `look`.
pub fn with_analysis<R>(
    path: &Path,
    executor: &impl Executor,
    look: impl FnOnce(&Image<'_>, &ModuleFlow) -> R,
) -> anyhow::Result<R> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let image = Image::parse(&bytes).with_context(|| format!("cannot parse {}", path.display()))?;
    Ok(look(&image, &flow::analyze(&image, executor)))
}

/// The last part of a path, for tables.
#[must_use]
pub fn short_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
