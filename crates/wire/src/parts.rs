//! Layouts in parts: one list of fields from which structures, offsets and assertions come.
//!
//! The memory that several programs share is laid out in [`crate::thread`] and [`crate::control`]
//! as a structure of parts, each a `#[repr(C)]` structure of its own with a stated place. Generated
//! code reaches fields by constants in a module `offset`. Both come from the same list, so that a
//! constant cannot go out of step with its field, and the compiler checks that every part is where
//! the list says and that there are no gaps.

/// Defines a structure of parts.
///
/// A part is `name: Type at OFFSET { fields }`, or without fields if the type exists already. A
/// field is `name: type`, and `name: type = CONSTANT` if its offset in the whole structure is to be
/// a constant of the module `offset`, which may have further items.
macro_rules! in_parts {
    ($(#[$meta:meta])* pub struct $Whole:ident { $($parts:tt)* }) => {
        $crate::parts::in_parts! { @structures [$(#[$meta])*] $Whole $($parts)* }
    };
    (
        $(#[$meta:meta])* pub struct $Whole:ident { $($parts:tt)* }
        $(#[$offset_meta:meta])* pub mod offset { $($items:item)* }
    ) => {
        $crate::parts::in_parts! { @structures [$(#[$meta])*] $Whole $($parts)* }
        $crate::parts::in_parts! { @offsets [$(#[$offset_meta])*] [$($items)*] $Whole $($parts)* }
    };
    (
        @structures [$(#[$meta:meta])*] $Whole:ident
        $($(#[$part_meta:meta])* $part:ident: $Part:ident at $start:literal $({ $($fields:tt)* })?)*
    ) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Debug)]
        pub struct $Whole {
            $($(#[$part_meta])* pub $part: $Part,)*
        }

        $($crate::parts::in_parts! { @part [$(#[$part_meta])*] $Part $({ $($fields)* })? })*
        $(const _: () = assert!(core::mem::offset_of!($Whole, $part) == $start);)*
        const _: () = assert!(size_of::<$Whole>() == 0 $(+ size_of::<$Part>())*, "a gap between parts");
    };
    (@part [$(#[$part_meta:meta])*] $Part:ident) => {};
    (
        @part [$(#[$part_meta:meta])*] $Part:ident {
            $($(#[$field_meta:meta])* $field:ident: $type:ty $(= $OFFSET:ident)?,)*
        }
    ) => {
        $(#[$part_meta])*
        #[repr(C)]
        #[derive(Debug, Default)]
        pub struct $Part {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        const _: () = assert!(size_of::<$Part>() == 0 $(+ size_of::<$type>())*, "a gap between fields");
    };
    (
        @offsets [$(#[$offset_meta:meta])*] [$($items:item)*] $Whole:ident $(
            $(#[$part_meta:meta])*
            $part:ident: $Part:ident at $start:literal $({
                $($(#[$field_meta:meta])* $field:ident: $type:ty $(= $OFFSET:ident)?,)*
            })?
        )*
    ) => {
        $(#[$offset_meta])*
        pub mod offset {
            use super::*;

            $($($($(
                #[doc = concat!("Offset of `", stringify!($part), ".", stringify!($field), "`.")]
                pub const $OFFSET: u32 = core::mem::offset_of!($Whole, $part.$field) as u32;
            )?)*)?)*
            $($items)*
        }
    };
}
pub(crate) use in_parts;
