//! From the builder's sums to the profile's tables.
//!
//! Rows are sorted by module and address where they have one. A row is made for what was seen, for
//! what these rows refer to, and for the direction of a seen branch that was never taken.
//!
//! Functions and contexts have the time of the ticks in them; [`times`] shares it out within a
//! function.

pub(super) mod accounting;
mod contexts;
mod flow;
mod loops;
mod tick_paths;
mod times;

use std::collections::BTreeMap;

use self::accounting::Accounting;
use self::flow::FlowRows;
use super::code_map::FunctionIdentity;
use super::events::Event;
use super::ids::FunctionKey;
use super::phases::{self, PhaseId};
use super::spot_fit::Fit;
use super::strata::Weights;
use super::time::TickTime;
use super::weights::Accounts;
use super::{Builder, Coverage, weights};
use crate::estimate::Estimate;
use crate::model::{Function, FunctionId, Profile};

/// Zero events seen are the lower end of a 95 % interval if this many were expected.
const RULE_OF_THREE: f64 = 3.0;

/// Share of the time that is believed to be the program's in any case.
const LEAST_UNWATCHED: f64 = 0.05;

/// The profile so far.
pub(super) fn profile(builder: &Builder) -> Profile {
    let known = &builder.tables.known;
    let functions = Functions::new(builder);
    let Estimated { estimates, unseen_at_most, scale_error, mix_error, is_measured, unknown_ns } =
        match builder.options.coverage {
            Coverage::Sampled => Estimated::by_time(builder),
            Coverage::Counted { weight } => Estimated::by_checks(builder, weight),
            Coverage::Complete => Estimated::of_all(builder),
        };
    let is_sampled = builder.options.coverage == Coverage::Sampled;
    let mut profile = Profile {
        facts: facts(builder, unknown_ns),
        modules: known.code.modules().cloned().collect(),
        functions: functions.rows(builder, &estimates),
        threads: builder.threads.clone(),
        ticks: ticks(builder),
        unseen_at_most,
        unwatched_ns: if is_sampled { builder.unwatched_ns } else { 0.0 },
        scale_error,
        mix_error,
        ..Profile::default()
    };
    let unobserved = known.events.find(Event::UnobservedFlow);
    let mut unobserved_flow = unobserved.map_or(Estimate::default(), |event| estimates[event.index()]);
    unobserved_flow.value = unobserved_flow.value.max(0.0);
    profile.unobserved_flow = unobserved_flow;
    let rows = FlowRows::new(builder, &functions, &estimates);
    rows.fill(&mut profile);
    let times = times::fill(&rows, &mut profile);
    if is_sampled && builder.options.times.is_modelled() && !is_measured {
        // Anything between as modelled and that much slower is as likely.
        profile.scale_error = profile.scale_error.hypot(times.slowness(&profile) / 3.0_f64.sqrt());
    }
    loops::fill(&rows, &times, &mut profile);
    // No stack is known where a count of checks starts a burst, and nothing of the callers.
    if !matches!(builder.options.coverage, Coverage::Counted { .. }) {
        contexts::fill(builder, &functions, &estimates, &mut profile);
    }
    profile
}

/// Ticks by what came of them. A count of checks starts bursts without any.
fn ticks(builder: &Builder) -> BTreeMap<String, u64> {
    match builder.options.coverage {
        Coverage::Counted { .. } => BTreeMap::new(),
        Coverage::Sampled | Coverage::Complete => {
            builder.outcomes.iter().map(|(&name, &count)| (name.to_owned(), count)).collect()
        }
    }
}

/// Counts of all events, and how far off they can be.
struct Estimated {
    /// By number of the event.
    estimates: Vec<Estimate>,
    unseen_at_most: f64,
    scale_error: f64,
    mix_error: f64,
    /// Spots have told how often code runs, so that it does not rest on how fast it is.
    is_measured: bool,
    /// Time that belongs to no stratum.
    unknown_ns: f64,
}

impl Estimated {
    /// From bursts that ticks started.
    fn by_time(builder: &Builder) -> Estimated {
        let known = &builder.tables.known;
        let Accounting { mut accounts, phases, mut slowness, unknown_ns } = Accounting::new(builder);
        let unwatched = unwatched_share(builder);
        let solve = |accounts: &Accounts| -> Vec<f64> {
            weights::solve(accounts, &phases).iter().map(|scale| scale * unwatched).collect()
        };
        let mut scales = solve(&accounts);
        let mut log_errors = vec![0.0; phases::count(&phases)];
        phases.iter().zip(&slowness).for_each(|(phase, slowness)| log_errors[phase.index()] = slowness.log_error);
        let measured = builder.correct_by_spots(&scales, &phases, &log_errors, &mut slowness);
        if measured.is_some() {
            accounts.duration_ns = builder.strata.durations_ns(&slowness);
            scales = solve(&accounts);
        }
        let is_measured = measured.is_some();
        let fit = measured.unwrap_or_else(|| Fit::unmeasured(&log_errors));
        let weigh = |scales: &[f64]| builder.strata.weigh(scales, &slowness, &phases, builder.user.n_ticks());
        let n_events = known.events.len();
        let is_edge = |event| matches!(known.events.get(event), Event::Edge { .. });
        let damped = builder.strata.damped(&weigh(&scales), n_events, is_edge);
        let weights = weigh(&damped.scales);
        let errors = weights.model_errors(&fit.covariance);
        // Weights of strata of one phase are wrong independently of each other, the more so for
        // events of few strata.
        let of_strata = accounts.model_noise * builder.strata.concentration(&weights, n_events);
        let mut estimates = builder.strata.estimates(&weights, n_events);
        damped.add_bias(&mut estimates);
        Estimated {
            estimates,
            unseen_at_most: unseen_at_most(&weights),
            scale_error: errors.scale,
            mix_error: errors.mix.hypot(of_strata.sqrt()),
            is_measured,
            unknown_ns,
        }
    }

    /// From bursts that a count of checks started: no time is known, and none is needed.
    fn by_checks(builder: &Builder, weight: f64) -> Estimated {
        let n_strata = builder.strata.burst_counts().len();
        let slowness = vec![builder.options.times.unmeasured(); n_strata];
        let weights =
            builder.strata.weigh(&vec![weight; n_strata], &slowness, &vec![PhaseId::default(); n_strata], 0.0);
        Estimated {
            estimates: builder.strata.estimates(&weights, builder.tables.known.events.len()),
            unseen_at_most: unseen_at_most(&weights),
            scale_error: 0.0,
            mix_error: 0.0,
            is_measured: false,
            unknown_ns: 0.0,
        }
    }

    /// From bursts that are all of the run.
    fn of_all(builder: &Builder) -> Estimated {
        Estimated {
            estimates: builder.strata.exact(builder.tables.known.events.len()),
            unseen_at_most: 0.0,
            scale_error: 0.0,
            mix_error: 0.0,
            is_measured: false,
            unknown_ns: 0.0,
        }
    }
}

/// What of the time between ticks was the program's own. Ticks and bursts make time pass, too.
pub(super) fn unwatched_share(builder: &Builder) -> f64 {
    let n_ticks: u64 = builder.outcomes.values().sum();
    let watch_ns = builder.strata.watch_ns() + n_ticks as f64 * builder.options.times.tick_ns;
    if builder.total.ns > 0.0 { (1.0 - watch_ns / builder.total.ns).max(LEAST_UNWATCHED) } else { 1.0 }
}

/// An event that was not seen is not expected more than three times in the bursts, with 95 %
/// confidence, and each of these stands for as many events as the weight of its stratum says. The
/// bound is for code that 95 % of the time is spent in: a function that one short burst was taken
/// from has a weight without meaning. Events that come in clumps can be more: a burst that misses
/// one misses all.
fn unseen_at_most(weights: &Weights) -> f64 {
    RULE_OF_THREE * weights.scale_of_most()
}

fn facts(builder: &Builder, unseen_ns: f64) -> BTreeMap<String, String> {
    let numbers = [
        ("estimator.bursts", builder.strata.n_bursts() as f64),
        ("estimator.records", builder.n_records as f64),
        ("estimator.strata", builder.strata.places().count() as f64),
        ("estimator.user_ns", builder.user.ns),
        ("estimator.user_ns_in_code_without_bursts", unseen_ns),
    ];
    numbers.into_iter().map(|(name, number)| (name.to_owned(), format!("{number:.0}"))).collect()
}

/// The functions of a profile.
#[derive(Debug)]
pub(super) struct Functions {
    /// By [`FunctionKey`].
    identities: Vec<FunctionIdentity>,
    /// Sorted by module and address.
    distinct: Vec<FunctionIdentity>,
}

impl Functions {
    fn new(builder: &Builder) -> Functions {
        let identities = builder.tables.known.code.identities();
        let mut distinct = identities.clone();
        distinct.sort_unstable();
        distinct.dedup_by_key(|identity| (identity.module, identity.address));
        Functions { identities, distinct }
    }

    pub fn id(&self, key: FunctionKey) -> FunctionId {
        let FunctionIdentity { module, address, .. } = self.identities[key.index()];
        let key = |identity: &FunctionIdentity| (identity.module, identity.address);
        FunctionId(self.distinct.partition_point(|identity| key(identity) < (module, address)) as u32)
    }

    fn rows(&self, builder: &Builder, estimates: &[Estimate]) -> Vec<Function> {
        let row = |&FunctionIdentity { module, address, size }: &FunctionIdentity| {
            let (entries, self_ns) = (Estimate::default(), Estimate::default());
            Function { module, address, size, name: String::new(), entries, self_ns }
        };
        let mut rows: Vec<Function> = self.distinct.iter().map(row).collect();
        for (event, what) in builder.tables.known.events.iter() {
            if let Event::Entry(function) = what {
                rows[self.id(function).index()].entries += estimates[event.index()];
            }
        }
        let mut times = vec![TickTime::default(); rows.len()];
        for (region, &time) in &builder.region_time {
            times[self.id(region.function).index()] += time;
        }
        for (row, time) in rows.iter_mut().zip(times) {
            row.self_ns = builder.total.estimate(time);
        }
        rows
    }
}
