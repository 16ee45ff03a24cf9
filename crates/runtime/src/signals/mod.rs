//! Signals: the program's actions, masks and stacks as they would be without the runtime.

pub mod actions;
pub mod altstack;
pub mod cancel;
pub mod entry;
pub mod masks;
pub mod older_actions;
pub mod table;
pub mod waits;
