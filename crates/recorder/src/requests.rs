//! Requests from outside: start and stop by signal, and the signals that are the program's
//! ([`attach::Signals`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use attach::{PassingOn, Signals, Target};
use signal_hook::consts::{SIGUSR1, SIGUSR2};
use signal_hook::flag;

use crate::error::{Error, Result};

/// What has been asked for and not been done yet.
#[derive(Debug, Clone, Default)]
pub struct Requests {
    start: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    /// Signals of this process that are the program's.
    signals: Option<Arc<Signals>>,
}

impl Requests {
    /// Returns requests that nobody makes: this process keeps its signals to itself.
    #[must_use]
    pub fn none() -> Requests {
        Requests::default()
    }

    /// Signals that whoever started strobe wants ignored (`nohup` does that) stay ignored.
    pub fn listen(ignored: u64) -> Result<Requests> {
        let signals = Signals::catch(ignored)?;
        let requests = Requests { signals: Some(signals), ..Requests::none() };
        flag::register(SIGUSR1, Arc::clone(&requests.start))
            .and_then(|_| flag::register(SIGUSR2, Arc::clone(&requests.stop)))
            .map_err(Error::io("cannot listen to signals"))?;
        Ok(requests)
    }

    pub fn take_start(&self) -> bool {
        self.start.swap(false, Ordering::Relaxed)
    }

    pub fn take_stop(&self) -> bool {
        self.stop.swap(false, Ordering::Relaxed)
    }

    /// Passes signals on to the program until it has ended.
    pub fn pass_on_to(&self, target: &Target) -> Option<PassingOn> {
        self.signals.as_ref().map(|signals| signals.pass_on_to(target))
    }

    /// Whether the user wants strobe to end, too, after the program has: by another Ctrl-C, or any
    /// signal that ends programs.
    pub fn is_hurried(&self) -> bool {
        self.signals.as_ref().is_some_and(|signals| signals.is_hurried())
    }
}
