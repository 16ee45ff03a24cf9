//! What the verifier knows about a thread inside a probe.

use emit::Original;
use wire::sample::EndReason;
use wire::thread::offset;

use super::cache::{Access, Known as CacheKnown, Told};
use super::events::{Appended, Origin};
use super::exact::{Known, Outcome, Progress};
use super::liveness::Set;

/// What a register or a field of the thread's header holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Value {
    /// What the program has in that register; in a field for saved registers, what it has in the
    /// register.
    Program,
    /// Anything.
    #[default]
    Junk,
    Cursor,
    /// The cursor behind the record that has been written.
    NextCursor,
    Address(Original),
    /// Where an indirect transfer goes.
    Target,
    /// That, less the start of the cluster.
    TargetOffset(usize),
    Map(usize),
    MapEntry(usize),
    /// A map entry that is known to be that of a leader.
    LeaderEntry(usize),
    Twin,
    /// `lahf` has been executed.
    PartialFlags,
    /// `seto al`, too.
    PackedFlags,
    /// `add al, 0x7f` has restored the overflow flag.
    AddedFlags,
    TimeLow,
    TimeHigh,
    Time,
    NotStart,
    Duration,
    Cycles,
    NewCycles,
    Count,
    NewCount,
    CallNumber,
    LeaveTable,
    /// Whether the system call must leave.
    LeaveByte,
    PendingAddress,
    Pending,
    /// Where the next event goes, and where the one after that goes.
    EventPlace,
    NextEventPlace,
    /// What is to be appended to the buffer of events.
    Noted(Origin),
    /// What has to do with the data cache.
    Cache(CacheKnown),
    /// What only copies have that are never left.
    Exact(Known),
}

/// What the flags hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flags {
    Program,
    Junk,
    /// Overflow is the program's; `ah` has the others.
    Overflow,
    /// Cursor compared with limit.
    Limit,
    /// Offset of the target compared with the span of a cluster.
    Span(usize),
    /// Sign of an entry of the map.
    Sign(usize),
    /// Checks left.
    Checks,
    /// Zero: the buffer of events is full.
    EventsLeft,
    /// Not above: the access is in the line that was used last in its set.
    InLine(Access),
    /// What only copies compare that are never left.
    Exact(Outcome),
}

/// Fields of the thread's header that hold something for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Fields {
    pub saved_rax: Value,
    pub saved_rcx: Value,
    pub saved_rdx: Value,
    pub saved_flags: Value,
    pub target: Value,
    pub twin: Value,
    pub start: Value,
    pub end: Value,
    pub end_tsc: Value,
}

impl Fields {
    /// The field at an offset, with a number of the register that it saves.
    pub fn saved(&mut self, at: u32) -> Option<(&mut Value, usize)> {
        match at {
            offset::SAVED_RAX => Some((&mut self.saved_rax, RAX)),
            offset::SAVED_RCX => Some((&mut self.saved_rcx, RCX)),
            offset::SAVED_RDX => Some((&mut self.saved_rdx, RDX)),
            _ => None,
        }
    }

    /// The field of a time at an offset, and whether that is its upper half.
    pub fn time(&mut self, at: u32) -> Option<(&mut Value, bool)> {
        const START: u32 = offset::SYSTEM_CALL_START;
        const START_HIGH: u32 = START + 4;
        const END: u32 = offset::SYSTEM_CALL_END;
        const END_HIGH: u32 = END + 4;
        const END_TSC: u32 = offset::END_TSC;
        const END_TSC_HIGH: u32 = END_TSC + 4;
        match at {
            START | START_HIGH => Some((&mut self.start, at == START_HIGH)),
            END | END_HIGH => Some((&mut self.end, at == END_HIGH)),
            END_TSC | END_TSC_HIGH => Some((&mut self.end_tsc, at == END_TSC_HIGH)),
            _ => None,
        }
    }
}

pub(super) const RAX: usize = 0;
pub(super) const RCX: usize = 1;
pub(super) const RDX: usize = 2;
pub(super) const R11: usize = 11;

/// What of the program's state is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    /// Registers, as bits.
    registers: u16,
    /// Any of the flags that arithmetic changes.
    pub flags: bool,
}

impl Needs {
    pub const ALL: Needs = Needs { registers: u16::MAX, flags: true };
    /// At a system call, which overwrites `rcx` and `r11`.
    pub const AT_SYSTEM_CALL: Needs = Needs { registers: !(1 << RCX | 1 << R11), flags: true };

    pub fn of(live: Set) -> Needs {
        let registers = (0..16).filter(|&number| live.has_register(number)).fold(0, |bits, number| bits | 1 << number);
        Needs { registers, flags: live.has_flags() }
    }

    /// The same with flags needed or not.
    pub fn with_flags(self, flags: bool) -> Needs {
        Needs { flags, ..self }
    }

    pub fn register(self, number: usize) -> bool {
        self.registers >> number & 1 != 0
    }
}

/// Where the program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// About to execute this.
    At(Original),
    /// At the target of an indirect transfer, about to execute it.
    Target,
}

/// A jump that is as good an address as where it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alias {
    pub jump: Original,
    /// Whether it would jump elsewhere with other flags.
    pub needs_flags: bool,
}

/// An abstract state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub registers: [Value; 16],
    pub flags: Flags,
    pub fields: Fields,
    pub point: Point,
    /// Another address that is as good, because what is between the two changes nothing.
    pub alias: Option<Alias>,
    /// What of the program's state must be right.
    pub live: Needs,
    /// Why the burst must end, if it ends.
    pub why: Option<EndReason>,
    /// Why it says that it ends.
    pub end_reason: Option<EndReason>,
    pub has_ended: bool,
    /// The record is in the buffer, and the cursor behind it.
    pub written: Option<u32>,
    pub recorded: Option<u32>,
    pub looked_at_limit: bool,
    pub n_checks: u32,
    /// Clusters that the target is not in, as bits.
    pub not_in: u8,
    /// `rcx` of the program, where a system call has just set it.
    pub rcx_is: Option<Original>,
    /// What has been appended to the buffer of events.
    pub event: Appended,
    /// What the data cache has been told.
    pub told: Told,
    /// What a copy has done that is never left.
    pub exact: Progress,
}

impl State {
    /// The program's state, at `point`.
    pub fn clean(point: Point, live: Needs) -> State {
        State {
            registers: [Value::Program; 16],
            flags: Flags::Program,
            fields: Fields::default(),
            point,
            alias: None,
            live,
            why: None,
            end_reason: None,
            has_ended: false,
            written: None,
            recorded: None,
            looked_at_limit: false,
            n_checks: 0,
            not_in: 0,
            rcx_is: None,
            event: Appended::default(),
            told: Told::default(),
            exact: Progress::default(),
        }
    }

    /// Whether the program is at this address.
    pub fn is_at(&self, address: Value) -> bool {
        self.in_hand().is_at(address)
    }

    /// Whether all that is live is the program's.
    pub fn is_restored(&self) -> bool {
        self.in_hand().is_restored()
    }

    pub fn flags_are_right(&self) -> bool {
        self.in_hand().flags_are_right()
    }

    /// What a recovery may change, as it is.
    pub fn in_hand(&self) -> InHand<'_> {
        let [rax, rcx, rdx, ..] = self.registers;
        InHand { state: self, registers: [rax, rcx, rdx], flags: self.flags }
    }

    /// When `rcx` is what a system call makes it, it may be used like any other register that
    /// nobody needs.
    pub fn forget_rcx(&mut self) {
        let is_needed = self.live.register(RCX);
        self.rcx_is.take_if(|&mut next| !is_needed && self.registers[RCX] == Value::Address(next));
    }

    /// Whether `value` will do in the register.
    pub fn is_right(&self, number: usize, value: Value) -> bool {
        if let Some(rcx) = self.rcx_is.filter(|_| number == RCX) {
            return value == Value::Address(rcx);
        }
        matches!(value, Value::Program) || !self.live.register(number)
    }
}

/// A state in which the registers that probes use and the flags are others.
#[derive(Clone, Copy, Debug)]
pub(super) struct InHand<'s> {
    state: &'s State,
    /// `rax`, `rcx` and `rdx`.
    pub registers: [Value; 3],
    pub flags: Flags,
}

impl InHand<'_> {
    /// Whether the program is at this address.
    pub fn is_at(&self, address: Value) -> bool {
        match self.state.point {
            Point::At(at) => address == Value::Address(at) || self.is_at_alias(address),
            Point::Target => address == Value::Target,
        }
    }

    fn is_at_alias(&self, address: Value) -> bool {
        let has_flags = self.flags == Flags::Program && self.state.live.flags;
        let alias = self.state.alias;
        alias.is_some_and(|alias| address == Value::Address(alias.jump) && (has_flags || !alias.needs_flags))
    }

    /// Whether all that is live is the program's.
    pub fn is_restored(&self) -> bool {
        let others = self.state.registers.iter().skip(self.registers.len());
        let mut registers = self.registers.iter().chain(others).enumerate();
        self.flags_are_right() && registers.all(|(number, &value)| self.state.is_right(number, value))
    }

    fn flags_are_right(&self) -> bool {
        matches!(self.flags, Flags::Program) || !self.state.live.flags
    }
}
