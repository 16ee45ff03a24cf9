//! How this user has symbols looked up: the cache, servers from the environment, a line on the
//! terminal.

use std::path::Path;
use std::sync::Arc;

use symbols::Options;

use crate::progress::SymbolProgress;
use recorder::cache;

/// For a profile in a file.
pub fn of_profile(path: &Path) -> Options {
    shown(Options::of_profile(path, cache::folder()))
}

/// For a profile in memory.
pub fn of_recording() -> Options {
    shown(quietly())
}

/// For a profile in memory, without a word to the user.
pub fn quietly() -> Options {
    Options::offline(cache::folder())
}

/// Also asks the servers in `DEBUGINFOD_URLS`, where debuggers find them too.
pub fn with_debuginfod(options: Options) -> Options {
    let urls = std::env::var("DEBUGINFOD_URLS").unwrap_or_default();
    Options { servers: urls.split_whitespace().map(str::to_owned).collect(), ..options }
}

fn shown(options: Options) -> Options {
    Options { progress: Some(Arc::new(SymbolProgress::default())), ..options }
}
