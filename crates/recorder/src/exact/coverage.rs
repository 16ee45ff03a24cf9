//! What share of the program's time exact mode has counted.
//!
//! Excursions say how often threads left the copies, not for how long: one may last a microsecond
//! or the whole run. So threads have ticks of their CPU time in exact mode, too, and each notes
//! whether it found the thread in a copy or in original code. The share of the latter is the time
//! that was not counted, with the error of a sample of independent ticks. Ticks behind system calls
//! stand for the kernel's time, those in the runtime for strobe's own; both are left out.
//!
//! Instructions are known only where they were counted. Copies take longer than the code that they
//! are copied from, so that the share of *instructions* that is missing is larger than that of the
//! time: with copies `s` times as slow and `t` of the time outside, it is about
//! `t / (t + (1 - t) / s)`.

use wire::control::TickPlace;

use crate::numbers::thousands;

/// From this share on, what is missing is worth a warning.
const NOTICEABLE_SHARE: f64 = 0.03;
/// Ticks below which shares say little.
const FEW_TICKS: u64 = 30;

/// Ticks by where they found threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coverage {
    ticks: [u64; TickPlace::COUNT],
}

impl Coverage {
    /// Adds the ticks of a process.
    pub fn add(&mut self, ticks: [(TickPlace, u64); TickPlace::COUNT]) {
        for (place, n) in ticks {
            self.ticks[place as usize] += n;
        }
    }

    fn at(&self, place: TickPlace) -> u64 {
        self.ticks[place as usize]
    }

    fn n_outside(&self) -> u64 {
        self.at(TickPlace::File) + self.at(TickPlace::NoFile)
    }

    /// Ticks that stand for user time of the program.
    fn n_user(&self) -> u64 {
        self.at(TickPlace::Copy) + self.n_outside()
    }

    /// The share of user time outside of copies, and half the width of its 95 % interval.
    fn outside(&self) -> Option<(f64, f64)> {
        let n = self.n_user();
        let share = self.n_outside() as f64 / n as f64;
        // Of n ticks that agree, the next may still differ: the rule of three.
        let least = 3.0 / n as f64 / 2.0;
        (n > 0).then(|| (share, (1.96 * (share * (1.0 - share) / n as f64).sqrt()).max(least)))
    }

    /// Returns a warning if so much was not counted that it matters.
    pub fn warning(&self) -> Option<String> {
        let (share, margin) = self.outside()?;
        let is_noticeable = share >= NOTICEABLE_SHARE && (self.n_user() >= FEW_TICKS || share - margin > 0.0);
        is_noticeable.then(|| {
            format!(
                "{} of the program's user CPU time ran in code that was not counted: all counts are too low, and of some code there are none",
                percent(share, margin)
            )
        })
    }

    /// Returns whether no tick found code that was not counted.
    pub fn is_complete(&self) -> bool {
        self.n_outside() == 0
    }

    /// Returns the line of the summary.
    pub fn text(&self) -> String {
        let n = self.n_user();
        let Some((share, margin)) = self.outside() else {
            return "share of time not known: the program used too little user CPU time for a tick".to_owned();
        };
        let ticks = if n == 1 { "1 tick".to_owned() } else { format!("{} ticks", thousands(n)) };
        if self.n_outside() == 0 {
            return match n < FEW_TICKS {
                true => {
                    format!("{ticks} of user CPU time, too few to tell a share, found no code that was not counted")
                }
                false => format!(
                    "no tick of {ticks} of user CPU time found code that was not counted (at most {:.1} % of it)",
                    300.0 / n as f64
                ),
            };
        }
        let of = |place: TickPlace| 100.0 * self.at(place) as f64 / n as f64;
        format!(
            "{} of user CPU time was not counted, by {ticks}: code of no file {:.1} %, code of files outside of copies {:.1} %",
            percent(share, margin),
            of(TickPlace::NoFile),
            of(TickPlace::File)
        )
    }

    /// Returns the facts for the profile.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![
            ("exact_ticks_counted", self.at(TickPlace::Copy).to_string()),
            ("exact_ticks_file", self.at(TickPlace::File).to_string()),
            ("exact_ticks_no_file", self.at(TickPlace::NoFile).to_string()),
            ("exact_ticks_system_calls", self.at(TickPlace::SystemCall).to_string()),
            ("exact_ticks_strobe", self.at(TickPlace::Runtime).to_string()),
        ];
        if let Some((share, margin)) = self.outside() {
            facts.push(("not_counted_percent", format!("{:.2}", 100.0 * share)));
            facts.push(("not_counted_margin_percent", format!("{:.2}", 100.0 * margin)));
        }
        facts.push(("not_counted", self.text()));
        facts.extend(self.warning().map(|warning| ("warning", warning)));
        facts
    }
}

fn percent(share: f64, margin: f64) -> String {
    format!("{:.1} % ±{:.1}", 100.0 * share, 100.0 * margin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coverage(copy: u64, file: u64, no_file: u64) -> Coverage {
        let mut coverage = Coverage::default();
        coverage.add([
            (TickPlace::Copy, copy),
            (TickPlace::SystemCall, 500),
            (TickPlace::Runtime, 700),
            (TickPlace::File, file),
            (TickPlace::NoFile, no_file),
        ]);
        coverage
    }

    #[test]
    fn only_user_time_of_the_program_counts() {
        let (share, margin) = coverage(750, 50, 200).outside().unwrap();
        assert_eq!(share, 0.25);
        assert!((margin - 0.0268).abs() < 1e-4, "{margin}");
        assert!(
            coverage(750, 50, 200).text().starts_with("25.0 % ±2.7 of user CPU time was not counted, by 1,000 ticks")
        );
        assert!(coverage(750, 50, 200).warning().is_some());
    }

    #[test]
    fn complete_coverage_is_bounded_not_proved() {
        let complete = coverage(300, 0, 0);
        assert_eq!(complete.warning(), None);
        assert!(complete.text().contains("at most 1.0 %"), "{}", complete.text());
        assert!(coverage(0, 0, 0).outside().is_none());
        assert!(coverage(10, 0, 0).text().contains("too few"));
    }
}
