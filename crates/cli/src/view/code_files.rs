//! Bytes of code, read from the files that ran.
//!
//! Only the bytes that are asked for are read, however large a file is. A file counts only if it is
//! the one that ran, which the symbolizer has checked.

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::rc::Rc;

use attach::identify;
use image::head::{Identity, Load};
use profile::model::ModuleId;
use rustc_hash::FxHashMap;
use symbols::Symbolizer;

/// Files that are open, by module.
#[derive(Debug, Default)]
pub struct CodeFiles(RefCell<FxHashMap<ModuleId, Option<Rc<CodeFile>>>>);

/// A file that ran.
#[derive(Debug)]
pub struct CodeFile {
    file: File,
    loads: Vec<Load>,
}

impl CodeFiles {
    /// The file of a module, opened once; nothing if it is not the one that ran.
    pub fn of(&self, module: ModuleId, symbolizer: &Symbolizer) -> Option<Rc<CodeFile>> {
        let mut files = self.0.borrow_mut();
        let open = || symbolizer.file_that_ran(module).and_then(CodeFile::open).map(Rc::new);
        files.entry(module).or_insert_with(open).clone()
    }
}

impl CodeFile {
    fn open(path: &Path) -> Option<CodeFile> {
        // Opening a named pipe would wait for a writer that never comes.
        fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let file = File::open(path).ok()?;
        match identify(&file).ok()? {
            Identity::Native(segments) => Some(CodeFile { file, loads: segments.loads }),
            _ => None,
        }
    }

    pub fn read(&self, address: u64, n_bytes: u32) -> Option<Vec<u8>> {
        let n_bytes = u64::from(n_bytes);
        let offset = self.loads.iter().find_map(|load| {
            let distance = address.checked_sub(load.address)?;
            let is_inside = distance.checked_add(n_bytes)? <= load.file_bytes;
            is_inside.then(|| load.offset.checked_add(distance)).flatten()
        })?;
        let mut bytes = vec![0; n_bytes as usize];
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }
}
