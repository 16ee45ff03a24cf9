//! ELF, DWARF and unwind tables of x86-64 programs and libraries, as plain values.
//!
//! Bytes in, values out: no file is opened, no clock read, nothing panics. Files are hostile until
//! shown otherwise, so every count and offset in them is checked against the bytes that are there;
//! what is damaged is left out and counted, and the cost of reading stays near linear in the size
//! of the file.
//!
//! [`Image`] is the way in. It states where code is ([`Image::code_regions`]), where functions
//! start ([`Image::functions`]) and what they are called ([`Image::name_of`]), what stored pointers
//! will point to ([`Image::pointer_at`]), and how frames unwind ([`Image::unwind_rows`],
//! [`Image::call_sites`]). [`LineTable`] maps addresses to source lines and inlined functions.
//! Optimizers call code by names of their own, which are [`BoltNames`] and [`BasicBlockIds`].
//!
//! ```
//! let program = std::fs::read("/proc/self/exe").expect("a running program has a file");
//! let image = image::Image::parse(&program).expect("a running program is an ELF file");
//! let entry = image.entry().expect("a program has an entry point");
//! assert!(image.functions().iter().any(|function| function.start == entry));
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
mod block_ids;
mod bolt_names;
mod build_id;
mod debug;
mod dynamic;
mod elf;
mod error;
mod frame;
mod function;
pub mod head;
mod image;
mod line;
mod lsda;
mod memory;
mod name;
mod naming;
mod notes;
mod plt;
mod pointer;
mod problem;
mod relocation;
mod symbol;
mod unwind;

pub use address::{Svma, SvmaRange};
pub use block_ids::BasicBlockIds;
pub use bolt_names::BoltNames;
pub use build_id::BuildId;
pub use debug::{AlternateLink, DebugLink, DebugLinks};
pub use elf::Section;
pub use error::{BlockMapFault, CallSiteFault, Error};
pub use frame::Frame;
pub use function::{FunctionSeed, Sources};
pub use image::{Image, ImageKind};
pub use line::{LineSections, LineTable, SourceFrame};
pub use lsda::CallSite;
pub use memory::{CodeRegion, Permissions, Segment};
pub use name::{FunctionName, NameKind, demangle};
pub use plt::{PltStub, PltStubKind};
pub use problem::{Problem, ProblemKind};
pub use symbol::{Binding, Symbol, SymbolKind, SymbolSource};
pub use unwind::{Cfa, RegisterRule, UnwindRow};
