//! Where names and lines are looked up: the user's cache, the servers of the environment; with a
//! status line on the terminal.

use std::path::Path;
use std::sync::Arc;

use symbols::Options;

use crate::progress::SymbolProgress;
use recorder::cache;

/// Returns the options for a profile in a file.
pub fn of_profile(path: &Path) -> Options {
    shown(Options::of_profile(path, cache::folder()))
}

/// Returns the options for a profile in memory.
pub fn of_recording() -> Options {
    shown(quietly())
}

/// Returns the options for a profile in memory, without a status line.
pub fn quietly() -> Options {
    Options::offline(cache::folder())
}

/// Adds the servers in `DEBUGINFOD_URLS`, the variable that debuggers use as well.
pub fn with_debuginfod(options: Options) -> Options {
    let urls = std::env::var("DEBUGINFOD_URLS").unwrap_or_default();
    Options { servers: urls.split_whitespace().map(str::to_owned).collect(), ..options }
}

fn shown(options: Options) -> Options {
    Options { progress: Some(Arc::new(SymbolProgress::default())), ..options }
}
