//! Starts the program to be profiled.
//!
//! The child inherits descriptors, directory and environment, and gets two variables on top:
//! `LD_PRELOAD` with the runtime first, and the name of the session. The runtime removes both
//! before the program sees them.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use wire::hello::{ENVIRONMENT, flag};

use crate::error::{Error, Result};
use crate::signal_set::each;
use crate::signals;
use crate::target::Target;

const PRELOAD: &str = "LD_PRELOAD";
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
    /// Whether children join as well.
    pub follow: bool,
    /// Whether the runtime does nothing but count ticks.
    pub no_op: bool,
    /// Seccomp filters that the agent runs under, and so everything that it starts
    /// ([`own_filters`]).
    pub filters: u32,
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

/// Returns the signals that this process ignores, bit `n - 1` for signal `n`. Call it before
/// anything changes them.
#[must_use]
pub fn ignored_signals() -> u64 {
    // The standard library has Rust programs ignore it, and undoes that for their children.
    const BROKEN_PIPE: u64 = 1 << (libc::SIGPIPE - 1);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0) & !BROKEN_PIPE
}

/// Returns the number of seccomp filters that this process runs under; from a kernel that does not
/// count them, not 0 if there are any. The runtime takes any beyond these to be the program's.
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
    for signal in each(ignored) {
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
