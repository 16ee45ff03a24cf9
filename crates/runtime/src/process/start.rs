//! The constructor: called by the dynamic linker before any code of the program or of another
//! library.

use core::sync::atomic::Ordering::Relaxed;

use crate::exact::native_code;
use crate::exact::return_to_copy::returning;
use crate::mode;
use crate::process::join::{self, Origin};
use crate::process::{environment, fork, language_runtimes, session};
use crate::signals::{actions, altstack, masks};
use crate::sys::{auxv, clock, link_map, real, status, syscall};
use crate::threads::area;
use crate::threads::lifecycle::{self, Inheritance};

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: unsafe extern "C" fn() = constructor;

returning! {
    /// For the dynamic linker, which in exact mode goes on in its copy.
    constructor calls construct
}

unsafe extern "C" fn construct(_: i32, arguments: *mut *mut u8, environment: *mut *mut u8) {
    // SAFETY: the dynamic linker passes what the kernel made, and nobody has seen it yet.
    unsafe {
        let auxv = auxv::behind(environment.cast());
        if !environment::take(environment) {
            return;
        }
        native_code::learn(&auxv);
        area::allow_fsgsbase(auxv.has_fsgsbase);
        let Some(r_debug) = link_map::learn_r_debug(&auxv) else { return };
        // The program begins with the number of arguments at the end of its stack.
        start(r_debug as u64, (arguments as u64).wrapping_sub(8));
    }
}

/// Joins the session and sets everything up; if anything is missing, the program runs as if strobe
/// were not there.
fn start(r_debug: u64, stack_end: u64) {
    // Before any other system call. A filter that the agent has, too, is one that lets it work.
    let may_go_on = status::restraints()
        .is_some_and(|found| !found.is_traced && found.n_filters <= environment::n_filters_of_agent());
    if !may_go_on {
        return;
    }
    let began_ns = clock::thread_cpu_ns();
    real::resolve();
    if let Some(reason) = language_runtimes::found() {
        join::decline(reason);
        return;
    }
    session::set_pid(syscall::getpid());
    let is_ready = real::is_complete()
        && !syscall::has_shadow_stack()
        && altstack::prepare().is_ok()
        && lifecycle::prepare()
        && fork::prepare()
        && join::join(Origin::Program);
    let Some(session) = session::attached().filter(|_| is_ready) else { return };
    session.control.process.r_debug.store(r_debug, Relaxed);
    mode::decide(session);
    session::activate();
    actions::install();
    lifecycle::begin(session, Inheritance { blocked_by_program: masks::claim(), preferred_area: 0, stack_end });
    mode::before_program(session.control);
    session.control.process.join_cpu_ns.store(clock::thread_cpu_ns() - began_ns, Relaxed);
}
