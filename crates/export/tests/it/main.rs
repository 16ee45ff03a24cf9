//! Exports of a small profile as exact text, of random profiles by their totals, and of all by the
//! programs that read them.
//!
//! Readers that are large packages (Go, clang, BOLT) run only with `STROBE_CONSUMERS=1`;
//! `packages-consumers.txt` names the packages.

mod arbitrary;
mod bolt;
mod clang;
mod fixture;
mod golden;
mod golden_text;
mod program;
mod properties;
mod readers;
mod wire_format;
