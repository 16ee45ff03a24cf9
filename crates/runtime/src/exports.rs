//! The functions of the C library that the runtime interposes, except for those with a list of
//! arguments ([`crate::process::exec_lists`]) and those that leave no frame on the stack
//! ([`crate::process::syscall_function`]).
//!
//! Each exported symbol is a small function that calls the one of this crate and comes back into
//! copies ([`crate::exact::return_to_copy`]).

use crate::exact::return_to_copy::returning;
use crate::process::{debugger, exec, self_modification, unload};
use crate::signals::{actions, altstack, cancel, masks, older_actions, waits};
use crate::threads::create;

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
    "signal" = older_actions::signal;
    "bsd_signal" = older_actions::bsd_signal;
    "ssignal" = older_actions::ssignal;
    "sysv_signal" = older_actions::sysv_signal;
    "__sysv_signal" = older_actions::__sysv_signal;
    "siginterrupt" = older_actions::siginterrupt;
    "sigset" = older_actions::sigset;
    "sighold" = older_actions::sighold;
    "sigrelse" = older_actions::sigrelse;
    "sigignore" = older_actions::sigignore;
    "sigaltstack" = altstack::exported_sigaltstack;
    "pthread_cancel" = cancel::pthread_cancel;
    "mprotect" = self_modification::mprotect;
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
    "sigaction" = actions::exported_sigaction;
    "ptrace" = debugger::ptrace;
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
