//! Whole modules: translated, verified, stored, damaged.

mod cache;
mod events;
mod exact;
mod execution;
mod fixture;
mod golden;
mod lies;
mod mutation;
mod noting;
mod placing;
mod real;
mod sample;
mod shapes;
mod storing;
mod switching;
mod triggered;
