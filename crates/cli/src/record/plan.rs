//! From what was typed to what the recorder is asked to do.

use std::path::PathBuf;

use emit::Counting;
use recorder::{BurstProbe, Bursts, GuideFile, Mode, Noting, Pep, Plan, Sampling, Ticks, Window};
use wire::control::Policy;

use crate::props::{Exact, ExactProps, Probe, RecordProps, TickChoice};

/// Ticks per second of CPU time where a sample of paths is taken at each.
const PEP_RATE_HZ: f64 = 100.0;

/// Returns the plan of a recording of the program in a file.
pub fn plan(props: &RecordProps, program: PathBuf) -> Plan {
    let noting = (!props.noted.is_empty()).then(|| Noting {
        events: props.noted,
        selector: props.selector.clone(),
        tolerance: props.tolerance,
        compressor: props.compressor.clone(),
        stream: props.value_stream.clone(),
    });
    Plan {
        program,
        command: props.command.clone(),
        output: props.output.clone(),
        mode: mode(props),
        ticks: match props.tick_source {
            TickChoice::Auto => Ticks::Auto,
            TickChoice::Timer => Ticks::Timer,
            TickChoice::Perf => Ticks::Perf,
            TickChoice::Off => Ticks::Off,
        },
        stack_bytes: props.stack_bytes,
        seed: props.seed,
        window: Window {
            delay: props.window.delay,
            duration: props.window.duration,
            starts_paused: props.window.starts_paused,
        },
        modules: props.modules.clone(),
        threads: props.threads.clone(),
        follows: props.follow,
        noting,
        uses_cache: props.use_cache,
    }
}

fn mode(props: &RecordProps) -> Mode {
    let guide = props.guide.clone().map(|path| GuideFile { path, is_flipped: props.flip_guide });
    let sampling = Sampling { samples: props.samples, stride: props.stride, policy: props.policy };
    match props.exact {
        Some(ExactProps { what: Exact::SampledPaths, .. }) => {
            Mode::Pep(Pep { sampling, rate_hz: props.rate_hz.unwrap_or(PEP_RATE_HZ), guide })
        }
        Some(exact) => Mode::Exact(recorder::Exact { counting: counting(exact, props.per_call_site), guide }),
        None => Mode::Bursts(Bursts {
            budget: props.budget,
            rate_hz: props.rate_hz,
            length: props.burst_checks,
            sampling: (props.policy != Policy::Plain).then_some(sampling),
            probe: match props.probe {
                Probe::Trace => BurstProbe::Blocks,
                Probe::None => BurstProbe::Nothing,
                Probe::Off => BurstProbe::Off,
            },
            keeps_log: props.keep_trace,
            verifies: props.verify,
        }),
    }
}

/// Returns what copies count.
fn counting(exact: ExactProps, by_call_site: bool) -> Counting {
    let counting = match exact.what {
        Exact::Paths => exact.metric.map_or(Counting::Paths, Counting::PathMetric),
        Exact::HeaderPaths => Counting::HeaderPaths,
        Exact::SampledPaths => Counting::SampledPaths,
        Exact::Trace => Counting::TracedPaths,
        Exact::Blocks => Counting::Blocks,
        Exact::Contexts => Counting::contexts(false, exact.metric),
        Exact::ContextPaths => Counting::contexts(true, exact.metric),
        Exact::Nothing => Counting::Nothing,
    };
    if by_call_site { counting.by_call_site() } else { counting }
}
