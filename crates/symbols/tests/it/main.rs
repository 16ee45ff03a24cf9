//! Whole modules, from file to frames: compiled programs with and without debug data, moved,
//! deleted, rebuilt.

mod fixture;
mod frames;
mod reuse;
#[cfg(feature = "debuginfod")]
mod servers;
mod states;
