//! A line on the terminal while a program is being recorded; nothing in a pipe.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use recorder::Status;

/// Time between changes of the line. The program may write to the same terminal: short runs should
/// not be disturbed at all.
const EVERY: Duration = Duration::from_millis(500);

/// The line. Cleared when dropped.
#[derive(Debug)]
pub struct ProgressLine {
    bar: Option<ProgressBar>,
    shown: Instant,
}

impl ProgressLine {
    pub fn new(is_quiet: bool) -> ProgressLine {
        let is_wanted = !is_quiet && std::io::stderr().is_terminal();
        let bar = is_wanted.then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("strobe: {msg}") {
                bar.set_style(style);
            }
            bar
        });
        ProgressLine { bar, shown: Instant::now() }
    }

    pub fn show(&mut self, status: &Status) {
        let Some(bar) = &self.bar else { return };
        if self.shown.elapsed() < EVERY {
            return;
        }
        self.shown = Instant::now();
        let Status { is_enabled, is_translating, elapsed, cpu_seconds: cpu, cost_seconds, n_ticks, n_bursts } = *status;
        let share = 100.0 * cost_seconds / cpu.max(1e-9);
        let state = match (is_enabled, is_translating) {
            (false, _) => "paused, ",
            (true, true) => "translating, ",
            (true, false) => "",
        };
        bar.set_message(format!(
            "{state}{:.0} s, {cpu:.1} s CPU, {n_ticks} ticks, {n_bursts} bursts, cost {share:.2} %",
            elapsed.as_secs_f64()
        ));
        bar.tick();
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
