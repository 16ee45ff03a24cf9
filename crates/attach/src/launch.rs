//! Starting the program to be profiled.
//!
//! The child inherits descriptors, directory and environment, and gets two variables on top:
//! `LD_PRELOAD` with the runtime first, and the name of the session. The runtime removes both
//! before the program sees them.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::hello::{ENVIRONMENT, flag};

use crate::error::{Error, Result, Step};
use crate::process::open_pidfd;
use crate::signals;

const PRELOAD: &str = "LD_PRELOAD";
/// Longest wait for a program whose end shows in no descriptor.
const LONGEST_BLIND_WAIT: Duration = Duration::from_millis(10);
/// Bytes that separate paths in `LD_PRELOAD`, or parts of the session variable.
const SEPARATORS: &[u8] = b" \t\n:;";

/// What to run.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program, a path; a name without a slash is looked up in `PATH`.
    pub program: PathBuf,
    /// Its arguments, the first of which is the name that it is called by.
    pub argv: Vec<OsString>,
    /// How it joins the session; `None`: it runs unprofiled.
    pub injection: Option<Injection>,
    /// Signals that it should ignore from the start, bit `n - 1` for signal `n`: what was ignored
    /// when the agent started ([`ignored_signals`]).
    pub ignored_signals: u64,
}

/// What brings a process into the session.
#[derive(Debug, Clone)]
pub struct Injection {
    /// Path of the runtime, absolute.
    pub runtime: PathBuf,
    /// Name of the socket ([`crate::Listener::name`]).
    pub session: String,
    /// Children join too.
    pub follow: bool,
    /// The runtime only counts ticks.
    pub no_op: bool,
    /// Seccomp filters that the agent runs under, and so everything that it starts
    /// ([`own_filters`]).
    pub filters: u32,
}

/// A program that was started.
#[derive(Debug)]
pub struct Target {
    pid: u32,
    pidfd: Option<Arc<OwnedFd>>,
    exit: Option<Exit>,
    /// The signal that has stopped it, until somebody asks.
    stop: Option<i32>,
}

/// Where signals for a program go, from any thread.
#[derive(Debug)]
pub(crate) struct Recipient {
    pid: u32,
    /// Stands for the process even when its number is another's; kernels before 5.3 have none.
    pidfd: Option<Arc<OwnedFd>>,
}

impl Recipient {
    /// Sends a signal. A program that has ended, or has taken the rights of another user, needs
    /// none.
    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: no memory is involved.
        unsafe {
            match &self.pidfd {
                Some(pidfd) => {
                    let nothing = std::ptr::null::<libc::siginfo_t>();
                    libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, nothing, 0);
                }
                None => drop(libc::kill(self.pid.cast_signed(), signal)),
            }
        }
    }

    /// Returns whether it waits to be waited for.
    pub(crate) fn has_ended(&self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_readable =
            |pidfd: &Arc<OwnedFd>| poll(&mut [PollFd::new(&**pidfd, PollFlags::IN)], Some(&at_once)) == Ok(1);
        self.pidfd.as_ref().is_some_and(is_readable)
    }

    /// Returns whether what is sent to the agent's process group reaches it.
    pub(crate) fn is_in_our_group(&self) -> bool {
        // SAFETY: no memory is involved.
        unsafe { libc::getpgid(self.pid.cast_signed()) == libc::getpgrp() }
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// It left a core dump.
    pub dumped_core: bool,
    /// What it and the children that it waited for have used.
    pub used: ResourceUse,
}

/// Resources, as `wait4` reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceUse {
    /// CPU time in user mode.
    pub user_us: u64,
    /// CPU time in the kernel.
    pub system_us: u64,
    /// Most memory at any time.
    pub max_resident_bytes: u64,
    /// Context switches because it waited.
    pub voluntary_switches: u64,
    /// Context switches because others had their turn.
    pub involuntary_switches: u64,
}

/// Starts a program.
///
/// # Errors
/// When it cannot be executed.
pub fn spawn(launch: &Launch) -> Result<Target> {
    let child = command(launch)?.spawn().map_err(|cause| spawn_error(&launch.program, cause))?;
    Ok(Target::from(child))
}

/// Returns the command that [`spawn`] runs, for callers that want to redirect its input or output.
///
/// # Errors
/// When the runtime's path cannot be used.
pub fn command(launch: &Launch) -> Result<Command> {
    let mut command = Command::new(&launch.program);
    let environment = match &launch.injection {
        Some(injection) => {
            if injection.runtime.as_os_str().as_bytes().iter().any(|byte| SEPARATORS.contains(byte)) {
                return Err(Error::RuntimePath { path: injection.runtime.clone() });
            }
            injection.environment(std::env::vars_os())
        }
        None => std::env::vars_os().collect(),
    };
    let strings = Strings::new([launch.program.clone().into_os_string()].into_iter());
    let argv = Strings::new(launch.argv.iter().cloned());
    let environment = Strings::new(environment.into_iter().map(|(name, value)| {
        let mut variable = name;
        variable.push("=");
        variable.push(value);
        variable
    }));
    let ignored = launch.ignored_signals;
    // The standard library would sort the environment, and hand files that are no programs to a
    // shell; programs and users can tell.
    let execute = move || {
        signals::take_effect()?;
        ignore(ignored);
        // SAFETY: three lists of strings that end as the system expects.
        unsafe { libc::execve(strings.first(), argv.pointers(), environment.pointers()) };
        Err(io::Error::last_os_error())
    };
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(execute) };
    Ok(command)
}

/// Strings as the system expects them, ended by a null pointer.
struct Strings {
    /// What `pointers` point into.
    _owned: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

// SAFETY: the pointers lead to strings that the value owns and nobody changes.
unsafe impl Send for Strings {}
// SAFETY: as above.
unsafe impl Sync for Strings {}

impl Strings {
    /// Strings with a zero byte inside are left out; nothing that the system has handed out has
    /// one.
    fn new(strings: impl Iterator<Item = OsString>) -> Strings {
        let owned: Vec<CString> = strings.filter_map(|string| CString::new(string.into_vec()).ok()).collect();
        let pointers = owned.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect();
        Strings { _owned: owned, pointers }
    }

    fn pointers(&self) -> *const *const libc::c_char {
        self.pointers.as_ptr()
    }

    fn first(&self) -> *const libc::c_char {
        self.pointers[0]
    }
}

/// Signals that this process ignores, bit `n - 1` for signal `n`. To be asked before anything
/// changes that.
#[must_use]
pub fn ignored_signals() -> u64 {
    // The standard library has Rust programs ignore it, and undoes that for their children.
    const BROKEN_PIPE: u64 = 1 << (libc::SIGPIPE - 1);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0) & !BROKEN_PIPE
}

/// Seccomp filters that this process runs under; a kernel that does not count them says whether
/// there are any. The runtime takes more than these for filters of the program.
#[must_use]
pub fn own_filters() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let number = |name| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    number("Seccomp_filters:").or_else(|| number("Seccomp:")).unwrap_or(0)
}

/// Has this process ignore signals, also those that the C library keeps for itself.
fn ignore(ignored: u64) {
    const SET_BYTES: usize = 8;
    let action: [usize; 4] = [libc::SIG_IGN, 0, 0, 0];
    for signal in signals::each(ignored) {
        // SAFETY: the kernel reads a complete action: handler, flags, restorer, mask.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, action.as_ptr(), std::ptr::null::<u8>(), SET_BYTES) };
    }
}

impl Injection {
    /// Returns the variables of the agent with those of the session, in their order.
    fn environment(&self, present: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
        let mut variables: Vec<(OsString, OsString)> = present.collect();
        match variables.iter_mut().find(|(name, _)| name == PRELOAD) {
            Some((_, value)) => *value = preload(&self.runtime, value),
            None => variables.push((PRELOAD.into(), self.runtime.clone().into())),
        }
        variables.push((ENVIRONMENT.into(), self.session_variable()));
        variables
    }

    fn session_variable(&self) -> OsString {
        let mut value = OsString::from(&self.session);
        value.push(";");
        value.push(&self.runtime);
        value.push(";");
        let flags = [(self.follow, flag::FOLLOW), (self.no_op, flag::NO_OP)];
        let letters: Vec<u8> = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| letter).collect();
        value.push(OsStr::from_bytes(&letters));
        value.push(format!(";{}", self.filters));
        value
    }
}

/// Returns the runtime in front of what was there; an empty value that was there is kept apart from
/// none.
fn preload(runtime: &Path, present: &OsStr) -> OsString {
    let mut value = OsString::from(runtime);
    value.push(":");
    value.push(present);
    value
}

fn spawn_error(program: &Path, cause: io::Error) -> Error {
    let program = program.to_owned();
    match cause.kind() {
        io::ErrorKind::NotFound => Error::Missing { program },
        io::ErrorKind::PermissionDenied => Error::NotExecutable { program },
        _ => Error::NotStarted { program, cause },
    }
}

impl From<std::process::Child> for Target {
    fn from(child: std::process::Child) -> Target {
        Target::from_pid(child.id())
    }
}

impl Target {
    /// A child of this process that nobody else waits for.
    pub(crate) fn from_pid(pid: u32) -> Target {
        Target { pid, pidfd: open_pidfd(pid).ok().map(Arc::new), exit: None, stop: None }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until the program has ended.
    ///
    /// # Errors
    /// When somebody else has waited for it.
    pub fn wait(&mut self) -> Result<Exit> {
        loop {
            if let Some(exit) = self.reap(0)? {
                return Ok(exit);
            }
        }
    }

    /// Returns how the program ended, if it has.
    ///
    /// # Errors
    /// When somebody else has waited for it.
    pub fn try_wait(&mut self) -> Result<Option<Exit>> {
        self.reap(libc::WNOHANG | libc::WUNTRACED)
    }

    /// Waits until the program has ended, one of `others` becomes readable, or for this long.
    pub fn wait_for(&self, timeout: Duration, others: &[BorrowedFd<'_>]) {
        let own = self.pidfd.as_ref().map(|pidfd| pidfd.as_fd());
        // On kernels that cannot tell of its end, somebody has to look for it.
        let timeout = if own.is_some() { timeout } else { timeout.min(LONGEST_BLIND_WAIT) };
        let timeout = Timespec { tv_sec: timeout.as_secs().cast_signed(), tv_nsec: timeout.subsec_nanos().into() };
        let mut fds: Vec<PollFd<'_>> =
            own.iter().chain(others).map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let _ = poll(&mut fds, Some(&timeout));
    }

    /// Returns whether a shell or a terminal has stopped the program and with it the agent's
    /// process group, if [`Target::try_wait`] has seen that since the last time. What stops it by
    /// other means (SIGSTOP) may continue it without a word to the agent.
    pub fn take_stop_of_job(&mut self) -> bool {
        let is_of_job = |signal: &i32| [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(signal);
        self.stop.take().filter(is_of_job).is_some() && self.recipient().is_in_our_group()
    }

    pub(crate) fn recipient(&self) -> Recipient {
        Recipient { pid: self.pid, pidfd: self.pidfd.clone() }
    }

    fn reap(&mut self, options: i32) -> Result<Option<Exit>> {
        if self.exit.is_some() {
            return Ok(self.exit);
        }
        let mut status = 0;
        // SAFETY: `rusage` is plain numbers, for which zeros are fine.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both places are valid for the results.
        let pid = unsafe { libc::wait4(self.pid.cast_signed(), &mut status, options, &mut usage) };
        if pid < 0 {
            let error = io::Error::last_os_error();
            let is_interrupted = error.kind() == io::ErrorKind::Interrupted;
            return if is_interrupted { Ok(None) } else { Err(error).step("wait4") };
        }
        if pid > 0 && libc::WIFSTOPPED(status) {
            self.stop = Some(libc::WSTOPSIG(status));
        } else if pid > 0 {
            self.exit = Some(exit(status, &usage));
        }
        Ok(self.exit)
    }
}

fn exit(status: i32, usage: &libc::rusage) -> Exit {
    let microseconds = |time: libc::timeval| time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_usec.cast_unsigned();
    Exit {
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        dumped_core: libc::WIFSIGNALED(status) && libc::WCOREDUMP(status),
        used: ResourceUse {
            user_us: microseconds(usage.ru_utime),
            system_us: microseconds(usage.ru_stime),
            max_resident_bytes: usage.ru_maxrss.cast_unsigned() * 1024,
            voluntary_switches: usage.ru_nvcsw.cast_unsigned(),
            involuntary_switches: usage.ru_nivcsw.cast_unsigned(),
        },
    }
}

/// Looks a program up as a shell would: a name with a slash is a path, any other is searched for in
/// `path`.
#[must_use]
pub fn find_program(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let candidates = std::env::split_paths(path).map(|directory| directory.join(name));
    let is_program = |path: &PathBuf| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    candidates.into_iter().find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_keeps_its_order() {
        let injection =
            Injection { runtime: "/a/r.so".into(), session: "s".into(), follow: false, no_op: false, filters: 0 };
        let list = |pairs: &[(&str, &str)]| -> Vec<(OsString, OsString)> {
            pairs.iter().map(|&(name, value)| (name.into(), value.into())).collect()
        };
        let session = ("STROBE_SESSION", "s;/a/r.so;;0");
        let made = injection.environment(list(&[("B", "1"), ("A", "2")]).into_iter());
        assert_eq!(made, list(&[("B", "1"), ("A", "2"), ("LD_PRELOAD", "/a/r.so"), session]));
        let made = injection.environment(list(&[("LD_PRELOAD", "x.so y.so"), ("A", "")]).into_iter());
        assert_eq!(made, list(&[("LD_PRELOAD", "/a/r.so:x.so y.so"), ("A", ""), session]));
        let made = injection.environment(list(&[("LD_PRELOAD", "")]).into_iter());
        assert_eq!(made, list(&[("LD_PRELOAD", "/a/r.so:"), session]));
    }

    #[test]
    fn session_variable_has_four_parts() {
        let mut injection =
            Injection { runtime: "/a/r.so".into(), session: "strobe-1".into(), follow: true, no_op: true, filters: 2 };
        assert_eq!(injection.session_variable(), "strobe-1;/a/r.so;fn;2");
        (injection.follow, injection.no_op) = (false, false);
        assert_eq!(injection.session_variable(), "strobe-1;/a/r.so;;2");
    }
}
