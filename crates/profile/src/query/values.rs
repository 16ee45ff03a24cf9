//! Loads whose values hardly change, and how sure that is.

use crate::estimate::Estimate;
use crate::model::{FunctionId, ModuleId, NotedValue, Profile, ValueKind};
use crate::query::targets;

/// An instruction, and the values that it loaded most, or the places where it went most.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSite {
    /// Its module.
    pub module: ModuleId,
    /// Its address.
    pub address: u64,
    /// The function that it is in, if that is known.
    pub function: Option<FunctionId>,
    /// What the values are.
    pub kind: ValueKind,
    /// How often it ran.
    pub count: Estimate,
    /// Values, the most frequent first; rare ones may be missing.
    pub values: Vec<SeenValue>,
    /// Share of the most frequent value.
    pub invariance: f64,
    /// 95 % interval of that; a point if every load was counted.
    pub interval: (f64, f64),
}

/// A value of an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeenValue {
    /// The value.
    pub value: u64,
    /// The module in which it is an address, if it is a place in a program.
    pub module: Option<ModuleId>,
    /// The function that starts there.
    pub function: Option<FunctionId>,
    /// How often it came.
    pub count: Estimate,
}

/// All instructions with values of a profile, or of one function, those first that a specialization
/// for their most frequent value serves most often: by the number of loads times the least that the
/// invariance can be.
#[must_use]
pub fn value_sites(profile: &Profile, function: Option<FunctionId>) -> Vec<ValueSite> {
    let from_flow = targets::rows(profile);
    let mut rows: Vec<_> = profile.values.iter().chain(&from_flow).collect();
    rows.sort_by_key(|row| row.key());
    let starts = function_starts(profile);
    let sites =
        rows.chunk_by(|a, b| (a.module, a.address, a.kind) == (b.module, b.address, b.kind)).filter_map(|rows| {
            // What is about all values comes first.
            let (all, values) = rows.split_first().filter(|(all, _)| all.value.is_none() && all.count.value > 0.0)?;
            let seen = |row: &&NotedValue| {
                let (value, module) = (row.value?, row.value_module);
                let function = module.and_then(|module| function_starting_at(&starts, module, value));
                Some(SeenValue { value, module, function, count: row.count })
            };
            let mut values: Vec<SeenValue> = values.iter().filter_map(seen).collect();
            values.sort_by(|a, b| {
                b.count.value.total_cmp(&a.count.value).then((a.module, a.value).cmp(&(b.module, b.value)))
            });
            let most = values.first().map_or(0.0, |most| most.count.value);
            let invariance = (most / all.count.value).min(1.0);
            Some(ValueSite {
                module: all.module,
                address: all.address,
                function: function_at(&starts, all.module, all.address),
                kind: all.kind,
                count: all.count,
                invariance,
                interval: interval(invariance, all.count),
                values,
            })
        });
    let mut sites: Vec<ValueSite> = sites.filter(|site| function.is_none() || site.function == function).collect();
    let worth = |site: &ValueSite| site.count.value * site.interval.0;
    sites.sort_by(|a, b| {
        worth(b).total_cmp(&worth(a)).then((a.module, a.address, a.kind).cmp(&(b.module, b.address, b.kind)))
    });
    sites
}

fn function_starts(profile: &Profile) -> Vec<(ModuleId, u64, FunctionId)> {
    let functions = profile.functions.iter().enumerate();
    let mut starts: Vec<_> =
        functions.map(|(index, row)| (row.module, row.address, FunctionId(index as u32))).collect();
    starts.sort_unstable();
    starts
}

/// The last function that starts at the address or before it.
fn function_at(starts: &[(ModuleId, u64, FunctionId)], module: ModuleId, address: u64) -> Option<FunctionId> {
    let index = starts.partition_point(|&(of, start, _)| (of, start) <= (module, address)).checked_sub(1)?;
    let (of, _, id) = starts[index];
    (of == module).then_some(id)
}

fn function_starting_at(starts: &[(ModuleId, u64, FunctionId)], module: ModuleId, address: u64) -> Option<FunctionId> {
    let index = starts.partition_point(|&(of, start, _)| (of, start) < (module, address));
    starts.get(index).filter(|&&(of, start, _)| (of, start) == (module, address)).map(|&(_, _, id)| id)
}

/// Wilson's interval of a share, seen in this many picks, or so many independent ones as the
/// variance tells.
fn interval(share: f64, all: Estimate) -> (f64, f64) {
    const Z: f64 = 1.959_963_984_540_054;
    let n_seen = all.seen.max(1) as f64;
    // That a count is known does not mean that all of its values were seen.
    if all.variance == 0.0 && n_seen >= all.value {
        return (share, share);
    }
    let of_count = if all.variance > 0.0 { all.value * all.value / all.variance } else { f64::INFINITY };
    let n = n_seen.min(of_count.max(1.0));
    let middle = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(address: u64, value: Option<u64>, count: Estimate) -> NotedValue {
        NotedValue { module: ModuleId(0), address, kind: ValueKind::Load, value, value_module: None, count }
    }

    #[test]
    fn a_known_count_of_which_a_part_was_seen_leaves_an_interval() {
        let (low, high) = interval(0.5, Estimate { value: 1000.0, variance: 0.0, seen: 100 });
        assert!((low - 0.4).abs() < 0.01 && (high - 0.6).abs() < 0.01, "{low} {high}");
        assert_eq!(interval(0.5, Estimate::exact(1000)), (0.5, 0.5));
    }

    fn sampled(n_messages: u64) -> Estimate {
        Estimate { value: 256.0 * n_messages as f64, variance: 255.0 * 256.0 * n_messages as f64, seen: n_messages }
    }

    #[test]
    fn many_loads_of_one_value_come_first() {
        let values = vec![
            row(8, None, Estimate::exact(100)),
            row(8, Some(7), Estimate::exact(90)),
            row(8, Some(1), Estimate::exact(10)),
            row(16, None, Estimate::exact(120)),
            row(16, Some(3), Estimate::exact(12)),
        ];
        let profile = Profile { values, ..Profile::default() };
        let sites = value_sites(&profile, None);
        let shown: Vec<_> = sites.iter().map(|site| (site.address, site.invariance, site.interval)).collect();
        assert_eq!(shown, [(8, 0.9, (0.9, 0.9)), (16, 0.1, (0.1, 0.1))]);
        assert_eq!(sites[0].values[0].value, 7);
    }

    #[test]
    fn few_messages_make_a_wide_interval() {
        let of = |n: u64| {
            let values = vec![row(8, None, sampled(n)), row(8, Some(7), sampled(n))];
            value_sites(&Profile { values, ..Profile::default() }, None)[0].interval
        };
        assert!(of(1).0 < 0.3 && of(1000).0 > 0.99, "{:?} {:?}", of(1), of(1000));
    }

    #[test]
    fn a_site_without_a_total_is_left_out() {
        let profile = Profile { values: vec![row(8, Some(7), Estimate::exact(1))], ..Profile::default() };
        assert!(value_sites(&profile, None).is_empty());
    }
}
