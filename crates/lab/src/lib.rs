//! The evaluation program of strobe: every claim about the analysis has a command here that checks
//! or measures it.
//!
//! - [`corpus`]: the programs that claims are checked on.
//! - [`recording`]: one of them, recorded in this process.
//! - [`oracle`]: what [`callgrind`] saw a program execute, against what the analysis says it can.
//! - [`exact_oracle`]: what callgrind counted, against what `strobe record --exact` did.
//! - [`complete`]: how many functions have complete control flow.
//! - [`bench`]: speed and memory.
//! - [`fuzz`]: damaged files.
//! - [`transparency`]: what programs put out with and without recording.
//! - [`pep`]: what PEP mode costs, part by part.
//! - [`pgo`]: what a sampled profile is worth to BOLT and clang.
//! - [`compress`]: event streams through stream compressors.
//! - [`stratified`]: the Monte Carlo experiments of stratified sampling.
//! - [`units`]: what recording costs, by short units of work.
//! - [`claims`]: what was published, what was promised, and what is measured.
//! - [`accuracy`]: sampled profiles against exact ones.
//! - [`peers`]: what other profilers cost and show.
//! - [`block_times`]: times of blocks against those of another sampler.
//! - [`planted`]: programs that know where their time goes.
#![forbid(unsafe_code)]

pub mod accuracy;
pub mod bench;
pub mod block_times;
pub mod callgrind;
pub mod chart;
pub mod claims;
pub mod complete;
pub mod compress;
pub mod corpus;
mod cpu_time;
pub mod exact_oracle;
pub mod exact_run;
pub mod exact_speed;
pub mod fuzz;
pub mod machine;
pub mod module;
pub mod net;
pub mod oracle;
pub mod peers;
pub mod pep;
pub mod pgo;
pub mod planted;
pub mod recording;
pub mod resample;
pub mod stratified;
pub mod table;
pub mod transparency;
pub mod units;
pub mod values_cost;
