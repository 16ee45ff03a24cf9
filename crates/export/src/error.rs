//! Why a profile cannot be exported.

use std::io;

/// Failure of an export.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The output cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The format names basic blocks by the compiler's ids, and no block has one.
    #[error("no basic-block ids for {module}; build it with clang -fbasic-block-address-map")]
    NoBlockIds {
        /// Path of the module.
        module: String,
    },
    /// The format describes one module, and the profile has none.
    #[error("the profile has no module with code")]
    NoModule,
}

/// A word that names no format or table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {word:?}; valid: {valid}")]
pub struct UnknownName {
    pub(crate) what: &'static str,
    pub(crate) word: String,
    pub(crate) valid: String,
}
