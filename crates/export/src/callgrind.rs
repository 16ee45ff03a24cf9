//! The profile format of Callgrind, for KCachegrind and `callgrind_annotate`.
//!
//! Events are `Ns` (user CPU time), `Sys` (kernel CPU time, both in nanoseconds) and `Ir`
//! (instructions executed, from block counts). Costs stand at the first instruction of each block,
//! with its address and source line, as `--dump-instr=yes` would; kernel time stands at the first
//! instruction of the function. Code inlined from another file stays with the function that it was
//! inlined into (`fi=`).
//!
//! Inclusive costs of calls come from the contexts: what the callee and everything below it cost
//! under this caller, divided over the caller's call sites by how often each calls. Instructions
//! are counted by function, not by context; a context gets its share by entries. A recursive call
//! has no inclusive cost of its own, since the profile folds recursion.
//!
//! Readers take the line behind `calls=0` for the caller's own cost. So a call that has cost
//! something has a count of 1 at least, also where none was seen: ticks find stacks whose calls
//! were made before anybody counted. A comment at the top says so, and how many calls that is.

use std::collections::BTreeMap;
use std::io;

use profile::model::{Context, FunctionId};
use profile::{Profile, Symbols};

use crate::costs::Costs;
use crate::labels::{Labels, one_line, program};
use crate::round::{apportion, whole};
use crate::stacks::{Place, Stacks, inclusive, last_address, own_ns};

/// `Ns`, `Sys`, `Ir`.
type Cost = [u64; 3];

/// Writes costs by function and block, and calls with what they cost.
///
/// # Errors
/// If `out` fails.
pub fn write(profile: &Profile, symbols: &dyn Symbols, out: &mut dyn io::Write) -> io::Result<()> {
    let costs = Costs::new(profile);
    let own = own_costs(profile, &costs);
    let calls = calls(profile, &costs);
    let mut total = Cost::default();
    own.iter().flat_map(BTreeMap::values).for_each(|cost| add(&mut total, cost));
    let n_uncounted = calls.iter().flatten().filter(|call| call.is_uncounted).count();
    header(profile, &total, n_uncounted, out)?;
    let labels = Labels::new(profile, symbols);
    let mut writer = Writer {
        profile,
        symbols,
        labels,
        objects: Names::default(),
        files: Names::default(),
        names: Names::default(),
        out,
    };
    for (function, (own, calls)) in (0..).map(FunctionId).zip(own.iter().zip(&calls)) {
        if !own.is_empty() || !calls.is_empty() {
            writer.function(function, own, calls)?;
        }
    }
    writeln!(out, "\ntotals: {}", spaced(&total))
}

fn header(profile: &Profile, total: &Cost, n_uncounted: usize, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "# callgrind format\nversion: 1\ncreator: strobe")?;
    if n_uncounted > 0 {
        writeln!(
            out,
            "# {n_uncounted} lines have calls=1 for calls that are known by what they cost, but were not counted"
        )?;
    }
    writeln!(out, "cmd: {}", one_line(profile.threads.first().map_or(program(profile), |thread| &thread.command)))?;
    writeln!(out, "positions: instr line")?;
    writeln!(out, "event: Ns : User CPU time (ns)")?;
    writeln!(out, "event: Sys : Kernel CPU time (ns)")?;
    writeln!(out, "event: Ir : Instructions executed")?;
    writeln!(out, "events: Ns Sys Ir\nsummary: {}", spaced(total))
}

/// Costs by function and address, callees not included.
fn own_costs(profile: &Profile, costs: &Costs) -> Vec<BTreeMap<u64, Cost>> {
    let mut own = vec![BTreeMap::new(); profile.functions.len()];
    for (index, function) in profile.functions.iter().enumerate() {
        let ns = whole(function.self_ns.value);
        let handle = FunctionId(index as u32);
        let divided = costs.divide(handle, ns);
        if divided.is_empty() && ns != 0 {
            charge(&mut own[index], function.address, [ns, 0, 0]);
        }
        for ((block, ns), cost) in divided.into_iter().zip(costs.blocks(handle)) {
            charge(&mut own[index], profile.blocks[block.index()].address, [ns, 0, whole(cost.n_executed)]);
        }
    }
    for context in &profile.contexts {
        let kernel_ns = own_ns(context).1;
        if kernel_ns != 0 {
            let function = context.function.index();
            charge(&mut own[function], profile.functions[function].address, [0, kernel_ns, 0]);
        }
    }
    own
}

fn charge(costs: &mut BTreeMap<u64, Cost>, address: u64, cost: Cost) {
    add(costs.entry(address).or_default(), &cost);
}

fn add(sum: &mut Cost, cost: &Cost) {
    for (sum, cost) in sum.iter_mut().zip(cost) {
        *sum = sum.saturating_add(*cost);
    }
}

/// Calls of one function to another from one place.
struct CallLine {
    callee: FunctionId,
    address: u64,
    count: u64,
    /// None was seen, but what it cost.
    is_uncounted: bool,
    inclusive: Cost,
}

/// Calls by caller, ordered by address.
fn calls(profile: &Profile, costs: &Costs) -> Vec<Vec<CallLine>> {
    let stacks = Stacks::new(profile);
    let mut sites: BTreeMap<(FunctionId, FunctionId), Vec<(u64, f64)>> = BTreeMap::new();
    for call in &profile.calls {
        let block = &profile.blocks[call.site.index()];
        let address = last_address(block);
        sites.entry((block.function, call.callee)).or_default().push((address, call.count.value));
    }
    let pairs = inclusive_by_pair(profile, costs);
    for context in &profile.contexts {
        if let Some((parent, Place::Code { address, .. })) = stacks.call_site(context) {
            let pair = (profile.contexts[parent.index()].function, context.function);
            sites.entry(pair).or_insert_with(|| vec![(address, context.entries.value)]);
        }
    }
    let mut by_caller: Vec<Vec<CallLine>> = profile.functions.iter().map(|_| Vec::new()).collect();
    for ((caller, callee), sites) in sites {
        let counts: Vec<f64> = sites.iter().map(|site| site.1).collect();
        let total = pairs.get(&(caller, callee)).copied().unwrap_or_default();
        let shares = total.map(|event| apportion(event, &counts));
        for (index, (address, count)) in sites.into_iter().enumerate() {
            let inclusive = std::array::from_fn(|event| shares[event][index]);
            let is_uncounted = whole(count) == 0;
            let line = CallLine { callee, address, count: whole(count).max(1), is_uncounted, inclusive };
            if !is_uncounted || inclusive != Cost::default() {
                by_caller[caller.index()].push(line);
            }
        }
    }
    by_caller.iter_mut().for_each(|calls| calls.sort_by_key(|call| (call.address, call.callee)));
    by_caller
}

fn inclusive_by_pair(profile: &Profile, costs: &Costs) -> BTreeMap<(FunctionId, FunctionId), Cost> {
    let mut entries = vec![0.0; profile.functions.len()];
    for context in &profile.contexts {
        entries[context.function.index()] += context.entries.value.max(0.0);
    }
    let executed = |context: &Context| {
        let share = context.entries.value.max(0.0) / entries[context.function.index()];
        whole(costs.executed(context.function) * share)
    };
    let events: [Vec<u64>; 3] = [
        inclusive(profile, |context| own_ns(context).0),
        inclusive(profile, |context| own_ns(context).1),
        inclusive(profile, executed),
    ];
    let mut pairs: BTreeMap<_, Cost> = BTreeMap::new();
    for (index, context) in profile.contexts.iter().enumerate() {
        if let Some(parent) = context.parent {
            let pair = (profile.contexts[parent.index()].function, context.function);
            add(pairs.entry(pair).or_default(), &std::array::from_fn(|event| events[event][index]));
        }
    }
    pairs
}

struct Writer<'a> {
    profile: &'a Profile,
    symbols: &'a dyn Symbols,
    labels: Labels,
    objects: Names,
    files: Names,
    names: Names,
    out: &'a mut dyn io::Write,
}

impl Writer<'_> {
    fn function(&mut self, function: FunctionId, own: &BTreeMap<u64, Cost>, calls: &[CallLine]) -> io::Result<()> {
        writeln!(self.out)?;
        let mut current = self.identify(function, ["ob", "fl", "fn"])?;
        for (&address, cost) in own {
            let line = self.position(function, address, &mut current)?;
            writeln!(self.out, "{address:#x} {line} {}", spaced(cost))?;
        }
        for call in calls {
            let line = self.position(function, call.address, &mut current)?;
            self.identify(call.callee, ["cob", "cfi", "cfn"])?;
            let start = self.profile.functions[call.callee.index()].address;
            let start_line = self.source(call.callee, start).1;
            writeln!(self.out, "calls={} {start:#x} {start_line}", call.count)?;
            writeln!(self.out, "{:#x} {line} {}", call.address, spaced(&call.inclusive))?;
        }
        Ok(())
    }

    /// Names object, file and function under the given keys. Says which file it was.
    fn identify(&mut self, function: FunctionId, [object, file, name]: [&str; 3]) -> io::Result<NameId> {
        let row = &self.profile.functions[function.index()];
        let source = self.symbols.frames(row.module, row.address).pop().unwrap_or_default();
        let path = &self.profile.modules[row.module.index()].path;
        let file_id = self.files.id(&source.file);
        writeln!(self.out, "{object}={}", self.objects.compress(path))?;
        writeln!(self.out, "{file}={}", self.files.compress(&source.file))?;
        writeln!(self.out, "{name}={}", self.names.compress(self.labels.function(function)))?;
        Ok(file_id)
    }

    /// The line of an address, after switching to its file if that is not the current one.
    fn position(&mut self, function: FunctionId, address: u64, current: &mut NameId) -> io::Result<u32> {
        let (file, line) = self.source(function, address);
        let id = self.files.id(&file);
        if id != *current {
            *current = id;
            writeln!(self.out, "fi={}", self.files.compress(&file))?;
        }
        Ok(line)
    }

    fn source(&self, function: FunctionId, address: u64) -> (String, u32) {
        let module = self.profile.functions[function.index()].module;
        let frame = self.symbols.frames(module, address).into_iter().next().unwrap_or_default();
        (frame.file, frame.line)
    }
}

/// Number of a compressed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NameId(usize);

/// Name compression: `(1) name` at the first use, `(1)` later.
#[derive(Default)]
struct Names {
    ids: BTreeMap<String, NameId>,
    is_defined: Vec<bool>,
}

impl Names {
    fn id(&mut self, name: &str) -> NameId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = NameId(self.is_defined.len());
        self.is_defined.push(false);
        self.ids.insert(name.to_owned(), id);
        id
    }

    fn compress(&mut self, name: &str) -> String {
        let NameId(index) = self.id(name);
        let was_defined = std::mem::replace(&mut self.is_defined[index], true);
        if was_defined { format!("({})", index + 1) } else { format!("({}) {}", index + 1, shown(name)) }
    }
}

/// Unknown names are `???`, as Callgrind writes them.
fn shown(name: &str) -> String {
    if name.is_empty() { "???".to_owned() } else { one_line(name) }
}

fn spaced(cost: &Cost) -> String {
    cost.map(|value| value.to_string()).join(" ")
}
