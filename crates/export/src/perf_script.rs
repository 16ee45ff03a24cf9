//! The text of `perf script`: one record per sample, a header line and the stack, innermost frame
//! first.
//!
//! Read by stackcollapse-perf.pl, inferno, speedscope and the Firefox Profiler. A profile has no
//! samples, so they are made up: every context is given records of the event `cpu-clock` with
//! periods in nanoseconds, laid one after the other in time. Readers that add up periods or time
//! stamps get the exact CPU time of each context; those that count records get it in steps of about
//! 1/10 000 of the total.
//!
//! Readers split lines at blanks and parentheses. A path with blanks gets underscores instead; a
//! name that begins with a parenthesis, which they would skip, is put into the global namespace
//! (`::(anonymous namespace)::f`).

use std::io;

use profile::model::Function;
use profile::{Profile, Symbols};

use crate::labels::{KERNEL, Labels, one_line, program};
use crate::round::{apportion, whole};
use crate::stacks::{Place, Stacks, own_ns};

/// Records to spread the total CPU time over, roughly.
const N_RECORDS: f64 = 10_000.0;
const NS_PER_S: u64 = 1_000_000_000;

/// Writes user and kernel CPU time by context.
///
/// # Errors
/// If `out` fails.
pub fn write(profile: &Profile, symbols: &dyn Symbols, out: &mut dyn io::Write) -> io::Result<()> {
    let total_ns = profile.contexts.iter().map(|context| context.self_ns.value + context.kernel_ns.value).sum::<f64>();
    let mut script = Script {
        names: Labels::new(profile, symbols).all().iter().map(|name| symbol(name)).collect(),
        profile,
        header: header(profile),
        now_ns: 0,
        period_ns: whole(total_ns / N_RECORDS).max(1),
        out,
    };
    let stacks = Stacks::new(profile);
    for context in &profile.contexts {
        let (user_ns, kernel_ns) = own_ns(context);
        if user_ns == 0 && kernel_ns == 0 {
            continue;
        }
        let mut places = vec![Place::Kernel, stacks.entry(context)];
        places.extend(stacks.callers(context));
        script.records(&places[1..], user_ns)?;
        script.records(&places, kernel_ns)?;
    }
    Ok(())
}

struct Script<'a> {
    names: Vec<String>,
    profile: &'a Profile,
    header: String,
    now_ns: u64,
    period_ns: u64,
    out: &'a mut dyn io::Write,
}

impl Script<'_> {
    fn records(&mut self, places: &[Place], ns: u64) -> io::Result<()> {
        if ns == 0 {
            return Ok(());
        }
        let stack: String = places.iter().map(|&place| self.stack_line(place)).collect();
        let n_records = (ns / self.period_ns).max(1) as usize;
        for period_ns in apportion(ns, &vec![1.0; n_records]) {
            let (s, rest_ns) = (self.now_ns / NS_PER_S, self.now_ns % NS_PER_S);
            writeln!(self.out, "{} {s:5}.{rest_ns:09}: {period_ns:10} cpu-clock:", self.header)?;
            writeln!(self.out, "{stack}")?;
            self.now_ns = self.now_ns.saturating_add(period_ns);
        }
        Ok(())
    }

    fn stack_line(&self, place: Place) -> String {
        let Place::Code { function, address } = place else {
            return format!("{:16x} {KERNEL} ([kernel.kallsyms])\n", u64::MAX);
        };
        let Function { module, address: start, .. } = self.profile.functions[function.index()];
        let path = one_line(&self.profile.modules[module.index()].path).replace(' ', "_");
        let name = &self.names[function.index()];
        format!("{address:16x} {name}+{:#x} ({path})\n", address.saturating_sub(start))
    }
}

/// Command, process and thread; a profile does not know which thread ran a context, so all samples
/// are those of the first.
fn header(profile: &Profile) -> String {
    let (pid, tid) = profile.threads.first().map_or((1, 1), |thread| (thread.pid, thread.tid));
    format!("{} {pid}/{tid} [000]", one_line(program(profile)).replace(' ', "_"))
}

fn symbol(name: &str) -> String {
    let name = one_line(name);
    let name = name.trim();
    if name.starts_with('(') { format!("::{name}") } else { name.to_owned() }
}
