//! What a trace says beside its words.
//!
//! Addresses are those of the module's file.

use serde::{Deserialize, Serialize};

/// One fact, or several of a kind. Processes are told apart by their number in the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// A process is recorded.
    Process {
        /// The number of the process.
        process: u32,
        /// Its process id.
        pid: u32,
        /// Its command line.
        command: String,
    },
    /// A module has functions whose keys in this process start at `first_key`.
    Module {
        /// The number of the process.
        process: u32,
        /// The key of the first function.
        first_key: u32,
        /// The file of the module.
        path: String,
        /// Functions that have paths.
        functions: Vec<Function>,
    },
    /// Paths have these blocks.
    Paths {
        /// The number of the process.
        process: u32,
        /// The paths.
        paths: Vec<PathFact>,
    },
    /// Paths that were under way when a thread ended, the innermost function's first.
    Underway {
        /// The number of the process.
        process: u32,
        /// The id of the thread.
        thread: u32,
        /// The paths.
        paths: Vec<PathFact>,
    },
    /// Functions of a module have these names.
    Names {
        /// The file of the module.
        path: String,
        /// Names of functions by their entries.
        names: Vec<(u64, String)>,
    },
    /// A process has ended, or is no longer recorded; so many of its words are not in the file.
    End {
        /// The number of the process.
        process: u32,
        /// Words that are not in the file.
        n_lost: u64,
    },
}

/// A function that has paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Less the module's first key.
    pub key: u32,
    /// Where it starts.
    pub entry: u64,
}

/// What the number of a path stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathFact {
    /// As in the trace; of a path that has not ended, with the number [`NO_NUMBER`].
    pub word: u64,
    /// How the path began.
    pub start: Start,
    /// Its blocks, in the order in which they ran.
    pub blocks: Vec<BlockFact>,
    /// How it ended.
    pub end: End,
}

/// How a path began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Control entered the function.
    Entry,
    /// Another path of the same activation ended just before.
    Cut,
    /// Control came to another entry, mostly by an exception: what of the activation came before
    /// did not end.
    Landing,
    /// Behind a call that was not seen to be made: what of the path came before is not known.
    Middle,
}

/// A block of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockFact {
    /// Where the block starts.
    pub at: u64,
    /// The function that it called and that came back, 0 if that is not fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
}

/// How a path ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The function returned.
    Return,
    /// Another path of the same activation starts at this block.
    Cut(u64),
    /// Control goes to another function, whose return will be this one's; 0 if it is not fixed
    /// which.
    Jump(u64),
    /// A call that does not return, or a trap; of a path that has not ended, the last block that it
    /// came to.
    Stop,
}

/// The number of a path that has not ended.
pub const NO_NUMBER: u32 = u32::MAX;
