//! Ways to sample: the defaults, combinations of rate, length and policy, and options that go with
//! any of them.

use std::str::FromStr;

use clap::ValueEnum;
use recorder::{Bursts, Sampling};
use wire::control::Policy as Skipping;

/// One way to record.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// What tables call it.
    pub name: String,
    /// What is recorded.
    pub bursts: Bursts,
}

impl Setting {
    /// What a user gets who says nothing.
    #[must_use]
    pub fn default_budget() -> Setting {
        Setting { name: "default".to_owned(), bursts: Bursts::new(None, None, None) }
    }

    /// At a rate, under a policy.
    #[must_use]
    pub fn of(rate_hz: f64, burst: Option<u32>, policy: Policy) -> Setting {
        let (name, length, sampling) = match (policy, burst) {
            (Policy::Burst, Some(checks)) => (format!("{rate_hz} Hz x {checks}"), burst, None),
            (Policy::Burst, None) => (format!("{rate_hz} Hz"), None, None),
            (Policy::Stride { samples, stride, is_full }, _) => {
                let (kind, policy) = if is_full { ("AG", Skipping::Full) } else { ("PEP", Skipping::Simplified) };
                (format!("{rate_hz} Hz {kind}({samples},{stride})"), None, Some(Sampling { samples, stride, policy }))
            }
        };
        Setting { name, bursts: Bursts::new(Some(rate_hz), length, sampling) }
    }

    /// The same with further options, which the name then has, too.
    #[must_use]
    pub fn with(mut self, extras: &[Extra]) -> Setting {
        for extra in extras {
            self.name = format!("{} {}", self.name, extra.option());
            extra.apply(&mut self.bursts);
        }
        self
    }
}

/// An option of `strobe record` that is off by default. Recordings with it are compared with
/// recordings without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Extra {
    /// The block records of bursts are kept in the profile.
    KeepTrace,
    /// Every burst is checked against the control flow of the code.
    Verify,
    /// Some blocks are counted in native code.
    SpotCounts,
}

impl Extra {
    /// What `strobe record` calls it.
    #[must_use]
    pub fn option(self) -> &'static str {
        match self {
            Extra::KeepTrace => "--keep-trace",
            Extra::Verify => "--verify",
            Extra::SpotCounts => "--spot-counts",
        }
    }

    fn apply(self, bursts: &mut Bursts) {
        match self {
            Extra::KeepTrace => bursts.keeps_log = true,
            Extra::Verify => bursts.verifies = true,
            Extra::SpotCounts => bursts.counts_spots = true,
        }
    }
}

/// What a tick leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// A burst of a number of checks.
    Burst,
    /// Arnold and Grove's striding: some samples, after some that are skipped; `is_full` skips
    /// between samples, too.
    Stride {
        /// Samples of a tick.
        samples: u32,
        /// One in so many.
        stride: u32,
        /// Full, or simplified as in PEP.
        is_full: bool,
    },
}

impl FromStr for Policy {
    type Err = String;

    /// `burst`, `64,17` (simplified) or `64,17,full`.
    fn from_str(text: &str) -> Result<Policy, String> {
        let wrong = || format!("`{text}` is no policy; give burst, SAMPLES,STRIDE or SAMPLES,STRIDE,full");
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        match text.split(',').collect::<Vec<_>>()[..] {
            ["burst"] => Ok(Policy::Burst),
            [samples, stride] => {
                Ok(Policy::Stride { samples: number(samples)?, stride: number(stride)?, is_full: false })
            }
            [samples, stride, "full"] => {
                Ok(Policy::Stride { samples: number(samples)?, stride: number(stride)?, is_full: true })
            }
            _ => Err(wrong()),
        }
    }
}

/// All combinations; the defaults if nothing is given.
#[must_use]
pub fn cross(rates_hz: &[f64], bursts: &[u32], policies: &[Policy]) -> Vec<Setting> {
    const RATE_HZ: f64 = 100.0;
    if rates_hz.is_empty() && bursts.is_empty() && policies.is_empty() {
        return vec![Setting::default_budget()];
    }
    let rates_hz = if rates_hz.is_empty() { &[RATE_HZ] } else { rates_hz };
    let policies = if policies.is_empty() { &[Policy::Burst] } else { policies };
    let lengths: Vec<Option<u32>> =
        if bursts.is_empty() { vec![None] } else { bursts.iter().copied().map(Some).collect() };
    let mut settings = Vec::new();
    for &rate_hz in rates_hz {
        for &policy in policies {
            let lengths = if policy == Policy::Burst { &lengths[..] } else { &[None] };
            settings.extend(lengths.iter().map(|&burst| Setting::of(rate_hz, burst, policy)));
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_what_the_papers_call_them() {
        assert_eq!("64,17".parse(), Ok(Policy::Stride { samples: 64, stride: 17, is_full: false }));
        assert_eq!("64,17,full".parse(), Ok(Policy::Stride { samples: 64, stride: 17, is_full: true }));
        assert_eq!("burst".parse(), Ok(Policy::Burst));
        for wrong in ["", "64", "64,17,half", "x,1"] {
            assert!(wrong.parse::<Policy>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_are_in_the_name_and_in_the_recording() {
        let setting = Setting::default_budget().with(&[Extra::Verify]);
        assert_eq!(setting.name, "default --verify");
        assert_eq!((setting.bursts.verifies, setting.bursts.keeps_log), (true, false));
        assert_eq!(Setting::default_budget().with(&[]), Setting::default_budget());
    }

    #[test]
    fn strides_have_no_length() {
        let settings = cross(&[50.0, 100.0], &[1000, 4000], &[Policy::Burst, "16,17".parse().unwrap()]);
        let names: Vec<&str> = settings.iter().map(|setting| setting.name.as_str()).collect();
        let expected = ["50 Hz x 1000", "50 Hz x 4000", "50 Hz PEP(16,17)"];
        assert_eq!(names[..3], expected);
        assert_eq!(names.len(), 6);
        assert_eq!(cross(&[], &[], &[]), [Setting::default_budget()]);
    }
}
