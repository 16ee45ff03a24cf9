//! Messages about programs that run unrecorded because they would not survive recording: the
//! program, the reason, and an alternative, because an empty profile explains nothing.

use recorder::LeftAlonePrograms;
use wire::hello::LeftAlone;

/// Returns a line for each program, without advice.
pub fn lines(programs: &LeftAlonePrograms) -> impl Iterator<Item = String> {
    programs.all().map(|(name, reason, n)| {
        let times = if n == 1 { String::new() } else { format!(" ({n} processes)") };
        format!("{name}{times}: {}", why(reason))
    })
}

/// Returns a line for each program, with what to do.
pub fn warnings(programs: &LeftAlonePrograms) -> impl Iterator<Item = String> {
    programs.all().map(|(name, reason, _)| format!("{name} is left alone: {}; {}", why(reason), advice(reason)))
}

fn why(reason: LeftAlone) -> &'static str {
    match reason {
        LeftAlone::Go => "it contains Go's runtime, which ends the program at a signal of strobe",
        LeftAlone::Lisp => "it is SBCL, whose runtime ends the program at a signal of strobe",
        LeftAlone::Filter => "it installs a seccomp filter, which may forbid what strobe does in the program",
        LeftAlone::TickSignal => "it handles SIGURG, the signal of ticks, behind strobe's back",
    }
}

fn advice(reason: LeftAlone) -> &'static str {
    match reason {
        LeftAlone::Go => "it ran as if strobe were not there; profile it with runtime/pprof or perf",
        LeftAlone::Lisp => "it ran as if strobe were not there; profile it with sb-sprof or perf",
        LeftAlone::Filter => {
            "from then on it ran as if strobe were not there; record it with its sandbox turned off, or use perf"
        }
        LeftAlone::TickSignal => "from then on it ran as if strobe were not there; use perf",
    }
}
