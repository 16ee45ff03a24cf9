//! How long to wait for the agent: while its heart beats, and not for ever.

/// Time without a heartbeat after which the agent is taken for dead.
const MAX_SILENCE_NS: u64 = 2_000_000_000;
/// Longest wait for one answer.
const MAX_WAIT_NS: u64 = 30_000_000_000;
const FIRST_SLEEP_NS: u64 = 50_000;
const LAST_SLEEP_NS: u64 = 1_000_000;

/// A wait under way.
pub struct Patience {
    since_ns: u64,
    last_beat_ns: u64,
    heartbeat: u32,
    sleep_ns: u64,
}

impl Patience {
    pub fn new(now_ns: u64, heartbeat: u32) -> Patience {
        Patience { since_ns: now_ns, last_beat_ns: now_ns, heartbeat, sleep_ns: FIRST_SLEEP_NS }
    }

    /// How long to sleep before looking again. `None`: it is over.
    pub fn next_sleep_ns(&mut self, now_ns: u64, heartbeat: u32) -> Option<u64> {
        if heartbeat != self.heartbeat {
            self.heartbeat = heartbeat;
            self.last_beat_ns = now_ns;
        }
        let is_over = now_ns.saturating_sub(self.last_beat_ns) >= MAX_SILENCE_NS
            || now_ns.saturating_sub(self.since_ns) >= MAX_WAIT_NS;
        let sleep_ns = self.sleep_ns;
        self.sleep_ns = (sleep_ns * 2).min(LAST_SLEEP_NS);
        (!is_over).then_some(sleep_ns)
    }
}

/// Whether a counter that goes up, and at some time starts over, has come to `number`.
pub fn is_reached(counter: u32, number: u32) -> bool {
    counter.wrapping_sub(number) as i32 >= 0
}
