//! Views of a profile, run as a user would.

mod errors;
mod fixture;
mod golden;
mod json;
mod programs;
