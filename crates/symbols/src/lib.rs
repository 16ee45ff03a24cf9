//! Names and source lines of the addresses in a profile, from the files on this machine.
//!
//! A [`Symbolizer`] belongs to one profile. It finds the file of each module and its separate debug
//! file ([`debug_files`], archives, debuginfod servers), reads symbols and DWARF for the addresses
//! that are asked for, and keeps the answers in a folder by build-id.
//!
//! What is missing, rebuilt or unreadable is a [`Status`], not an error: names are then those in
//! the profile. Only debuginfod servers fail, and their [`Error`]s are remarks beside the answers
//! ([`Symbolizer::faults`]).
//!
//! The library prints nothing and knows no terminal. It reads no environment variable: the caller
//! says where to look and where to keep what was found ([`Options`]), and can listen to what takes
//! long ([`Progress`]).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod archived;
mod brief;
mod build_id;
mod cache;
pub mod debug_files;
mod debuginfod;
mod error;
mod files;
mod module;
mod options;
pub mod own_files;
mod progress;
pub mod sealed;
mod source;
mod symbolizer;
mod table;

pub use archived::{ArchivedFiles, DEBUG_SUFFIX, FOLDER};
pub use brief::brief;
pub use build_id::build_id_of;
pub use cache::BuildIdText;
pub use error::Error;
pub use files::Status;
pub use options::Options;
pub use progress::{Progress, Step};
pub use symbolizer::Symbolizer;
