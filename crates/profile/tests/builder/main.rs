//! Tests of the builder of profiles.

mod bias;
mod codec;
mod conservation;
mod replay;
mod scale;
mod shared_block;
mod spots;
mod ticks;
mod transitions;
mod truth;
