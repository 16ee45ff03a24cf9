//! A status line on standard error while a large file is analyzed; nothing at all when that is not
//! a terminal.

use std::io::{IsTerminal as _, stderr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use symbols::Step;

/// Delay between redraws; short runs end before the first.
const TICK: Duration = Duration::from_millis(120);

/// A status line, which is cleared when dropped.
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

/// Shows what a symbolizer is busy with.
#[derive(Debug, Default)]
pub struct SymbolProgress(Mutex<Option<Stage>>);

#[derive(Debug)]
enum Stage {
    Reading(#[expect(dead_code, reason = "shown until it is dropped")] Progress),
    Downloading(Download),
}

impl symbols::Progress for SymbolProgress {
    fn step(&self, step: Step<'_>) {
        let mut stage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match step {
            Step::Reading => {
                let progress = Progress::new();
                progress.show("reading names and source lines");
                *stage = Some(Stage::Reading(progress));
            }
            Step::Downloading { server, build_id, received, length } => {
                if received == 0 || !matches!(*stage, Some(Stage::Downloading(_))) {
                    *stage = Some(Stage::Downloading(Download::new(server, build_id)));
                }
                if let Some(Stage::Downloading(download)) = &*stage {
                    download.show(received, length);
                }
            }
            _ => *stage = None,
        }
    }
}

/// What is downloaded, and how much of it has come; cleared when dropped.
#[derive(Debug)]
struct Download(ProgressBar);

impl Download {
    fn new(server: &str, build_id: &str) -> Download {
        // Drawn on standard error, and only if that is a terminal.
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("downloading {msg} {bytes} {bytes_per_sec} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(format!("debug data {build_id:.8} from {server}"));
        bar.enable_steady_tick(TICK);
        Download(bar)
    }

    fn show(&self, received: u64, length: Option<u64>) {
        let template = "downloading {msg} {bytes} of {total_bytes} {bytes_per_sec} {elapsed}";
        if self.0.length() != length
            && let (Some(n_bytes), Ok(style)) = (length, ProgressStyle::with_template(template))
        {
            self.0.set_length(n_bytes);
            self.0.set_style(style);
        }
        self.0.set_position(received);
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
