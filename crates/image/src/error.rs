//! Why a file, or a part of one, cannot be used.
//!
//! Errors are for what was asked and cannot be given; what is merely damaged beside it is a
//! [`Problem`](crate::Problem) of the image. Each message names the cause and what to do, on one
//! line, without the file's name, which only the caller knows.

use crate::{BuildId, Svma};
use std::fmt;

/// What makes an input unusable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The file has no bytes.
    Empty,
    /// The file does not start with the ELF magic number.
    NotElf,
    /// The file is a text file that names its interpreter.
    Script {
        /// What follows `#!` on the first line.
        interpreter: String,
    },
    /// The file is an archive of object files.
    Archive,
    /// The file ends inside the ELF header.
    Truncated {
        /// Bytes in the file.
        len: usize,
    },
    /// An ELF file for a 32-bit machine.
    Class32,
    /// An ELF file whose class is neither 32 nor 64 bits.
    UnknownClass(u8),
    /// An ELF file for a big-endian machine.
    BigEndian,
    /// An ELF file for another processor.
    OtherMachine(u16),
    /// A core dump.
    Core,
    /// A relocatable object file, not yet linked.
    Relocatable,
    /// An ELF file of a type that is never loaded.
    UnknownType(u16),
    /// The unwind instructions of one frame are malformed.
    Unwind {
        /// Start of the frame.
        frame: Svma,
        /// What the unwind reader objected to.
        cause: gimli::Error,
    },
    /// One frame has more unwind rows than any compiler makes.
    TooManyRows {
        /// Start of the frame.
        frame: Svma,
        /// The most rows that are read.
        limit: usize,
    },
    /// The exception table of one frame is malformed.
    CallSites {
        /// Address of the table.
        table: Svma,
        /// What is wrong with it.
        fault: CallSiteFault,
    },
    /// A debug file that belongs to another build.
    DebugFileMismatch {
        /// Build-id of the image, if it has one.
        image: Option<BuildId>,
        /// Build-id of the debug file, if it has one.
        debug: Option<BuildId>,
    },
    /// A debug section could not be decompressed.
    Compressed {
        /// Name of the section.
        section: &'static str,
    },
    /// The file holds no line table.
    NoLines,
    /// The debugging information is malformed.
    Dwarf(gimli::Error),
    /// The table of basic-block ids cannot be read.
    BlockMap(BlockMapFault),
}

/// What is wrong with a table of basic-block ids.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockMapFault {
    /// Another version of the format.
    Version(u8),
    /// An entry with features that are not known.
    Features(u16),
    /// An id that does not fit.
    Id(u64),
    /// It ends in the middle of an entry.
    Truncated,
}

/// What is wrong with an exception table.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallSiteFault {
    /// The table lies outside the file, or ends early.
    Truncated,
    /// A pointer encoding that the platform does not use.
    Encoding(u8),
    /// An entry lies outside its frame, or before the entry that precedes it.
    Order,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Empty => f.write_str("the file is empty; give a program or a shared library"),
            Error::NotElf => f.write_str("not an ELF file; give a Linux program or shared library"),
            Error::Script { interpreter } => {
                write!(f, "a script, not an ELF file; give its interpreter ({interpreter}) instead")
            }
            Error::Archive => f.write_str("an archive of object files; give the program that was linked from it"),
            Error::Truncated { len } => {
                write!(f, "ELF header cut off: the file has only {len} bytes; copy or build it again")
            }
            Error::Class32 => f.write_str("a 32-bit ELF file; strobe reads 64-bit x86-64 files, build it with -m64"),
            Error::UnknownClass(class) => write!(f, "ELF class {class} is neither 32 nor 64 bits; the file is damaged"),
            Error::BigEndian => {
                f.write_str("a big-endian ELF file; strobe reads x86-64 files, which are little-endian")
            }
            Error::OtherMachine(machine) => {
                write!(f, "an ELF file for {}; strobe reads x86-64 files", MachineName(*machine))
            }
            Error::Core => f.write_str("a core dump; give the program that dumped it"),
            Error::Relocatable => {
                f.write_str("an object file (.o) that is not linked yet; link it and give the result")
            }
            Error::UnknownType(kind) => {
                write!(f, "ELF type {kind:#x} is neither a program nor a shared library; the file is damaged")
            }
            Error::Unwind { frame, cause } => {
                write!(f, "unwind instructions of the frame at {frame} are malformed: {cause}")
            }
            Error::TooManyRows { frame, limit } => {
                write!(f, "the frame at {frame} has more than {limit} unwind rows; its table is damaged")
            }
            Error::CallSites { table, fault } => write!(f, "exception table at {table} is malformed: {fault}"),
            Error::DebugFileMismatch { image, debug } => write!(
                f,
                "the debug file belongs to another build (image {}, debug file {}); install the matching one",
                OrNone(image),
                OrNone(debug)
            ),
            Error::Compressed { section } => {
                write!(f, "section {section} cannot be decompressed; the debug file is damaged")
            }
            Error::NoLines => f.write_str("no line table; build with -g or install the debug file"),
            Error::Dwarf(cause) => write!(f, "debugging information is malformed: {cause}"),
            Error::BlockMap(fault) => write!(f, ".llvm_bb_addr_map: {fault}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Unwind { cause, .. } | Error::Dwarf(cause) => Some(cause),
            _ => None,
        }
    }
}

impl fmt::Display for CallSiteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallSiteFault::Truncated => f.write_str("it ends early"),
            CallSiteFault::Encoding(encoding) => write!(f, "unknown pointer encoding {encoding:#x}"),
            CallSiteFault::Order => f.write_str("an entry is out of order or outside its frame"),
        }
    }
}

impl fmt::Display for BlockMapFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockMapFault::Version(version) => {
                write!(f, "version {version} is not known; build with clang 16 to 22")
            }
            BlockMapFault::Features(features) => {
                write!(f, "features {features:#x} are not known; build without a profile of earlier links")
            }
            BlockMapFault::Id(id) => write!(f, "a block id of {id}; the file is damaged"),
            BlockMapFault::Truncated => f.write_str("it ends in the middle of an entry; the file is damaged"),
        }
    }
}

struct OrNone<'a>(&'a Option<BuildId>);

impl fmt::Display for OrNone<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(build_id) => build_id.fmt(f),
            None => f.write_str("without build-id"),
        }
    }
}

/// The usual name of an `e_machine` value.
struct MachineName(u16);

impl fmt::Display for MachineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use object::elf;
        let name = match elf::Machine(self.0) {
            elf::EM_386 => "x86 (32-bit)",
            elf::EM_ARM => "ARM (32-bit)",
            elf::EM_AARCH64 => "AArch64",
            elf::EM_RISCV => "RISC-V",
            elf::EM_PPC => "PowerPC (32-bit)",
            elf::EM_PPC64 => "PowerPC64",
            elf::EM_S390 => "s390",
            elf::EM_MIPS => "MIPS",
            elf::EM_SPARC | elf::EM_SPARCV9 => "SPARC",
            elf::EM_IA_64 => "Itanium",
            elf::EM_LOONGARCH => "LoongArch",
            elf::EM_BPF => "BPF",
            elf::EM_AMDGPU => "AMD GPU",
            _ => return write!(f, "machine number {}", self.0),
        };
        f.write_str(name)
    }
}
