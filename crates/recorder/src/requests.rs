//! Requests from outside: start and stop by signal, and the signals that are the program's
//! ([`attach::Signals`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use attach::{PassingOn, Signals, Target};
use signal_hook::consts::{SIGCHLD, SIGUSR1, SIGUSR2};
use signal_hook::flag;

use crate::error::{Error, Result};
use crate::wake::{self, Wakening, Waker};

/// What has been asked for and not been done yet.
#[derive(Debug, Clone)]
pub struct Requests {
    start: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    /// Signals of this process that are the program's.
    signals: Option<Arc<Signals>>,
    waker: Waker,
    wakening: Wakening,
}

impl Requests {
    /// Returns requests that nobody makes: this process keeps its signals to itself.
    pub fn none() -> Result<Requests> {
        let (waker, wakening) = wake::pair()?;
        Ok(Requests { start: Arc::default(), stop: Arc::default(), signals: None, waker, wakening })
    }

    /// Signals that whoever started strobe wants ignored (`nohup` does that) stay ignored.
    pub fn listen(ignored: u64) -> Result<Requests> {
        let signals = Signals::catch(ignored)?;
        let requests = Requests { signals: Some(signals), ..Requests::none()? };
        flag::register(SIGUSR1, Arc::clone(&requests.start))
            .and_then(|_| flag::register(SIGUSR2, Arc::clone(&requests.stop)))
            .map_err(Error::io("cannot listen to signals"))?;
        // The last: the program has stopped.
        [SIGUSR1, SIGUSR2, SIGCHLD].into_iter().try_for_each(|signal| requests.waker.wake_at(signal))?;
        Ok(requests)
    }

    /// What ends naps before their time.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// What a nap watches.
    pub fn wakening(&self) -> &Wakening {
        &self.wakening
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
