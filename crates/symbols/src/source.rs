//! Lines of source files, where the files are on this machine.
//!
//! Debug data names files of the machine that compiled the program. Here the name may lead nowhere,
//! or to something that is no file at all, so only regular files of a sensible size are read, each
//! once.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use rustc_hash::FxHashMap;

/// Larger files are no source.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug, Default)]
pub struct SourceFiles(RefCell<FxHashMap<String, Option<Rc<SourceFile>>>>);

#[derive(Debug)]
struct SourceFile {
    text: String,
    /// Where each line begins.
    starts: Vec<usize>,
}

impl SourceFiles {
    /// A line, counted from 1, without its end.
    pub fn line(&self, file: &str, number: u32) -> Option<String> {
        let mut files = self.0.borrow_mut();
        let known = match files.get(file) {
            Some(known) => known.clone(),
            None => files.entry(file.to_owned()).or_insert(SourceFile::read(Path::new(file)).map(Rc::new)).clone(),
        };
        known?.line(number).map(str::to_owned)
    }
}

impl SourceFile {
    fn read(path: &Path) -> Option<SourceFile> {
        let metadata = fs::metadata(path).ok()?;
        let bytes = (metadata.is_file() && metadata.len() <= MAX_BYTES).then(|| fs::read(path).ok())??;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Some(SourceFile { text, starts })
    }

    fn line(&self, number: u32) -> Option<&str> {
        let index = (number as usize).checked_sub(1)?;
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
        let line = self.text.get(start..end)?;
        // What follows the last line end is no line.
        (start < end).then(|| line.trim_end_matches(['\n', '\r']))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_1() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.c");
        fs::write(&file, b"one\r\n\n\xff three\n").unwrap();
        let name = file.to_str().unwrap();
        let files = SourceFiles::default();
        let lines: Vec<Option<String>> = (0..5).map(|number| files.line(name, number)).collect();
        let lines: Vec<Option<&str>> = lines.iter().map(Option::as_deref).collect();
        assert_eq!(lines, [None, Some("one"), Some(""), Some("\u{fffd} three"), None]);
        assert_eq!(files.line(folder.path().to_str().unwrap(), 1), None);
        assert_eq!(files.line("/no/such/file", 1), None);
        assert_eq!(files.line("/dev/zero", 1), None);
    }
}
