//! Indices into the builder's tables, one type per table.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(super) struct $name(pub u32);

        #[allow(dead_code, reason = "not every table needs every method")]
        impl $name {
            /// Refers to nothing.
            pub const NONE: $name = $name(u32::MAX);

            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// Of the next row of a table that has `len` rows. Tables with as many rows as there
            /// are indices do not fit in memory.
            pub fn next(len: usize) -> $name {
                $name(len as u32)
            }

            pub fn is_none(self) -> bool {
                self == $name::NONE
            }
        }
    )*};
}

ids! {
    /// A function, or an address of a module whose code is not known.
    FunctionKey;
    /// A calling context.
    ContextKey;
    /// A loop of any module.
    LoopKey;
    /// A prefix of a path.
    NodeId;
    /// A step from a prefix.
    LinkId;
    /// Something that is counted.
    EventId;
    /// A set of bursts that are estimated from together.
    StratumId;
}
