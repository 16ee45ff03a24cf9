//! Rows of text in the profile file, beside the profile.

use std::time::Duration;

/// A row of the profile file: name, value.
pub type Fact = (&'static str, String);

/// Returns a time as rows have it.
pub fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}
