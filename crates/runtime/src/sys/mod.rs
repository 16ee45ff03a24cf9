//! The ground that the runtime stands on: the kernel's and the C library's interfaces, without the
//! C library.

pub mod abi;
pub mod auxv;
pub mod clock;
pub mod link_map;
mod memory;
pub mod own_memory;
pub mod real;
pub mod status;
pub mod syscall;
