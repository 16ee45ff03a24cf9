//! The functions of the C library that the runtime interposes, except for those with a list of arguments ([`crate::exec_lists`]) and those that
//! leave no frame on the stack ([`crate::raw`]).
//!
//! Each exported symbol is a small function that calls the one of this crate and comes back into copies ([`crate::come_back`]).

use crate::come_back::returning;
use crate::{actions, altstack, cancel, code, create, exec, masks, signals, trace, unload, waits};

macro_rules! exports {
    ($($name:literal = $target:path;)*) => {
        $(const _: () = {
            returning! {
                #[unsafe(export_name = $name)]
                exported calls $target
            }
        };)*
    };
}

exports! {
    "signal" = actions::signal;
    "bsd_signal" = actions::bsd_signal;
    "ssignal" = actions::ssignal;
    "sysv_signal" = actions::sysv_signal;
    "__sysv_signal" = actions::__sysv_signal;
    "siginterrupt" = actions::siginterrupt;
    "sigset" = actions::sigset;
    "sighold" = actions::sighold;
    "sigrelse" = actions::sigrelse;
    "sigignore" = actions::sigignore;
    "sigaltstack" = altstack::exported_sigaltstack;
    "pthread_cancel" = cancel::pthread_cancel;
    "mprotect" = code::mprotect;
    "pthread_create" = create::pthread_create;
    "thrd_create" = create::thrd_create;
    "execve" = exec::execve;
    "execv" = exec::execv;
    "execvpe" = exec::execvpe;
    "execvp" = exec::execvp;
    "fexecve" = exec::fexecve;
    "posix_spawn" = exec::posix_spawn;
    "posix_spawnp" = exec::posix_spawnp;
    "system" = exec::system;
    "popen" = exec::popen;
    "pthread_sigmask" = masks::pthread_sigmask;
    "sigprocmask" = masks::sigprocmask;
    "sigaction" = signals::exported_sigaction;
    "ptrace" = trace::ptrace;
    "dlclose" = unload::dlclose;
    "sigsuspend" = waits::sigsuspend;
    "ppoll" = waits::ppoll;
    "__ppoll_chk" = waits::__ppoll_chk;
    "pselect" = waits::pselect;
    "epoll_pwait" = waits::epoll_pwait;
    "epoll_pwait2" = waits::epoll_pwait2;
    "sigtimedwait" = waits::sigtimedwait;
    "sigwaitinfo" = waits::sigwaitinfo;
    "sigwait" = waits::sigwait;
    "sigpending" = waits::sigpending;
}
