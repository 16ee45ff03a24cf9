//! Tests of the builder of profiles.

mod bias;
mod codec;
mod conservation;
mod replay;
mod scale;
mod ticks;
mod transitions;
mod truth;
