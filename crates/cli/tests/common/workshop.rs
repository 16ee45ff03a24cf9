//! A temporary folder to build and read things in; each kind of tests adds what it makes there.

use std::path::PathBuf;

use tempfile::TempDir;

pub struct Workshop(TempDir);

impl Workshop {
    pub fn new() -> Workshop {
        Workshop(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn name(&self, name: &str) -> String {
        self.path(name).to_str().expect("a temporary folder with a UTF-8 name").to_owned()
    }
}
