//! Views of a profile, run as a user would.

mod errors;
mod fixture;
mod golden;
#[path = "../common/golden.rs"]
mod golden_text;
mod json;
mod programs;
#[path = "../common/tool.rs"]
mod tool;
#[path = "../common/workshop.rs"]
mod workshop;
