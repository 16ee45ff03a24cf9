//! Hardware counters, which are not recorded: what the kernel says about them, and what to do
//! instead.

use anyhow::{Result, bail};
use attach::probe;

use crate::props::Hardware;

const INSTEAD: &str = "--metric cycles and --metric l1d:16k:1:32 need no hardware; `strobe doctor` shows what there is";

/// Says why the counters that were asked for cannot be had; nothing if none were.
pub fn refuse(wanted: &[Hardware]) -> Result<()> {
    let refused = wanted.iter().find_map(|each| Some((each.name, probe::hardware_counter(each.counter).err()?)));
    match (wanted.first(), refused) {
        (None, _) => Ok(()),
        (Some(first), None) => {
            bail!("--metric {}: there is such a counter here, but strobe does not record it yet; {INSTEAD}", first.name)
        }
        (Some(_), Some((name, error))) => bail!("--metric {name}: {}; {INSTEAD}", meaning(&error)),
    }
}

/// Returns in words why the kernel does not open a counter.
pub fn meaning(error: &std::io::Error) -> String {
    let paranoid = probe::system().perf_event_paranoid;
    match error.raw_os_error() {
        Some(NO_ENTRY | NOT_SUPPORTED | NO_DEVICE) => {
            format!("the kernel knows no such counter here ({error}): no PMU")
        }
        Some(ACCESS | PERMISSION) => {
            let level = paranoid.map_or_else(String::new, |level| format!(", which is {level}"));
            format!("the kernel refuses it ({error}): see kernel.perf_event_paranoid{level}")
        }
        Some(NO_CALL) => format!("the kernel has no perf events ({error})"),
        _ => format!("the kernel does not open it ({error})"),
    }
}

const PERMISSION: i32 = 1;
const NO_ENTRY: i32 = 2;
const ACCESS: i32 = 13;
const NO_DEVICE: i32 = 19;
const NO_CALL: i32 = 38;
const NOT_SUPPORTED: i32 = 95;

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::*;

    #[test]
    fn the_kernels_word_is_told_with_what_it_means() {
        for (number, part) in
            [(NO_ENTRY, "no PMU"), (ACCESS, "perf_event_paranoid"), (NO_CALL, "no perf events"), (22, "does not open")]
        {
            let error = Error::from_raw_os_error(number);
            let text = meaning(&error);
            assert!(text.contains(part) && text.contains(&error.to_string()), "{text}");
        }
    }

    #[test]
    fn no_counters_are_no_problem() {
        assert!(refuse(&[]).is_ok());
    }
}
