//! The functions behind the ones that the runtime interposes, and the few others of the C library
//! that it calls.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::exact;
use crate::sys::abi::{KernelSigAction, SigAction, SigInfo, SignalSet, SignalStack, Timespec};
use crate::sys::link_map::{self, Scope};

/// A function of type `F` in a module behind this one. The address comes first, for code in
/// assembly; it is above 1 if it is known.
#[repr(C)]
pub struct Function<F> {
    address: AtomicUsize,
    name: &'static str,
    kind: PhantomData<F>,
}

// SAFETY: holds an address and no `F`.
unsafe impl<F> Sync for Function<F> {}

impl<F: Copy> Function<F> {
    const UNKNOWN: usize = 0;
    const ABSENT: usize = 1;

    const fn named(name: &'static str) -> Function<F> {
        Function { name, address: AtomicUsize::new(Self::UNKNOWN), kind: PhantomData }
    }

    /// Returns the function; looked up when first asked for. In exact mode it is its copy.
    pub fn get(&self) -> Option<F> {
        let mut address = self.address.load(Relaxed);
        if address == Self::UNKNOWN {
            address = link_map::find(self.name.as_bytes(), Scope::Next).map_or(Self::ABSENT, |found| found as usize);
            self.address.store(address, Relaxed);
        }
        const { assert!(size_of::<F>() == size_of::<usize>()) };
        if address != Self::ABSENT {
            address = exact::callable(address as u64) as usize;
        }
        // SAFETY: the address is that of the function with this name, and `F` is declared with the
        // type of that function.
        (address != Self::ABSENT).then(|| unsafe { core::mem::transmute_copy(&address) })
    }
}

type Start = u64;

macro_rules! functions {
    ($($constant:ident = $name:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        $(pub static $constant: Function<unsafe extern "C" fn($($argument),*) -> $result> = Function::named($name);)*

        /// Looks all of them up, so that no later call has to.
        pub fn resolve() {
            $($constant.get();)*
        }
    };
}

functions! {
    SIGACTION = "sigaction": fn(i32, *const SigAction, *mut SigAction) -> i32;
    PTHREAD_SIGMASK = "pthread_sigmask": fn(i32, *const SignalSet, *mut SignalSet) -> i32;
    SIGPROCMASK = "sigprocmask": fn(i32, *const SignalSet, *mut SignalSet) -> i32;
    SIGALTSTACK = "sigaltstack": fn(*const SignalStack, *mut SignalStack) -> i32;
    SIGNAL = "signal": fn(i32, u64) -> u64;
    SIGSET = "sigset": fn(i32, u64) -> u64;
    ERRNO_LOCATION = "__errno_location": fn() -> *mut i32;
    SIGSUSPEND = "sigsuspend": fn(*const SignalSet) -> i32;
    SIGPENDING = "sigpending": fn(*mut SignalSet) -> i32;
    SIGWAIT = "sigwait": fn(*const SignalSet, *mut i32) -> i32;
    SIGTIMEDWAIT = "sigtimedwait": fn(*const SignalSet, *mut SigInfo, *const Timespec) -> i32;
    PPOLL = "ppoll": fn(*mut u8, u64, *const Timespec, *const SignalSet) -> i32;
    PPOLL_CHK = "__ppoll_chk": fn(*mut u8, u64, *const Timespec, *const SignalSet, usize) -> i32;
    PSELECT = "pselect": fn(i32, *mut u8, *mut u8, *mut u8, *const Timespec, *const SignalSet) -> i32;
    EPOLL_PWAIT = "epoll_pwait": fn(i32, *mut u8, i32, i32, *const SignalSet) -> i32;
    EPOLL_PWAIT2 = "epoll_pwait2": fn(i32, *mut u8, i32, *const Timespec, *const SignalSet) -> i32;
    PTHREAD_CREATE = "pthread_create": fn(*mut u64, *const u8, Start, u64) -> i32;
    THRD_CREATE = "thrd_create": fn(*mut u64, Start, u64) -> i32;
    PTHREAD_JOIN = "pthread_join": fn(u64, *mut u64) -> i32;
    PTHREAD_CANCEL = "pthread_cancel": fn(u64) -> i32;
    PTHREAD_KEY_CREATE = "pthread_key_create": fn(*mut u32, unsafe extern "C" fn()) -> i32;
    PTHREAD_SETSPECIFIC = "pthread_setspecific": fn(u32, u64) -> i32;
    REGISTER_ATFORK = "__register_atfork": fn(u64, u64, unsafe extern "C" fn(), u64) -> i32;
    PRCTL = "prctl": fn(i32, u64, u64, u64, u64) -> i32;
    SYSCALL = "syscall": fn(i64, i32, *const KernelSigAction, *mut KernelSigAction, usize) -> i64;
    RAISE = "raise": fn(i32) -> i32;
    PTRACE = "ptrace": fn(u64, u64, u64, u64) -> i64;
    DLCLOSE = "dlclose": fn(u64) -> i32;
    MPROTECT = "mprotect": fn(u64, u64, i32) -> i32;
    DL_ITERATE_PHDR = "dl_iterate_phdr": fn(unsafe extern "C" fn(), *mut u64) -> i32;
    EXECVE = "execve": fn(*const u8, *const *const u8, *const *const u8) -> i32;
    EXECVPE = "execvpe": fn(*const u8, *const *const u8, *const *const u8) -> i32;
    FEXECVE = "fexecve": fn(i32, *const *const u8, *const *const u8) -> i32;
    POSIX_SPAWN = "posix_spawn": fn(*mut i32, *const u8, *const u8, *const u8, *const *const u8, *const *const u8) -> i32;
    POSIX_SPAWNP = "posix_spawnp": fn(*mut i32, *const u8, *const u8, *const u8, *const *const u8, *const *const u8) -> i32;
    SYSTEM = "system": fn(*const u8) -> i32;
    POPEN = "popen": fn(*const u8, *const u8) -> u64;
}

/// Returns whether everything that a profiled process needs was found.
pub fn is_complete() -> bool {
    SIGACTION.get().is_some()
        && PTHREAD_SIGMASK.get().is_some()
        && SIGALTSTACK.get().is_some()
        && PTHREAD_CREATE.get().is_some()
        && PTHREAD_KEY_CREATE.get().is_some()
        && PTHREAD_SETSPECIFIC.get().is_some()
        && REGISTER_ATFORK.get().is_some()
        && DL_ITERATE_PHDR.get().is_some()
}
