//! Chrome's trace event format, for Perfetto, chrome://tracing and speedscope.
//!
//! A profile has no time line. Calling contexts are laid out as one: an event spans what a context
//! and everything below it cost; the events of its callees come first and one after the other, then
//! its own user time, then its kernel time as an event `[kernel]`. Widths are true, positions mean
//! nothing. Times are microseconds with three decimals. Arguments hold entries and the time of the
//! context itself.

use std::io;

use profile::model::Context;
use profile::{Profile, Symbols};
use serde::Serialize;
use serde_json::Number;

use crate::labels::{KERNEL, Labels, program};
use crate::round::whole;
use crate::stacks::{inclusive, own_ns};

/// Writes contexts as nested complete events.
///
/// # Errors
/// If `out` fails.
pub fn write(profile: &Profile, symbols: &dyn Symbols, out: &mut dyn io::Write) -> io::Result<()> {
    let labels = Labels::new(profile, symbols);
    let (pid, tid) = profile.threads.first().map_or((1, 1), |thread| (thread.pid, thread.tid));
    let facts = serde_json::to_string(&profile.facts)?;
    let name = serde_json::to_string(program(profile))?;
    writeln!(out, r#"{{"displayTimeUnit":"ms","otherData":{facts},"traceEvents":["#)?;
    write!(out, r#"{{"name":"process_name","ph":"M","pid":{pid},"tid":{tid},"args":{{"name":{name}}}}}"#)?;
    for (context, place) in profile.contexts.iter().zip(layout(profile)) {
        let (user_ns, kernel_ns) = own_ns(context);
        let event = Event {
            name: labels.function(context.function),
            cat: "context",
            ph: "X",
            ts: microseconds(place.start_ns),
            dur: microseconds(place.duration_ns),
            pid,
            tid,
            args: Some(Arguments {
                module: &profile.modules[profile.functions[context.function.index()].module.index()].path,
                entries: whole(context.entries.value),
                self_us: microseconds(user_ns),
                kernel_us: microseconds(kernel_ns),
            }),
        };
        write!(out, ",\n{}", serde_json::to_string(&event)?)?;
        if kernel_ns != 0 {
            let ts = microseconds(place.start_ns + (place.duration_ns - kernel_ns));
            let event = Event { name: KERNEL, cat: "kernel", ts, dur: microseconds(kernel_ns), args: None, ..event };
            write!(out, ",\n{}", serde_json::to_string(&event)?)?;
        }
    }
    writeln!(out, "\n]}}")
}

#[derive(Serialize)]
struct Event<'a> {
    name: &'a str,
    cat: &'static str,
    ph: &'static str,
    ts: Number,
    dur: Number,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Arguments<'a>>,
}

#[derive(Serialize)]
struct Arguments<'a> {
    module: &'a str,
    entries: u64,
    self_us: Number,
    kernel_us: Number,
}

/// Where an event is on the made-up time line.
struct Span {
    start_ns: u64,
    duration_ns: u64,
}

/// Parents come before children, so that one pass gives each its place behind its elder siblings.
fn layout(profile: &Profile) -> Vec<Span> {
    let total = |context: &Context| own_ns(context).0.saturating_add(own_ns(context).1);
    let mut next_root_ns = 0_u64;
    let mut next_child_ns = vec![0_u64; profile.contexts.len()];
    let mut spans = Vec::with_capacity(profile.contexts.len());
    for (index, duration_ns) in inclusive(profile, total).into_iter().enumerate() {
        let next = match profile.contexts[index].parent {
            Some(parent) => &mut next_child_ns[parent.index()],
            None => &mut next_root_ns,
        };
        let start_ns = *next;
        *next = start_ns.saturating_add(duration_ns);
        next_child_ns[index] = start_ns;
        spans.push(Span { start_ns, duration_ns });
    }
    spans
}

/// Every count of nanoseconds below 2^53 has a distinct value, of which the shortest decimal form
/// has at most three decimals.
fn microseconds(ns: u64) -> Number {
    Number::from_f64(ns as f64 / 1e3).unwrap_or(Number::from(0))
}
