//! Rivals: algorithms that keep the most frequent tuples of a stream, in the same clothes as the
//! samplers.
//!
//! They send nothing until they are drained. What they cannot represent is in their residue like
//! that of any other compressor.

mod count_min;
mod misra_gries;
mod space_saving;

pub use count_min::{CountMin, CountMinShape};
pub use misra_gries::MisraGries;
pub use space_saving::SpaceSaving;
