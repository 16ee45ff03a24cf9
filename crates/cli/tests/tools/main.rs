//! Runs the commands about whole profiles as a user would.
#![forbid(unsafe_code)]

mod archive;
mod exports;
mod fixture;
mod pages;
mod recorded;
mod sums;
