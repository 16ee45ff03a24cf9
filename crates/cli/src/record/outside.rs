//! Requests from outside: start and stop by signal, and the signals that are the program's ([`attach::Signals`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail};
use attach::{PassingOn, Signals, Target};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGUSR1, SIGUSR2};
use signal_hook::flag;

use crate::props::{CtlAction, CtlProps};

/// What has been asked for and not been done yet.
#[derive(Debug, Clone)]
pub struct Requests {
    start: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    signals: Arc<Signals>,
}

impl Requests {
    /// Signals that whoever started strobe wants ignored (`nohup` does that) stay ignored.
    pub fn listen(ignored: u64) -> Result<Requests> {
        let signals = Signals::catch(ignored).context("cannot listen to signals")?;
        let requests = Requests { start: Arc::default(), stop: Arc::default(), signals };
        flag::register(SIGUSR1, Arc::clone(&requests.start))
            .and_then(|_| flag::register(SIGUSR2, Arc::clone(&requests.stop)))
            .context("cannot listen to signals")?;
        Ok(requests)
    }

    pub fn take_start(&self) -> bool {
        self.start.swap(false, Ordering::Relaxed)
    }

    pub fn take_stop(&self) -> bool {
        self.stop.swap(false, Ordering::Relaxed)
    }

    /// Passes signals on to the program until it has ended.
    pub fn pass_on_to(&self, target: &Target) -> PassingOn {
        self.signals.pass_on_to(target)
    }

    /// Whether the user wants strobe to end, too, after the program has: by another Ctrl-C, or any signal that ends programs.
    pub fn is_hurried(&self) -> bool {
        self.signals.is_hurried()
    }
}

/// Sends a request to a running `strobe record`.
pub fn control(props: &CtlProps) -> Result<()> {
    let name = std::fs::read_to_string(format!("/proc/{}/comm", props.pid)).unwrap_or_default();
    if name.trim_end() != "strobe" {
        bail!("process {} is not a strobe; give the process id of a `strobe record`", props.pid);
    }
    let signal = match props.action {
        CtlAction::Start => Signal::USR1,
        CtlAction::Stop => Signal::USR2,
    };
    let pid = i32::try_from(props.pid).ok().and_then(Pid::from_raw).context("no such process id")?;
    kill_process(pid, signal).with_context(|| format!("process {}", props.pid))
}
