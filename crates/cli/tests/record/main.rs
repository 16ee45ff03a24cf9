//! Programs must not notice that they are recorded: same output, same exit status, same files, no
//! hang.
//!
//! Each program in `tests/programs` checks itself and prints only what is the same in every run. It
//! runs twice alone, which proves that, and then under `strobe record` at three settings and twice
//! in exact mode and once with a counted trigger; all eight runs must agree byte for byte. What is
//! recorded must be true (`traces`).
//!
//! * `STROBE_TEST_SCALE=N` multiplies the work of every program (default 1, some tenths of a second
//!   each).
//! * `STROBE_SIGNAL_ROUNDS=N` sends every signal to every destination of every program in `signals`
//!   N times (default 1).
//!
//! `selftest` checks the harness.

mod build;
mod cache;
mod compare;
mod contexts;
mod counted;
mod exact;
mod frames;
mod full_trace;
mod gdb;
mod kept;
mod left_alone;
mod mishaps;
mod own_cost;
mod pep;
mod process;
mod programs;
mod recorder;
mod selftest;
mod signals;
mod stepped;
mod traces;
mod trust;
mod truth;
mod values;
