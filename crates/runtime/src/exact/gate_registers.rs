//! Where the gate keeps the program's registers: general ones and flags in the header, vector
//! registers on its stack.

/// Indices of [`wire::thread::Gate::registers`].
pub mod saved {
    pub const RAX: usize = 0;
    pub const RCX: usize = 1;
    pub const RDX: usize = 2;
    pub const RSP: usize = 4;
    pub const RBP: usize = 5;
    pub const RSI: usize = 6;
    pub const RDI: usize = 7;
    pub const R8: usize = 8;
    pub const R9: usize = 9;
    pub const R10: usize = 10;
    pub const R11: usize = 11;
    pub const FLAGS: usize = 16;
}

/// Bytes of vector registers, at the top of the gate's stack.
pub const VECTOR_BYTES: u64 = 256;
