//! Memory files, mapped in the agent and handed to a target.
//!
//! A file is sized once and sealed: it can neither shrink, which would make the agent's next access
//! fatal, nor grow. It is sparse, so that the generous sizes of the layout cost only addresses. In
//! the agent it is mapped readable and writable for as long as the [`SharedMemory`] lives; the
//! descriptor goes to the target and is closed after that. Descriptors of memory that the target
//! has only to read or execute are opened read-only, so that it cannot even ask for more.
//!
//! The target may write to the memory at any time. Access is therefore through atomic integers
//! only: [`SharedMemory::words32`] and [`SharedMemory::words64`] are the two places where a pointer
//! becomes a reference.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use wire::PAGE;

/// What the target does with a memory file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Reads and writes.
    ReadWrite,
    /// Reads.
    Read,
    /// Reads and executes.
    Execute,
}

/// A whole memory file, mapped.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to no thread, and all access to it is by atomic operations.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// A new file of `len` bytes (a multiple of the page size) and the descriptor for the target.
    pub(crate) fn create(name: &str, len: u64, purpose: Use) -> io::Result<(SharedMemory, OwnedFd)> {
        let file = new_file(name, purpose)?;
        rustix::fs::ftruncate(&file, len)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let memory = SharedMemory::map(&file, len)?;
        let for_target = match purpose {
            Use::ReadWrite => file,
            Use::Read | Use::Execute => File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?.into(),
        };
        Ok((memory, for_target))
    }

    fn map(file: &OwnedFd, len: u64) -> io::Result<SharedMemory> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the address, so no memory of this process is replaced.
        let start =
            unsafe { rustix::mm::mmap(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, file.as_fd(), 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let memory = SharedMemory { start, len };
        // SAFETY: the range is exactly the mapping; the advice only keeps it out of core dumps and
        // of children. If it fails, nothing is lost.
        let _ = unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, Advice::LinuxDontDump) };
        // SAFETY: as above.
        let _ = unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, Advice::LinuxDontFork) };
        Ok(memory)
    }

    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }

    /// Returns the 32-bit words in a range of bytes; `None` if it leaves the memory or is not
    /// aligned.
    pub(crate) fn words32(&self, bytes: Range<u64>) -> Option<&[AtomicU32]> {
        let (start, len) = self.part(bytes, align_of::<AtomicU32>())?;
        // SAFETY: `part` has checked that the range lies in the mapping, which lives as long as
        // `self`, and is aligned. Any bit pattern is a valid `AtomicU32`, and nobody has a
        // non-atomic reference to the memory.
        Some(unsafe { std::slice::from_raw_parts(start.cast(), len / size_of::<AtomicU32>()) })
    }

    /// Returns the 64-bit words in a range of bytes; `None` if it leaves the memory or is not
    /// aligned.
    pub(crate) fn words64(&self, bytes: Range<u64>) -> Option<&[AtomicU64]> {
        let (start, len) = self.part(bytes, align_of::<AtomicU64>())?;
        // SAFETY: as in `words32`.
        Some(unsafe { std::slice::from_raw_parts(start.cast(), len / size_of::<AtomicU64>()) })
    }

    fn part(&self, bytes: Range<u64>, align: usize) -> Option<(*const u8, usize)> {
        let start = usize::try_from(bytes.start).ok()?;
        let len = usize::try_from(bytes.end.checked_sub(bytes.start)?).ok()?;
        let inside = start.checked_add(len)? <= self.len;
        if !inside || start % align != 0 || len % align != 0 {
            return None;
        }
        // SAFETY: `start` is at most the length of the mapping.
        Some((unsafe { self.start.as_ptr().add(start) }, len))
    }

    /// Returns the 32-bit word at an offset that the caller knows to be inside, because it comes
    /// from a layout and not from the target.
    pub(crate) fn word32(&self, at: u64) -> &AtomicU32 {
        self.words32(at..at + 4).and_then(<[_]>::first).expect("an offset of the layout")
    }

    /// The same, for 64 bits.
    pub(crate) fn word64(&self, at: u64) -> &AtomicU64 {
        self.words64(at..at + 8).and_then(<[_]>::first).expect("an offset of the layout")
    }

    /// Has the kernel provide the pages of a range in one go, which is several times cheaper than
    /// one fault for each. Without it, they come by faults.
    pub(crate) fn populate(&self, bytes: Range<u64>) {
        let pages = bytes.start / PAGE * PAGE..bytes.end.next_multiple_of(PAGE).min(self.len());
        let Some((start, len)) = self.part(pages, 1) else { return };
        // SAFETY: the range lies in the mapping, whose contents do not change.
        let _ = unsafe { rustix::mm::madvise(start.cast_mut().cast(), len, Advice::LinuxPopulateWrite) };
    }

    /// What has been written to a range is for the target: its pages stay in the file, but are no
    /// longer counted as memory of this process.
    pub(crate) fn let_go(&self, bytes: Range<u64>) {
        let pages = bytes.start / PAGE * PAGE..bytes.end.next_multiple_of(PAGE).min(self.len());
        let Some((start, len)) = self.part(pages, 1) else { return };
        // SAFETY: the range lies in the mapping, which is shared: its contents are those of the
        // file, and come back by faults.
        let _ = unsafe { rustix::mm::madvise(start.cast_mut().cast(), len, Advice::LinuxDontNeed) };
    }

    /// Makes a range read as zeros and gives its whole pages back. Readers see each word as it was
    /// or as zero.
    pub(crate) fn clear(&self, bytes: Range<u64>) -> io::Result<()> {
        let pages = bytes.start.next_multiple_of(PAGE)..bytes.end / PAGE * PAGE;
        let edges = if pages.start < pages.end {
            let (start, len) = self.part(pages.clone(), 1).ok_or(io::ErrorKind::InvalidInput)?;
            // SAFETY: the range lies in the mapping; removing its pages leaves it mapped, with
            // zeros as contents.
            unsafe { rustix::mm::madvise(start.cast_mut().cast(), len, Advice::LinuxRemove)? };
            [bytes.start..pages.start, pages.end..bytes.end]
        } else {
            [bytes.clone(), bytes.end..bytes.end]
        };
        for edge in edges {
            let words = self.words32(edge).ok_or(io::ErrorKind::InvalidInput)?;
            words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
        Ok(())
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the range is exactly what `map` mapped, and no reference into it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Says what the file is for, which some systems insist on; kernels before 6.3 do not know the
/// words.
fn new_file(name: &str, purpose: Use) -> io::Result<OwnedFd> {
    let basic = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let spoken = if purpose == Use::Execute { MemfdFlags::EXEC } else { MemfdFlags::NOEXEC_SEAL };
    match rustix::fs::memfd_create(name, basic | spoken) {
        Err(rustix::io::Errno::INVAL) => Ok(rustix::fs::memfd_create(name, basic)?),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_let_go_is_still_there() {
        let (memory, _file) = SharedMemory::create("test", 2 * PAGE, Use::Read).unwrap();
        memory.word32(8).store(5, Ordering::Relaxed);
        memory.word32(PAGE).store(6, Ordering::Relaxed);
        memory.let_go(4..PAGE + 4);
        assert_eq!([8, PAGE].map(|at| memory.word32(at).load(Ordering::Relaxed)), [5, 6]);
    }

    #[test]
    fn words_stay_inside() {
        let (memory, _file) = SharedMemory::create("test", 2 * PAGE, Use::Read).unwrap();
        assert_eq!(memory.words32(0..2 * PAGE).unwrap().len(), 2048);
        assert!(memory.words32(0..2 * PAGE + 4).is_none());
        assert!(memory.words32(2..6).is_none());
        assert!(memory.words64(4..12).is_none());
        assert!(memory.words64(u64::MAX - 7..u64::MAX).is_none());
        let backwards = Range { start: 8, end: 0 };
        assert!(memory.words64(backwards).is_none());
    }

    #[test]
    fn cleared_range_is_zero_and_its_neighbours_are_not() {
        let (memory, _file) = SharedMemory::create("test", 8 * PAGE, Use::Read).unwrap();
        let all = memory.words32(0..8 * PAGE).unwrap();
        for range in [100..104, 4..4092, 8..2 * PAGE, PAGE - 4..5 * PAGE + 4, 0..8 * PAGE] {
            all.iter().for_each(|word| word.store(7, Ordering::Relaxed));
            memory.clear(range.clone()).unwrap();
            for (index, word) in all.iter().enumerate() {
                let expected = if range.contains(&(4 * index as u64)) { 0 } else { 7 };
                assert_eq!(word.load(Ordering::Relaxed), expected, "word {index} of {range:?}");
            }
        }
    }

    #[test]
    fn the_target_can_neither_shrink_the_file_nor_write_what_it_only_reads() {
        let (_memory, read_write) = SharedMemory::create("test", PAGE, Use::ReadWrite).unwrap();
        assert!(rustix::fs::ftruncate(&read_write, 0).is_err());
        for purpose in [Use::Read, Use::Execute] {
            let (_memory, file) = SharedMemory::create("test", PAGE, purpose).unwrap();
            assert!(rustix::io::write(&file, b"x").is_err());
        }
    }
}
