//! The live view in a build without the feature `tui`: says that there is none.

use std::convert::Infallible;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use profile::Profile;
use rustix::process::Signal;

const ABSENT: &str = "this strobe was built without its live view; build it with the feature `tui`";

/// Refuses to watch a profile.
pub fn run(_path: &Path) -> Result<()> {
    bail!(ABSENT)
}

/// A terminal that cannot be taken over.
#[derive(Debug)]
pub struct Screen(Infallible);

/// What a key would ask of whoever runs the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(dead_code, reason = "there are no keys without a view")]
pub enum Wish {
    Quit,
    Signal(Signal),
}

impl Screen {
    /// Refuses to take a terminal over.
    pub fn take(_terminal: File) -> Result<Screen> {
        bail!(ABSENT)
    }

    pub fn show(&mut self, _profile: &Profile) -> Result<()> {
        match self.0 {}
    }

    pub fn attend(&mut self, _timeout: Duration) -> Result<Option<Wish>> {
        match self.0 {}
    }
}
