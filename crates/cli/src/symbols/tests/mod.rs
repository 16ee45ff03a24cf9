//! Whole modules, from file to frames: compiled programs with and without debug data, moved, deleted, rebuilt.

mod fixture;
mod frames;
mod reuse;
mod servers;
mod states;
#[path = "../../../tests/common/workshop.rs"]
mod workshop;
