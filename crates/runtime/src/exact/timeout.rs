//! The timeout of a wait for the agent: it lasts while the agent's heart beats, and it gets on. A
//! large module may take a minute to translate, in which many small things get done.

/// Time without a heartbeat after which the agent is taken for dead. On a machine with much other
/// work it may not get to it for seconds.
const MAX_SILENCE_NS: u64 = 10_000_000_000;
/// Longest wait without progress.
const MAX_WAIT_NS: u64 = 60_000_000_000;
const FIRST_SLEEP_NS: u64 = 50_000;
const LAST_SLEEP_NS: u64 = 1_000_000;

/// Signs of life of the agent: numbers that change.
#[derive(Clone, Copy)]
pub struct Signs {
    pub heartbeat: u32,
    pub progress: u32,
}

/// The timeout of a wait under way.
pub struct Timeout {
    last_progress_ns: u64,
    last_beat_ns: u64,
    signs: Signs,
    sleep_ns: u64,
}

impl Timeout {
    pub fn new(now_ns: u64, signs: Signs) -> Timeout {
        Timeout { last_progress_ns: now_ns, last_beat_ns: now_ns, signs, sleep_ns: FIRST_SLEEP_NS }
    }

    /// Returns how long to sleep before looking again. `None`: it is over.
    pub fn next_sleep_ns(&mut self, now_ns: u64, signs: Signs) -> Option<u64> {
        if signs.heartbeat != self.signs.heartbeat {
            self.last_beat_ns = now_ns;
        }
        if signs.progress != self.signs.progress {
            self.last_progress_ns = now_ns;
        }
        self.signs = signs;
        let is_over = now_ns.saturating_sub(self.last_beat_ns) >= MAX_SILENCE_NS
            || now_ns.saturating_sub(self.last_progress_ns) >= MAX_WAIT_NS;
        let sleep_ns = self.sleep_ns;
        self.sleep_ns = (sleep_ns * 2).min(LAST_SLEEP_NS);
        (!is_over).then_some(sleep_ns)
    }
}

/// Returns whether a counter that goes up, and at some time starts over, has come to `number`.
pub fn is_reached(counter: u32, number: u32) -> bool {
    counter.wrapping_sub(number) as i32 >= 0
}
