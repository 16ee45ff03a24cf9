//! Threads: their areas, their timers, their beginning and their end.

pub mod area;
pub mod create;
pub mod lifecycle;
pub mod timer;
