//! The outermost layer of a file: identification, program headers, section headers.
//!
//! Nothing here allocates by a count that the file states: tables are slices of the given bytes,
//! cut to what is really there. The only hard requirements are those of [`identify`]; a bad table
//! is a [`ProblemKind`] and an empty slice.

use crate::problem::{ProblemKind, Problems};
use crate::{Error, Svma, SvmaRange};
use object::LittleEndian as LE;
use object::elf;
use object::pod::{self, Pod};

pub(crate) type FileHeader = elf::FileHeader64<LE>;
pub(crate) type ProgramHeader = elf::ProgramHeader64<LE>;
pub(crate) type SectionHeader = elf::SectionHeader64<LE>;

/// Longest section name that is read; real ones have a few dozen bytes.
const MAX_SECTION_NAME_LEN: usize = 256;

/// The tables that everything else in a file is found by.
#[derive(Debug)]
pub(crate) struct Elf<'data> {
    pub(crate) data: &'data [u8],
    pub(crate) header: &'data FileHeader,
    pub(crate) program_headers: &'data [ProgramHeader],
    pub(crate) section_headers: &'data [SectionHeader],
    section_names: &'data [u8],
}

impl<'data> Elf<'data> {
    pub(crate) fn parse(data: &'data [u8], problems: &mut Problems) -> Result<Elf<'data>, Error> {
        let header = identify(data)?;
        let section_headers = section_headers(data, header).unwrap_or_else(|| {
            problems.add(ProblemKind::SectionHeaders);
            &[]
        });
        let program_headers = program_headers(data, header, section_headers).unwrap_or_else(|| {
            problems.add(ProblemKind::ProgramHeaders);
            &[]
        });
        let names_index = match header.e_shstrndx.get(LE) {
            elf::SHN_XINDEX => section_headers.first().map_or(0, |first| first.sh_link.get(LE)),
            index => u32::from(index.0),
        };
        let section_names =
            section_headers.get(names_index as usize).and_then(|names| section_bytes(data, names)).unwrap_or_default();
        Ok(Elf { data, header, program_headers, section_headers, section_names })
    }

    /// The sections with their names, without the reserved first one.
    pub(crate) fn sections(&self) -> impl Iterator<Item = (&'data str, &'data SectionHeader)> {
        let names = self.section_names;
        self.section_headers.iter().skip(1).map(move |section| {
            let name = c_string(names, section.sh_name.get(LE) as usize, MAX_SECTION_NAME_LEN);
            (name.unwrap_or_default(), section)
        })
    }

    /// The first section of that name which has bytes in the file, and those bytes.
    pub(crate) fn section_named(&self, wanted: &str) -> Option<(&'data SectionHeader, &'data [u8])> {
        self.sections()
            .filter(|(name, _)| *name == wanted)
            .find_map(|(_, section)| Some((section, self.bytes(section)?)))
    }

    /// The section that `link` of another one names.
    pub(crate) fn section_at(&self, link: u32) -> Option<&'data SectionHeader> {
        self.section_headers.get(link as usize)
    }

    pub(crate) fn bytes(&self, section: &SectionHeader) -> Option<&'data [u8]> {
        section_bytes(self.data, section)
    }

    pub(crate) fn program_header(&self, kind: elf::ProgramType) -> Option<&'data ProgramHeader> {
        self.program_headers.iter().find(|header| header.p_type.get(LE) == kind)
    }
}

/// A section as the section header table describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section<'data> {
    /// Name, empty when unreadable.
    pub name: &'data str,
    /// Addresses it occupies; starts at 0 when it is not allocated.
    pub range: SvmaRange,
    /// Occupies memory at run time.
    pub is_allocated: bool,
    /// Contains instructions.
    pub is_executable: bool,
    /// Writable at run time.
    pub is_writable: bool,
    /// Holds bytes of its own in the file that are neither table nor note.
    pub is_program_data: bool,
}

impl<'data> Section<'data> {
    pub(crate) fn new(name: &'data str, header: &SectionHeader) -> Section<'data> {
        let flags = header.sh_flags.get(LE);
        let start = Svma(header.sh_addr.get(LE));
        Section {
            name,
            range: SvmaRange::at(start, header.sh_size.get(LE)).unwrap_or(SvmaRange { start, end: start }),
            is_allocated: flags.contains(elf::SHF_ALLOC),
            is_executable: flags.contains(elf::SHF_EXECINSTR),
            is_writable: flags.contains(elf::SHF_WRITE),
            is_program_data: matches!(
                header.sh_type.get(LE),
                elf::SHT_PROGBITS | elf::SHT_INIT_ARRAY | elf::SHT_FINI_ARRAY | elf::SHT_PREINIT_ARRAY
            ),
        }
    }
}

/// The NUL-terminated string at `offset`, if it is UTF-8 and at most `max_len` bytes long.
pub(crate) fn c_string(table: &[u8], offset: usize, max_len: usize) -> Option<&str> {
    let rest = table.get(offset..)?;
    let window = rest.get(..max_len.saturating_add(1)).unwrap_or(rest);
    let len = window.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(window.get(..len)?).ok()
}

/// As many whole `T` as fit into `bytes`.
pub(crate) fn records<T: Pod>(bytes: &[u8]) -> &[T] {
    let count = bytes.len() / size_of::<T>();
    pod::slice_from_bytes(bytes, count).map_or(&[], |(records, _)| records)
}

fn identify(data: &[u8]) -> Result<&FileHeader, Error> {
    reject_foreign(data)?;
    let truncated = Error::Truncated { len: data.len() };
    let (&class, &encoding) = data.get(4).zip(data.get(5)).ok_or(truncated.clone())?;
    match elf::FileClass(class) {
        elf::ELFCLASS64 => {}
        elf::ELFCLASS32 => return Err(Error::Class32),
        _ => return Err(Error::UnknownClass(class)),
    }
    if elf::DataEncoding(encoding) == elf::ELFDATA2MSB {
        return Err(Error::BigEndian);
    }
    let (header, _) = pod::from_bytes::<FileHeader>(data).map_err(|()| truncated)?;
    let machine = header.e_machine.get(LE);
    if machine != elf::EM_X86_64 {
        return Err(Error::OtherMachine(machine.0));
    }
    match header.e_type.get(LE) {
        elf::ET_EXEC | elf::ET_DYN => Ok(header),
        elf::ET_CORE => Err(Error::Core),
        elf::ET_REL => Err(Error::Relocatable),
        other => Err(Error::UnknownType(other.0)),
    }
}

fn reject_foreign(data: &[u8]) -> Result<(), Error> {
    match data {
        [] => Err(Error::Empty),
        [0x7f, b'E', b'L', b'F', ..] => Ok(()),
        [b'#', b'!', rest @ ..] => {
            let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
            let line = line.get(..100).unwrap_or(line);
            Err(Error::Script { interpreter: String::from_utf8_lossy(line).trim().escape_debug().to_string() })
        }
        [b'!', b'<', b'a', b'r', b'c', b'h', b'>', ..] => Err(Error::Archive),
        _ => Err(Error::NotElf),
    }
}

/// The section header table, empty if the file has none; `None` if it is not where the header says.
fn section_headers<'data>(data: &'data [u8], header: &FileHeader) -> Option<&'data [SectionHeader]> {
    let offset = header.e_shoff.get(LE);
    if offset == 0 {
        return Some(&[]);
    }
    if usize::from(header.e_shentsize.get(LE)) != size_of::<SectionHeader>() {
        return None;
    }
    let table = records::<SectionHeader>(data.get(usize::try_from(offset).ok()?..)?);
    let count = match header.e_shnum.get(LE) {
        0 => table.first()?.sh_size.get(LE),
        count => u64::from(count),
    };
    table.get(..usize::try_from(count).ok()?)
}

fn program_headers<'data>(
    data: &'data [u8],
    header: &FileHeader,
    sections: &[SectionHeader],
) -> Option<&'data [ProgramHeader]> {
    let count = match header.e_phnum.get(LE) {
        0 => return Some(&[]),
        elf::PN_XNUM => sections.first()?.sh_info.get(LE),
        count => u32::from(count),
    };
    if usize::from(header.e_phentsize.get(LE)) != size_of::<ProgramHeader>() {
        return None;
    }
    let table = records::<ProgramHeader>(data.get(usize::try_from(header.e_phoff.get(LE)).ok()?..)?);
    table.get(..count as usize)
}

pub(crate) fn section_bytes<'data>(data: &'data [u8], section: &SectionHeader) -> Option<&'data [u8]> {
    if section.sh_type.get(LE) == elf::SHT_NOBITS {
        return None;
    }
    let start = usize::try_from(section.sh_offset.get(LE)).ok()?;
    data.get(start..start.checked_add(usize::try_from(section.sh_size.get(LE)).ok()?)?)
}
