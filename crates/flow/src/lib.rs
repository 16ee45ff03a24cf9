//! Control flow of x86-64 code: functions, basic blocks, jump tables, loops, liveness, path
//! numbering.
//!
//! [`analyze`] takes an [`Image`] and returns a [`ModuleFlow`]: every function with its graph. Values in, values out: no file is
//! opened, no clock read, no thread started; the caller brings an [`Executor`] that runs
//! independent work as it likes, and the result is the same whatever it does.
//!
//! The module is looked at in four steps, each of which needs the whole result of the one before:
//!
//! 1. *Scout* every piece of code that the file declares; calls and pointers lead to pieces that it
//!    does not declare.
//! 2. Work out which pieces can return to their callers.
//! 3. *Group* pieces into functions: split-off cold code joins the function that jumps to it.
//! 4. Analyse each function: explore, resolve jump tables, build the graph. What that shows about
//!    returning and belonging together is fed back to the functions concerned until nothing
//!    changes.
//!
//! ```
//! let program = std::fs::read("/proc/self/exe").expect("a running program has a file");
//! let image = image::Image::parse(&program).expect("a running program is an ELF file");
//! let module = flow::analyze(&image, &flow::Sequential);
//! let entry = image.entry().expect("a program has an entry point");
//! assert!(!module.function_at(entry).expect("a program has a start function").cfg.blocks.is_empty());
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod callgraph;
pub mod cfg;
pub mod checks;
mod clobbers;
mod conventions;
pub mod dominators;
mod executor;
mod function;
pub mod graph;
mod grouping;
pub mod indirect;
mod listing;
pub mod liveness;
pub mod loops;
mod module;
mod noreturn;
mod noreturn_names;
pub mod order;
pub mod paths;
mod pieces;
pub mod registers;
pub mod returning;
mod scout;
pub mod semantics;
mod stack;
mod tables;
pub mod timing;
mod transfer;
pub mod verify;

pub use executor::{Executor, Sequential};
pub use function::{CallSite, Callee, FunctionFlow};
pub use module::{ModuleFlow, analyze};
pub use transfer::Transfer;
