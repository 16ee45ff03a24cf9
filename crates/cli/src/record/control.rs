//! `strobe ctl`: requests to a running `strobe record`.

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::props::{CtlAction, CtlProps};

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
