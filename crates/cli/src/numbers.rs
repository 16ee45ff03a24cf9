//! Numbers for people.

pub use recorder::thousands;
