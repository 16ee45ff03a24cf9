//! The process: how it joins a session, what it tells its children, and how the runtime leaves it.

pub mod debugger;
pub mod environment;
pub mod exec;
mod exec_lists;
pub mod filters;
pub mod first_tick;
pub mod fork;
pub mod join;
pub mod language_runtimes;
mod program_file;
pub mod self_modification;
pub mod session;
mod start;
mod syscall_function;
mod tail_call;
pub mod unload;
pub mod withdrawal;
