//! What this machine allows, and what ticks cost on it. Facts only; what to make of them is the
//! caller's business.

mod breakpoint;
mod delivery;
mod system;
mod ticks;

pub use crate::perf::HardwareCounter;
pub use breakpoint::breakpoint_ns;
pub use delivery::delivery_ns;
pub use system::{System, hardware_counter, system};
pub use ticks::{TickCost, tick_costs};
