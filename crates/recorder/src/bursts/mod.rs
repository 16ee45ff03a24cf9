//! Recording in bursts: what ticks and bursts of a process say.

pub mod budget;
pub mod check;
pub mod digest;
pub mod shares;
pub mod spots;
pub mod tally;
