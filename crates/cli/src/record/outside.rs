//! Requests from outside: start and stop by signal, and the signals that end programs.
//!
//! Ctrl-C reaches the recorded program by itself, because it is in the same process group; strobe only has to survive it to write the
//! profile. SIGTERM and SIGHUP are meant for strobe: it passes them on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;

use crate::props::{CtlAction, CtlProps};

/// What has been asked for and not been done yet.
#[derive(Debug, Clone, Default)]
pub struct Requests {
    start: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    interrupt: Arc<AtomicBool>,
    /// The last of SIGTERM and SIGHUP; 0: none.
    end: Arc<AtomicUsize>,
}

impl Requests {
    /// Signals that whoever started strobe wants ignored (`nohup` does that) stay ignored.
    pub fn listen(ignored: u64) -> Result<Requests> {
        let requests = Requests::default();
        let is_wanted = |signal: &i32| ignored >> (signal - 1) & 1 == 0;
        let listen = || -> std::io::Result<()> {
            flag::register(SIGUSR1, Arc::clone(&requests.start))?;
            flag::register(SIGUSR2, Arc::clone(&requests.stop))?;
            for signal in [SIGINT, SIGQUIT].into_iter().filter(is_wanted) {
                flag::register(signal, Arc::clone(&requests.interrupt))?;
            }
            for signal in [SIGTERM, SIGHUP].into_iter().filter(is_wanted) {
                flag::register_usize(signal, Arc::clone(&requests.end), signal as usize)?;
            }
            Ok(())
        };
        listen().context("cannot listen to signals")?;
        Ok(requests)
    }

    pub fn take_start(&self) -> bool {
        self.start.swap(false, Ordering::Relaxed)
    }

    pub fn take_stop(&self) -> bool {
        self.stop.swap(false, Ordering::Relaxed)
    }

    /// Whether the user pressed Ctrl-C since the last time.
    pub fn take_interrupt(&self) -> bool {
        self.interrupt.swap(false, Ordering::Relaxed)
    }

    /// A signal that the program should get too.
    pub fn take_end(&self) -> Option<Signal> {
        match self.end.swap(0, Ordering::Relaxed) as i32 {
            SIGTERM => Some(Signal::TERM),
            SIGHUP => Some(Signal::HUP),
            _ => None,
        }
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
