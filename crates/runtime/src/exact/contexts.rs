//! Calling contexts in exact mode: makes the entries that copies do not find.
//!
//! Only the gate writes to the table of a thread, with all signals blocked, and only that thread's
//! copies read it; see [`wire::exact`]. A copy comes here once for every context, so that walking
//! up the tree for recursion costs little.

use core::sync::atomic::Ordering::Relaxed;

use wire::exact::{
    CONTEXT_BYTES, CONTEXTS, CONTEXTS_BYTES, ContextEntry, LOST_CONTEXT, MAX_CONTEXT_ENTRIES, N_CONTEXT_ENTRIES,
    ROOT_CONTEXT, SPECIAL_KEYS, context_place, front_context_place, next_context_place,
};

use crate::bursts::twins;
use crate::exact::{PATH, thread_exit};
use crate::sys::own_memory;
use crate::threads::area::Area;

/// Makes the entry for the context that the calling thread's copy has not found.
pub fn make_wanted(area: &Area) {
    // SAFETY: the area is the calling thread's.
    let key = unsafe { (*area.raw()).exact.wanted_context };
    let table = Table { area };
    table.prepare();
    let caller = key as u32;
    let is_full = area.header().tables.n_context_entries.load(Relaxed) >= u64::from(MAX_CONTEXT_ENTRIES);
    if is_full && caller != LOST_CONTEXT {
        set_context(area, LOST_CONTEXT);
        return;
    }
    if let Some(place) = table.find_free(key) {
        let context = table.enclosing(caller, key >> 32).unwrap_or(place);
        table.write(place, ContextEntry { key, context, ..ContextEntry::default() });
        area.header().tables.n_context_entries.fetch_add(1, Relaxed);
    }
}

/// The calling thread's next function is called from this context.
pub fn set_context(area: &Area, context: u32) {
    let frame = area.header().exact.frame.load(Relaxed);
    area.header().exact.frame.store(frame & PATH | u64::from(context) << 32, Relaxed);
}

/// Finds out from where the calling thread calls that has run natively, and has its stack pointer
/// at `rsp`: functions that were active when it left copies may have returned. It is what the
/// innermost call has left that copies have made and that has not returned. Where there is none
/// near, nobody is known to call.
pub fn retake(area: &Area, rsp: u64) {
    const MAX_WORDS: usize = 512;
    let mut stack = [0; 8 * MAX_WORDS];
    let n_words = own_memory::copy(rsp, &mut stack) / 8;
    let words = stack.as_chunks().0.iter().take(n_words).map(|&word| u64::from_le_bytes(word));
    // A call leaves what it does for the stack pointer before the return address is pushed.
    let keys = (1..).map(|n_words: u64| rsp.wrapping_add(8 * n_words));
    let returns = words.zip(keys).filter(|&(word, _)| twins::behind_call(word).is_some());
    let frame = returns.into_iter().find_map(|(_, key)| thread_exit::frame_at(area.raw() as u64, key));
    set_context(area, frame.map_or(ROOT_CONTEXT, |frame| (frame >> 32) as u32));
}

/// The contexts of the calling thread.
struct Table<'a> {
    area: &'a Area,
}

impl Table<'_> {
    fn entry(&self, place: u32) -> *mut ContextEntry {
        debug_assert!(place < CONTEXTS_BYTES);
        let start = self.area.raw() as usize + CONTEXTS as usize;
        (start + place as usize) as *mut ContextEntry
    }

    fn read(&self, place: u32) -> ContextEntry {
        // SAFETY: in exact mode the area is large enough for the table, and nobody else writes to
        // it.
        unsafe { self.entry(place).read() }
    }

    fn write(&self, place: u32, entry: ContextEntry) {
        // SAFETY: as above; the thread's copies do not run meanwhile.
        unsafe { self.entry(place).write(entry) };
    }

    fn prepare(&self) {
        for (place, key) in [ROOT_CONTEXT, LOST_CONTEXT].into_iter().zip(SPECIAL_KEYS) {
            if self.read(place).key == 0 {
                self.write(place, ContextEntry { key, context: place, ..ContextEntry::default() });
            }
        }
    }

    /// Returns where the entry for the key is to be; nothing if it is there already, or there is no
    /// room at all.
    fn find_free(&self, key: u64) -> Option<u32> {
        let front = front_context_place(key);
        match self.read(front).key {
            0 => return Some(front),
            found if found == key => return None,
            _ => {}
        }
        let mut place = context_place(key);
        for _ in 0..N_CONTEXT_ENTRIES {
            match self.read(place).key {
                0 => return Some(place),
                found if found == key => return None,
                _ => place = next_context_place(place),
            }
        }
        None
    }

    /// Returns the context of the function among `context` and those around it.
    fn enclosing(&self, mut context: u32, function: u64) -> Option<u32> {
        for _ in 0..N_CONTEXT_ENTRIES {
            let is_place = context.is_multiple_of(CONTEXT_BYTES) && context < CONTEXTS_BYTES;
            if context == ROOT_CONTEXT || context == LOST_CONTEXT || !is_place {
                return None;
            }
            let key = self.read(context).key;
            if key >> 32 == function {
                return Some(context);
            }
            context = key as u32;
        }
        None
    }
}
