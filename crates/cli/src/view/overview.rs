//! `strobe report`: what a recording says at a glance.

use std::collections::BTreeMap;

use profile::model::{ContextId, FunctionId};
use profile::query::{self, PathRank, PathRow};
use profile::{Estimate, Profile};
use serde::Serialize;

use crate::figures::Figure;
use crate::view::contexts::stack;
use crate::view::paths::extent;
use crate::view::subject::{FunctionLabel, Place, Spot, Subject};

#[derive(Debug, Serialize)]
pub struct Overview {
    pub command: Option<String>,
    /// Whether nothing is known of times, as in exact recordings: then functions are ranked by
    /// instructions, paths by flow, contexts by entries.
    pub is_timeless: bool,
    /// Ticks that samples of paths were taken at, if that is what counts are.
    #[serde(skip)]
    pub n_sampling_ticks: Option<u64>,
    /// The count of checks that started bursts, if one did: then nothing is exact, either.
    #[serde(skip)]
    pub trigger: Option<String>,
    pub time: Time,
    pub cost: Cost,
    pub coverage: Coverage,
    pub n_system_call_sites: usize,
    pub system_calls: Vec<SystemCallLine>,
    pub n_functions: usize,
    pub functions: Vec<FunctionLine>,
    pub n_paths: usize,
    pub paths: Vec<PathSummary>,
    pub n_contexts: usize,
    pub contexts: Vec<ContextLine>,
}

#[derive(Debug, Serialize)]
pub struct Time {
    pub cpu_ns: Figure,
    /// By the kernel's account of the run, if it is known; otherwise by ticks.
    pub user_share: Figure,
    pub kernel_share: Figure,
    /// Time of system calls, by ticks, with the way into the kernel and back, of which the kernel
    /// counts a part as user time. The rest of its time is page faults and interrupts.
    pub system_calls_share: Figure,
    /// CPU time that no tick stands for.
    pub not_sampled_ns: f64,
    pub elapsed_s: Option<f64>,
    /// Time in which no thread ran, at least.
    pub off_cpu_at_least_s: Option<f64>,
    pub n_threads: usize,
}

/// What recording cost, in percent of the program's CPU time.
#[derive(Debug, Serialize)]
pub struct Cost {
    pub percent: Option<f64>,
    pub ticks_percent: Option<f64>,
    pub bursts_percent: Option<f64>,
    pub starts_percent: Option<f64>,
    pub spots_percent: Option<f64>,
    /// CPU time of strobe itself.
    pub agent_cpu_s: Option<f64>,
}

/// What the figures rest on.
#[derive(Debug, Serialize)]
pub struct Coverage {
    /// Ticks by what came of them.
    pub ticks: BTreeMap<String, u64>,
    pub bursts: Option<f64>,
    /// Ticks in code with a file that led to a burst.
    pub hit_percent: Option<f64>,
    /// Path ends that are on no path, as a share of all.
    pub unobserved_share: Figure,
    /// What something that was not seen can have counted while bursts could see it.
    pub unseen_at_most: f64,
    /// CPU time in which no burst could start, as a share of all.
    pub unwatched_share: f64,
    /// Counts are right within this factor. Ratios within a function do not depend on it.
    pub scale_factor: f64,
    /// Of an exact recording: what was not counted.
    pub not_counted: Option<NotCounted>,
}

/// User CPU time in code that an exact recording has not counted, by ticks.
#[derive(Debug, Serialize)]
pub struct NotCounted {
    /// As a share of all.
    pub share: Figure,
    /// Times that threads left the copies.
    pub excursions: Option<f64>,
    /// The same in words.
    pub text: String,
}

#[derive(Debug, Serialize)]
pub struct SystemCallLine {
    pub module: String,
    pub spot: Spot,
    /// The function that the instruction is in.
    pub function: String,
    pub n_contexts: u32,
    pub kernel_ns: Figure,
    pub share: Figure,
}

#[derive(Debug, Serialize)]
pub struct FunctionLine {
    pub function: FunctionLabel,
    pub self_ns: Figure,
    pub self_share: Figure,
    pub kernel_ns: Figure,
    pub total_share: Figure,
    pub instructions: Figure,
    pub instruction_share: Figure,
    pub entries: Figure,
}

#[derive(Debug, Serialize)]
pub struct PathSummary {
    pub function: FunctionLabel,
    pub first: Option<Spot>,
    pub last: Option<Spot>,
    pub n_blocks: usize,
    pub n_branches: u32,
    pub self_ns: Figure,
    pub time_share: Figure,
    pub flow_share: Figure,
    pub count: Figure,
    pub share_of_function: Figure,
}

#[derive(Debug, Serialize)]
pub struct ContextLine {
    /// Names from the root on.
    pub stack: Vec<String>,
    /// User and kernel time in the context itself.
    pub own_ns: Figure,
    pub entries: Figure,
    /// Of CPU time; of all entries, if times are not known.
    pub share: Figure,
}

pub fn view(subject: &mut Subject, n: usize) -> Overview {
    let profile = &subject.profile;
    let is_timeless = query::is_timeless(profile);
    let mut functions = query::functions(profile);
    functions.retain(|row| match is_timeless {
        true => 0.0 < row.instructions.value,
        false => 0.0 < row.self_ns.value + row.kernel_ns.value,
    });
    let mut paths = query::paths(profile, None, if is_timeless { PathRank::Flow } else { PathRank::Time });
    let mut sites = query::system_call_sites(profile);
    let (n_functions, n_paths, n_system_call_sites) = (functions.len(), paths.len(), sites.len());
    functions.truncate(n);
    paths.truncate(n);
    sites.truncate(n);
    let mut contexts = hot_contexts(profile, is_timeless);
    let n_contexts = contexts.len();
    contexts.truncate(n);
    let stacks: Vec<Vec<FunctionId>> = contexts.iter().map(|&(id, _)| stack(profile, id)).collect();
    let site_places: Vec<Place> = sites.iter().filter_map(|site| Some((site.module?, before(site.address)))).collect();
    let places: Vec<Place> = paths.iter().flat_map(|row| extent(subject, row.path)).chain(site_places).collect();
    let named = functions.iter().map(|row| row.function).chain(paths.iter().map(|row| row.function));
    let named: Vec<FunctionId> = named.chain(stacks.iter().flatten().copied()).collect();
    subject.resolve(named, places);
    let profile = &subject.profile;
    let cpu_ns = query::totals(profile).cpu_ns;
    let all_entries: Estimate = profile.contexts.iter().map(|row| row.entries).sum();
    Overview {
        command: profile.facts.get("command").cloned(),
        is_timeless,
        n_sampling_ticks: profile.facts.get("sampling_ticks").and_then(|number| number.parse().ok()),
        trigger: profile.facts.get("trigger").cloned(),
        time: time(profile),
        cost: cost(profile),
        coverage: coverage(profile),
        n_system_call_sites,
        system_calls: sites.iter().map(|site| system_call(subject, site)).collect(),
        n_functions,
        functions: functions.iter().map(|row| function(subject, row)).collect(),
        n_paths,
        paths: paths.iter().map(|row| path(subject, row)).collect(),
        n_contexts,
        contexts: contexts
            .iter()
            .zip(stacks)
            .map(|(&(id, heat), stack)| {
                let row = &profile.contexts[id.index()];
                ContextLine {
                    stack: stack.into_iter().map(|id| subject.label(id).short()).collect(),
                    own_ns: (row.self_ns + row.kernel_ns).into(),
                    entries: row.entries.into(),
                    share: query::share(heat, if is_timeless { all_entries } else { cpu_ns }).into(),
                }
            })
            .collect(),
    }
}

/// By time in the context itself, or by entries.
fn hot_contexts(profile: &Profile, is_timeless: bool) -> Vec<(ContextId, Estimate)> {
    let contexts = profile.contexts.iter().enumerate();
    let own = contexts.map(|(index, row)| {
        (ContextId(index as u32), if is_timeless { row.entries } else { row.self_ns + row.kernel_ns })
    });
    let mut own: Vec<(ContextId, Estimate)> = own.filter(|(_, heat)| 0.0 < heat.value).collect();
    own.sort_by(|(_, a), (_, b)| b.value.total_cmp(&a.value));
    own
}

/// Inside the instruction that ends at an address.
fn before(address: u64) -> u64 {
    address.saturating_sub(1)
}

fn number(profile: &Profile, fact: &str) -> Option<f64> {
    profile.facts.get(fact)?.parse().ok()
}

fn time(profile: &Profile) -> Time {
    let totals = query::totals(profile);
    let elapsed_s = number(profile, "elapsed_s");
    Time {
        cpu_ns: totals.cpu_ns.into(),
        user_share: query::share(totals.user_ns, totals.cpu_ns).into(),
        kernel_share: query::share(totals.kernel_ns, totals.cpu_ns).into(),
        system_calls_share: query::share(totals.system_calls_ns, totals.cpu_ns).into(),
        not_sampled_ns: totals.not_sampled_ns,
        elapsed_s,
        off_cpu_at_least_s: elapsed_s.map(|elapsed| (elapsed - totals.cpu_ns.value / 1e9).max(0.0)),
        n_threads: profile.threads.len(),
    }
}

fn cost(profile: &Profile) -> Cost {
    Cost {
        percent: number(profile, "cost_percent"),
        ticks_percent: number(profile, "cost_ticks_percent"),
        bursts_percent: number(profile, "cost_bursts_percent"),
        starts_percent: number(profile, "cost_starts_percent"),
        spots_percent: number(profile, "cost_spots_percent"),
        agent_cpu_s: number(profile, "agent_cpu_s"),
    }
}

fn coverage(profile: &Profile) -> Coverage {
    let observed: Estimate = profile.paths.iter().map(|path| path.count).sum();
    Coverage {
        ticks: profile.ticks.clone(),
        bursts: number(profile, "bursts"),
        hit_percent: number(profile, "hit_percent"),
        unobserved_share: query::share(profile.unobserved_flow, observed + profile.unobserved_flow).into(),
        unseen_at_most: profile.unseen_at_most,
        unwatched_share: unwatched_share(profile),
        scale_factor: query::scale_factor(profile),
        not_counted: not_counted(profile),
    }
}

fn not_counted(profile: &Profile) -> Option<NotCounted> {
    let text = profile.facts.get("not_counted")?.clone();
    let share = |name| number(profile, name).map(|percent| percent / 100.0);
    let ticks = ["exact_ticks_counted", "exact_ticks_file", "exact_ticks_no_file"];
    let seen = ticks.into_iter().filter_map(|name| number(profile, name)).sum::<f64>() as u64;
    // Nothing is known without ticks.
    let (value, margin) = share("not_counted_percent").zip(share("not_counted_margin_percent")).unwrap_or((0.0, 1.0));
    let excursions = number(profile, "native_excursions");
    Some(NotCounted { share: Figure { value, margin, seen }, excursions, text })
}

/// Ticks without a burst, and time without ticks.
fn unwatched_share(profile: &Profile) -> f64 {
    let totals = query::totals(profile);
    match totals.cpu_ns.value {
        cpu_ns if cpu_ns > 0.0 => (profile.unwatched_ns + totals.not_sampled_ns) / cpu_ns,
        _ => 0.0,
    }
}

fn system_call(subject: &Subject, site: &query::SystemCallSite) -> SystemCallLine {
    let place = site.module.map(|module| (module, before(site.address)));
    let name = place.map(|(module, address)| subject.symbolizer.function_name(module, address).demangled());
    let unknown = || Spot { address: crate::report::Address(image::Svma(site.address)), source: None };
    SystemCallLine {
        module: site.module.map(|module| subject.module_path(module).to_owned()).unwrap_or_default(),
        spot: place.map_or_else(unknown, |place| subject.spot(place)),
        function: name.unwrap_or_default(),
        n_contexts: site.n_contexts,
        kernel_ns: site.kernel_ns.into(),
        share: site.share.into(),
    }
}

fn function(subject: &Subject, row: &query::FunctionRow) -> FunctionLine {
    FunctionLine {
        function: subject.label(row.function),
        self_ns: row.self_ns.into(),
        self_share: row.self_share.into(),
        kernel_ns: row.kernel_ns.into(),
        total_share: row.total_share.into(),
        instructions: row.instructions.into(),
        instruction_share: row.instruction_share.into(),
        entries: row.entries.into(),
    }
}

fn path(subject: &Subject, row: &PathRow) -> PathSummary {
    let path = &subject.profile.paths[row.path.index()];
    let mut ends = extent(subject, row.path).into_iter().map(|place| subject.spot(place));
    PathSummary {
        function: subject.label(row.function),
        first: ends.next(),
        last: ends.next(),
        n_blocks: path.blocks.len(),
        n_branches: path.n_branches,
        self_ns: row.self_ns.into(),
        time_share: row.time_share.into(),
        flow_share: row.flow_share.into(),
        count: row.count.into(),
        share_of_function: row.share_of_function.into(),
    }
}
