//! `strobe doctor`: what this machine allows, what it costs here, and what to do about it.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use attach::probe::{System, TickCost};
use serde::Serialize;
use wire::control::TickSource;

use crate::metric;
use crate::progress::Progress;
use crate::record::hardware;

/// CPU time that each tick rate is measured for.
const PER_RATE: Duration = Duration::from_millis(150);
const TIMER_RATES_HZ: [u32; 2] = [100, 250];
const PERF_RATES_HZ: [u32; 3] = [250, 1000, 4000];

/// How good or bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Good,
    Limited,
    Bad,
}

#[derive(Debug, Serialize)]
struct Finding {
    topic: &'static str,
    verdict: Verdict,
    found: String,
    /// What the user can do; empty if nothing needs to be done.
    advice: String,
}

impl Finding {
    fn good(topic: &'static str, found: impl Into<String>) -> Finding {
        Finding { topic, verdict: Verdict::Good, found: found.into(), advice: String::new() }
    }

    fn limited(topic: &'static str, found: impl Into<String>, advice: &str) -> Finding {
        Finding { topic, verdict: Verdict::Limited, found: found.into(), advice: advice.to_owned() }
    }

    fn bad(topic: &'static str, found: impl Into<String>, advice: &str) -> Finding {
        Finding { topic, verdict: Verdict::Bad, found: found.into(), advice: advice.to_owned() }
    }
}

pub fn run(json: bool, out: &mut impl Write) -> Result<()> {
    let progress = Progress::new();
    progress.show("looking at the system");
    let system = attach::probe::system();
    let delivery_ns = attach::probe::delivery_ns().unwrap_or(0.0);
    progress.show("measuring POSIX timers");
    let timers = attach::probe::tick_costs(TickSource::PosixTimer, &TIMER_RATES_HZ, PER_RATE);
    progress.show("measuring perf events");
    let perf = attach::probe::tick_costs(TickSource::Perf, &PERF_RATES_HZ, PER_RATE);
    drop(progress);
    let mut findings = system_findings(&system);
    findings.push(Finding::good("signal", format!("delivering one costs {:.2} us", delivery_ns / 1e3)));
    findings.push(tick_finding("POSIX timers", &timers, "strobe needs one source of ticks; see perf events"));
    findings.push(tick_finding(
        "perf events",
        &perf,
        "rates above the kernel's timer frequency are not available; the rest works",
    ));
    findings.push(match attach::probe::breakpoint_ns() {
        Ok(ns) => Finding::good("breakpoints", format!("counting costs {:.1} us a hit", ns / 1e3)),
        Err(error) => Finding::limited(
            "breakpoints",
            error.to_string(),
            "counts of sampled profiles rest on a model of time; shares do not depend on it",
        ),
    });
    findings.push(expected_cost(timers.as_deref().unwrap_or_default(), perf.as_deref().unwrap_or_default()));
    if json {
        serde_json::to_writer_pretty(&mut *out, &findings)?;
        writeln!(out)?;
        return Ok(());
    }
    for finding in &findings {
        let mark = match finding.verdict {
            Verdict::Good => "ok     ",
            Verdict::Limited => "limited",
            Verdict::Bad => "bad    ",
        };
        writeln!(out, "{mark} {:<20} {}", finding.topic, finding.found)?;
        if !finding.advice.is_empty() {
            writeln!(out, "        {:<20} {}", "", finding.advice)?;
        }
    }
    Ok(())
}

fn system_findings(system: &System) -> Vec<Finding> {
    let unknown = || "not known".to_owned();
    let mut findings = vec![Finding::good("kernel", system.kernel_release.clone().unwrap_or_else(unknown))];
    findings.push(match system.perf_event_paranoid {
        Some(level @ 3..) => Finding::limited(
            "perf_event_paranoid",
            format!("{level}: perf events are refused"),
            "for rates above the kernel's timer frequency: sysctl kernel.perf_event_paranoid=2",
        ),
        Some(level) => Finding::good("perf_event_paranoid", format!("{level}: programs may watch themselves")),
        None => {
            Finding::limited("perf_event_paranoid", "no perf events in this kernel", "POSIX timers are used instead")
        }
    });
    findings.push(match system.ptrace_scope {
        Some(scope @ 2..) => Finding::limited(
            "ptrace_scope",
            format!("{scope}: processes of the same user are closed to each other"),
            "perf events for children may be refused; POSIX timers work",
        ),
        Some(scope) => Finding::good("ptrace_scope", scope.to_string()),
        None => Finding::good("ptrace_scope", "not restricted"),
    });
    findings.push(match system.memfd_noexec {
        Some(2..) => Finding::bad(
            "memfd_noexec",
            "executable memory files are forbidden: programs run unrecorded",
            "sysctl vm.memfd_noexec=1 or 0",
        ),
        Some(level) => Finding::good("memfd_noexec", format!("{level}: executable memory files are allowed")),
        None => Finding::good("memfd_noexec", "not restricted"),
    });
    findings.push(match system.has_shadow_stacks {
        true => Finding::bad(
            "shadow stacks",
            "on for this process: programs with shadow stacks run unrecorded",
            "run the program with GLIBC_TUNABLES=glibc.cpu.hwcaps=-SHSTK",
        ),
        false => Finding::good("shadow stacks", "off"),
    });
    findings.push(match system.seccomp {
        Some(0) | None => Finding::good("seccomp", "no filter"),
        Some(mode) => Finding::limited(
            "seccomp",
            format!("mode {mode}: some system calls may be refused"),
            "if programs run unrecorded, run strobe outside the sandbox",
        ),
    });
    findings.push(match system.has_pmu {
        true => Finding::good("PMU", "hardware counters are available"),
        false => Finding::good("PMU", "none; strobe needs none"),
    });
    findings.push(hardware_finding());
    findings.push(match system.has_fsgsbase {
        true => Finding::good("FSGSBASE", "available"),
        false => Finding::limited("FSGSBASE", "missing", "each tick costs one more system call"),
    });
    findings.push(match system.timer_hz {
        Some(hz) => Finding::good("timer frequency", format!("{hz} Hz: the highest rate of POSIX timers")),
        None => Finding::limited("timer frequency", unknown(), "the attained rate is printed after each recording"),
    });
    findings
}

/// Counters that `record --metric` knows by name.
fn hardware_finding() -> Finding {
    const TOPIC: &str = "hardware counters";
    let refused = metric::HARDWARE.iter().find_map(|each| {
        let error = attach::probe::hardware_counter(each.counter).err()?;
        Some(format!("{}: {}", each.name, hardware::meaning(&error)))
    });
    match refused {
        Some(refused) => Finding::limited(TOPIC, refused, "record --metric cycles and --metric l1d:16k:1:32 need none"),
        None => Finding::limited(
            TOPIC,
            "can be opened",
            "strobe does not record them yet: --metric cycles, or l1d:16k:1:32",
        ),
    }
}

fn tick_finding(topic: &'static str, costs: &attach::Result<Vec<TickCost>>, advice: &str) -> Finding {
    match costs {
        Ok(costs) => {
            let each: Vec<String> = costs
                .iter()
                .map(|cost| {
                    let us = cost.ns_per_tick / 1e3;
                    format!("asked {} Hz, got {:.0} Hz at {us:.1} us a tick", cost.asked_hz, cost.attained_hz)
                })
                .collect();
            Finding::good(topic, each.join("; "))
        }
        Err(error) => Finding::limited(topic, error.to_string(), advice),
    }
}

/// Ticks at the usual rate with the cheaper source; bursts take what the budget leaves.
fn expected_cost(timers: &[TickCost], perf: &[TickCost]) -> Finding {
    const USUAL_HZ: f64 = 100.0;
    let cheapest = |costs: &[TickCost]| costs.iter().map(|cost| cost.ns_per_tick.max(0.0)).reduce(f64::min);
    let sources = [("POSIX timers", cheapest(timers)), ("perf events", cheapest(perf))];
    let priced = sources.into_iter().filter_map(|(name, ns)| Some((name, ns?)));
    match priced.min_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((name, ns)) => Finding::good(
            "default budget",
            format!("1 %; ticks by {name} take {:.3} % of it at 100 Hz, bursts get the rest", ns * USUAL_HZ / 1e7),
        ),
        None => Finding::bad("default budget", "no source of ticks works here", "run strobe outside the sandbox"),
    }
}
