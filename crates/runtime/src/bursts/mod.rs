//! Ticks and bursts: samples, the way into copies, and the way out of them.

pub mod ending;
pub mod recover;
pub mod stream;
pub mod tick;
pub mod twins;
