//! Runs the `strobe` program as a user would.

mod debug_files;
mod errors;
mod fixture;
mod golden;
mod json;
