//! A status line on standard error while a large file is analyzed; nothing at all when that is not a terminal.

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Delay between redraws; short runs end before the first.
const TICK: Duration = Duration::from_millis(120);

/// Cleared when dropped.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    pub fn new() -> Progress {
        if !stderr().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Progress(bar)
    }

    /// Says what is done now.
    pub fn show(&self, what: &'static str) {
        self.0.set_message(what);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
