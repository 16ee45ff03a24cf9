//! Runs the `strobe` program as a user would.

mod debug_files;
mod errors;
mod fixture;
mod golden;
#[path = "../common/golden.rs"]
mod golden_text;
mod json;
#[path = "../common/tool.rs"]
mod tool;
#[path = "../common/workshop.rs"]
mod workshop;
