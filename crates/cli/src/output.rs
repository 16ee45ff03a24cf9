//! Writes files that a user asked for. A file gets its name when it is complete, so that a failure
//! leaves what was there before.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Standard output in place of a file.
const STANDARD_OUTPUT: &str = "-";

/// Writes to the file, or to `stdout` if its name is `-`.
pub fn write(path: &Path, stdout: &mut impl Write, work: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    if path == Path::new(STANDARD_OUTPUT) { work(stdout) } else { write_file(path, work) }
}

/// Writes a file at once.
pub fn write_file(path: &Path, work: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let cannot_write = || format!("{}: cannot be written; choose another place", path.display());
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        // A pipe or device is written to as it is.
        let mut file = File::create(path).with_context(cannot_write)?;
        return work(&mut file);
    }
    let partial = beside(path);
    let mut file = BufWriter::new(File::create(&partial).with_context(cannot_write)?);
    let written = work(&mut file).and_then(|()| {
        file.flush().with_context(cannot_write)?;
        fs::rename(&partial, path).with_context(cannot_write)
    });
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_failure_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        write_file(&path, |out| Ok(out.write_all(b"old")?)).unwrap();
        let failed = write_file(&path, |out| {
            out.write_all(b"new")?;
            bail!("no")
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_dash_is_standard_output() {
        let mut stdout = Vec::new();
        write(Path::new("-"), &mut stdout, |out| Ok(out.write_all(b"x")?)).unwrap();
        assert_eq!(stdout, b"x");
    }
}
