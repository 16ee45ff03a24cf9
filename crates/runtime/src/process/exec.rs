//! Children by `exec`, and by the calls that contain one.
//!
//! If children are followed, the environment of the new program gets strobe's two variables, if it
//! is one that will take them out again: a dynamically linked x86-64 program that does not change
//! its user or group, or a script for one. The environment that the program itself sees never has
//! them.
//!
//! A child of `vfork` borrows its parent's memory, so everything here lives on the stack.

use core::arch::naked_asm;
use core::ffi::c_void;

use crate::process::environment::{self, PRELOAD, c_len, names};
use crate::process::program_file::{self, Fitness};
use crate::process::{session, withdrawal};
use crate::signals::{actions, masks};
use crate::sys::abi::Strings;
use crate::sys::{link_map, real};

/// Calls `run` with the environment for the new program: `given`, with strobe's variables if
/// `fitness` says that the program takes them.
///
/// # Safety
/// `given` must be an array of C strings or null.
unsafe fn with_environment<T: Default>(given: Strings, fitness: impl Fn() -> Fitness, run: impl Fn(Strings) -> T) -> T {
    if !session::is_active() || withdrawal::leaves_children_alone() {
        return run(given);
    }
    let run = |environment| masks::with_true_mask(|| actions::with_true_action(|| run(environment)));
    if given.is_null() || !environment::follows_children() || fitness() != Fitness::Fit {
        return run(given);
    }
    let mut result = T::default();
    // SAFETY: the program's array.
    let plan = unsafe { Plan::of(given) };
    on_stack(plan.bytes(), &mut |buffer| {
        // SAFETY: the buffer has as many bytes as the plan asked for.
        result = run(unsafe { plan.build(buffer) });
    });
    result
}

/// What the environment of a followed child consists of.
struct Plan {
    given: Strings,
    n_given: usize,
    /// Index of the program's own list of libraries to preload, which comes after ours.
    preload: Option<usize>,
}

impl Plan {
    /// # Safety
    /// `given` must be an array of C strings.
    unsafe fn of(given: Strings) -> Plan {
        let mut plan = Plan { given, n_given: 0, preload: None };
        // SAFETY: the array ends with a null pointer.
        unsafe {
            while let entry = *given.add(plan.n_given)
                && !entry.is_null()
            {
                if names(entry, NAME) {
                    plan.preload = Some(plan.n_given);
                }
                plan.n_given += 1;
            }
        }
        plan
    }

    /// Pointers, then two strings.
    fn bytes(&self) -> usize {
        (self.n_given + 3) * 8 + environment::variable().len() + 1 + self.preload_bytes()
    }

    fn preload_bytes(&self) -> usize {
        PRELOAD.len() + environment::library_path().len() + 1 + self.own_preload().len() + 1
    }

    fn own_preload(&self) -> &'static [u8] {
        // SAFETY: the index is that of an entry that starts with the variable's name.
        self.preload.map_or(&[], |index| unsafe {
            let list = (*self.given.add(index)).add(PRELOAD.len());
            core::slice::from_raw_parts(list, c_len(list))
        })
    }

    /// # Safety
    /// `buffer` must have [`Plan::bytes`] bytes and be aligned to 8.
    unsafe fn build(&self, buffer: *mut u8) -> Strings {
        let pointers = buffer.cast::<*const u8>();
        let mut text = Text(buffer.wrapping_add((self.n_given + 3) * 8));
        // SAFETY: the sizes are those of `bytes`.
        unsafe {
            let preload = text.0;
            text.add(PRELOAD);
            text.add(environment::library_path());
            if self.preload.is_some() {
                text.add(b":");
                text.add(self.own_preload());
            }
            text.add(b"\0");
            let variable = text.0;
            text.add(environment::variable());
            text.add(b"\0");
            core::ptr::copy_nonoverlapping(self.given, pointers, self.n_given);
            let mut end = self.n_given;
            let place = self.preload.unwrap_or_else(|| core::mem::replace(&mut end, self.n_given + 1));
            *pointers.add(place) = preload;
            *pointers.add(end) = variable;
            *pointers.add(end + 1) = core::ptr::null();
        }
        pointers
    }
}

/// Name of the variable for preloaded libraries.
const NAME: &[u8] = PRELOAD.split_at(PRELOAD.len() - 1).0;

/// The end of text being written.
struct Text(*mut u8);

impl Text {
    /// # Safety
    /// There must be room.
    unsafe fn add(&mut self, bytes: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0, bytes.len());
            self.0 = self.0.add(bytes.len());
        }
    }
}

/// Calls `use_buffer` with `bytes` of stack.
fn on_stack(bytes: usize, use_buffer: &mut dyn FnMut(*mut u8)) {
    extern "C" fn call(buffer: *mut u8, use_buffer: *mut c_void) {
        // SAFETY: this is what `on_stack` passes below.
        let use_buffer = unsafe { &mut *use_buffer.cast::<&mut dyn FnMut(*mut u8)>() };
        use_buffer(buffer);
    }
    let mut use_buffer = use_buffer;
    // SAFETY: `call` uses the buffer only while it runs.
    unsafe { with_stack(bytes, call, (&raw mut use_buffer).cast()) };
}

/// Moves the stack pointer down by `bytes` and calls `function` with it and `argument`.
#[unsafe(naked)]
unsafe extern "C" fn with_stack(bytes: usize, function: extern "C" fn(*mut u8, *mut c_void), argument: *mut c_void) {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "sub rsp, rdi",
        "and rsp, -16",
        "mov rax, rsi",
        "mov rdi, rsp",
        "mov rsi, rdx",
        "call rax",
        "leave",
        "ret",
    )
}

/// Returns the program's `environ`.
fn environ() -> Option<*mut Strings> {
    let names: [&[u8]; 2] = [b"environ", b"__environ"];
    names.into_iter().find_map(|name| link_map::find(name, link_map::Scope::Global)).map(|at| at as *mut Strings)
}

fn current_environment() -> Strings {
    // SAFETY: the C library's variable.
    environ().map_or(core::ptr::null(), |environ| unsafe { *environ })
}

/// # Safety
/// As for `execve`.
pub unsafe extern "C" fn execve(path: *const u8, arguments: Strings, given: Strings) -> i32 {
    let Some(real) = real::EXECVE.get() else { return -1 };
    // SAFETY: the program's call.
    unsafe { with_environment(given, || program_file::at(path), |environment| real(path, arguments, environment)) }
}

/// # Safety
/// As for `execv`.
pub unsafe extern "C" fn execv(path: *const u8, arguments: Strings) -> i32 {
    // SAFETY: the program's call.
    unsafe { execve(path, arguments, current_environment()) }
}

/// # Safety
/// As for `execvpe`.
pub unsafe extern "C" fn execvpe(file: *const u8, arguments: Strings, given: Strings) -> i32 {
    let Some(real) = real::EXECVPE.get() else { return -1 };
    let fitness = || program_file::found_by_search(file, current_environment());
    // SAFETY: the program's call.
    unsafe { with_environment(given, fitness, |environment| real(file, arguments, environment)) }
}

/// # Safety
/// As for `execvp`.
pub unsafe extern "C" fn execvp(file: *const u8, arguments: Strings) -> i32 {
    // SAFETY: the program's call.
    unsafe { execvpe(file, arguments, current_environment()) }
}

/// # Safety
/// As for `fexecve`.
pub unsafe extern "C" fn fexecve(file: i32, arguments: Strings, given: Strings) -> i32 {
    let Some(real) = real::FEXECVE.get() else { return -1 };
    // SAFETY: the program's call.
    unsafe { with_environment(given, || program_file::open(file), |environment| real(file, arguments, environment)) }
}

/// # Safety
/// As for `posix_spawn`.
pub unsafe extern "C" fn posix_spawn(
    pid: *mut i32,
    path: *const u8,
    actions: *const u8,
    attributes: *const u8,
    arguments: Strings,
    given: Strings,
) -> i32 {
    let Some(real) = real::POSIX_SPAWN.get() else { return ENOSYS };
    // SAFETY: the program's call.
    unsafe {
        with_environment(
            given,
            || program_file::at(path),
            |environment| real(pid, path, actions, attributes, arguments, environment),
        )
    }
}

/// # Safety
/// As for `posix_spawnp`.
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut i32,
    file: *const u8,
    actions: *const u8,
    attributes: *const u8,
    arguments: Strings,
    given: Strings,
) -> i32 {
    let Some(real) = real::POSIX_SPAWNP.get() else { return ENOSYS };
    let fitness = || program_file::found_by_search(file, current_environment());
    // SAFETY: the program's call.
    unsafe {
        with_environment(given, fitness, |environment| real(pid, file, actions, attributes, arguments, environment))
    }
}

const ENOSYS: i32 = 38;

/// # Safety
/// As for `system`.
pub unsafe extern "C" fn system(command: *const u8) -> i32 {
    let Some(real) = real::SYSTEM.get() else { return -1 };
    // SAFETY: the program's call.
    unsafe { with_swapped_environ(|| real(command)) }
}

/// # Safety
/// As for `popen`.
pub unsafe extern "C" fn popen(command: *const u8, mode: *const u8) -> u64 {
    let Some(real) = real::POPEN.get() else { return 0 };
    // SAFETY: the program's call.
    unsafe { with_swapped_environ(|| real(command, mode)) }
}

/// Calls `run`, which starts a shell with `environ`, while that has strobe's variables. Only if
/// there is no other thread that could see it.
///
/// # Safety
/// `run` must not keep a pointer into the environment.
unsafe fn with_swapped_environ<T: Default>(run: impl Fn() -> T) -> T {
    let fitness = || if is_single_threaded() { program_file::at(c"/bin/sh".as_ptr().cast()) } else { Fitness::Unfit };
    // SAFETY: `environ` is the C library's variable, and nobody else looks at it.
    unsafe {
        let Some(environ) = environ() else { return run() };
        let own = *environ;
        with_environment(own, fitness, |environment| {
            *environ = environment;
            let result = run();
            *environ = own;
            result
        })
    }
}

fn is_single_threaded() -> bool {
    // SAFETY: a variable of the C library, one byte.
    link_map::find(b"__libc_single_threaded", link_map::Scope::Global)
        .is_some_and(|at| unsafe { (at as *const u8).read_volatile() } != 0)
}
