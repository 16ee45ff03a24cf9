//! Merging, comparing and querying profiles.

mod accuracy;
mod diff;
mod fixture;
mod merge;
mod queries;
