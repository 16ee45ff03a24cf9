//! The image crate against files made by the compiler at hand, files of the system, and damaged
//! files.
//!
//! The binutils programs are the oracle: nm, objdump, readelf and addr2line read the same files by
//! other code.

mod debug_files;
mod errors;
mod exceptions;
mod fixtures;
mod functions;
mod hostile;
mod kinds;
mod lines;
mod linkage;
mod pointers;
mod unwind;
