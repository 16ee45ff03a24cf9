//! What a translation did, in numbers.

use std::ops::AddAssign;

use image::Svma;
use wire::sample::EndReason;

/// Number of [`EndReason`]s.
pub(crate) const N_REASONS: usize = EndReason::ALL.len();

/// What a translation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Functions with a copy.
    pub functions: u64,
    /// Blocks in them.
    pub blocks: u64,
    /// Original instructions in them.
    pub instructions: u64,
    /// Bytes of those instructions.
    pub original_bytes: u64,
    /// Bytes of the copy, literals and padding included.
    pub bytes: u64,
    /// Places that count down the checks of a burst.
    pub checks: u64,
    /// Probes that use a dead register.
    pub probes_dead_register: u64,
    /// Probes that save a register and restore it.
    pub probes_spilled: u64,
    /// Probes that save the flags, too.
    pub probes_flags_saved: u64,
    /// Places that note an event.
    pub events: u64,
    /// Places from which instructions read memory, and whose values are not noted although values
    /// are.
    pub loads_not_noted: u64,
    /// Conditional jumps that are not noted although such jumps are.
    pub branches_not_noted: u64,
    /// Accesses to memory that the data cache is told of, if one is simulated.
    pub accesses: u64,
    /// Those that it is not told of.
    pub accesses_not_simulated: u64,
    /// Places that leave the copy, by [`EndReason`].
    pub leaving: [u64; N_REASONS],
    /// Functions without a copy.
    pub skipped: Vec<Skipped>,
}

/// A function without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Where it starts.
    pub entry: Svma,
    /// Why it was skipped.
    pub reason: SkipReason,
}

/// Why a function has no copy.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    /// It contains a restartable sequence, which the kernel knows by its original addresses.
    RestartableSequence = 1,
    /// Part of it is more than 1 GiB away from the start of the image.
    OutOfRange = 2,
    /// Its bytes are not in the file.
    Unreadable = 3,
    /// The copy of the whole module would exceed 1 GiB.
    ModuleTooLarge = 4,
}

impl SkipReason {
    /// All reasons.
    pub const ALL: [SkipReason; 4] =
        [SkipReason::RestartableSequence, SkipReason::OutOfRange, SkipReason::Unreadable, SkipReason::ModuleTooLarge];

    /// The reason with this number.
    #[must_use]
    pub fn from_u8(number: u8) -> Option<SkipReason> {
        SkipReason::ALL.into_iter().find(|&each| each as u8 == number)
    }
}

impl Statistics {
    /// Functions that were skipped for this reason.
    #[must_use]
    pub fn skipped_for(&self, reason: SkipReason) -> usize {
        self.skipped.iter().filter(|skipped| skipped.reason == reason).count()
    }

    /// Places that leave the copy for this reason.
    #[must_use]
    pub fn leaving_for(&self, reason: EndReason) -> u64 {
        self.leaving[reason as usize]
    }

    /// All probes.
    #[must_use]
    pub fn probes(&self) -> u64 {
        self.probes_dead_register + self.probes_spilled + self.probes_flags_saved
    }
}

impl AddAssign<&Statistics> for Statistics {
    fn add_assign(&mut self, other: &Statistics) {
        self.functions += other.functions;
        self.blocks += other.blocks;
        self.instructions += other.instructions;
        self.original_bytes += other.original_bytes;
        self.bytes += other.bytes;
        self.checks += other.checks;
        self.probes_dead_register += other.probes_dead_register;
        self.probes_spilled += other.probes_spilled;
        self.probes_flags_saved += other.probes_flags_saved;
        self.events += other.events;
        self.loads_not_noted += other.loads_not_noted;
        self.branches_not_noted += other.branches_not_noted;
        self.accesses += other.accesses;
        self.accesses_not_simulated += other.accesses_not_simulated;
        for (total, more) in self.leaving.iter_mut().zip(other.leaving) {
            *total += more;
        }
        self.skipped.extend_from_slice(&other.skipped);
    }
}
