//! Finds the function of a binary that a user names; the error suggests names that exist.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};
use flow::callgraph::FunctionId;
use image::Svma;

use crate::module::Module;
use crate::props::FunctionSelector;

const MAX_SUGGESTIONS: usize = 3;
const MAX_ADDRESSES: usize = 8;
/// Below this similarity (1 is equal) a name is not what was meant.
const MIN_SIMILARITY: f64 = 0.75;

/// Returns the function that `selector` means. The error names the file.
pub fn function(module: &Module<'_>, selector: &FunctionSelector) -> Result<FunctionId> {
    let found = match selector {
        FunctionSelector::Address(at) => at_address(module, *at),
        FunctionSelector::Name(name) => by_name(module, name),
    };
    found.map_err(|error| error.context(module.files.path.display().to_string()))
}

fn at_address(module: &Module<'_>, at: Svma) -> Result<FunctionId> {
    let nearest = || {
        let functions = &module.flow.functions;
        let next = functions.partition_point(|function| function.entry <= at);
        let function = functions.get(next.saturating_sub(1))?;
        Some(format!("the nearest is {} at {}", module.name(function), function.entry))
    };
    module.flow.function_containing(at).ok_or_else(|| {
        let advice = nearest().unwrap_or_else(|| "the file has no functions".to_owned());
        anyhow!("no function contains {at}; {advice}")
    })
}

fn by_name(module: &Module<'_>, name: &str) -> Result<FunctionId> {
    let addresses = module.image.lookup(name);
    let functions: BTreeSet<FunctionId> =
        addresses.iter().filter_map(|&at| module.flow.function_containing(at)).collect();
    match functions.len() {
        0 => Err(anyhow!("no function is called {name}; {}", advice(module, name))),
        1 => functions.first().copied().ok_or_else(|| anyhow!("no function is called {name}")),
        n => {
            let shown: Vec<String> = addresses.iter().take(MAX_ADDRESSES).map(Svma::to_string).collect();
            let more = if n > MAX_ADDRESSES { ", ..." } else { "" };
            Err(anyhow!("{n} functions are called {name}; give the address of one: {}{more}", shown.join(", ")))
        }
    }
}

fn advice(module: &Module<'_>, name: &str) -> String {
    let names = module.flow.functions.iter().map(|function| module.name(function));
    let similar = similar(name, names);
    if similar.is_empty() {
        format!("`strobe dump cfg {}` lists all of them", module.files.path.display())
    } else {
        format!("did you mean {}?", similar.join(", "))
    }
}

/// The names most like `wanted`, best first. Parameters and enclosing scopes are not compared.
fn similar(wanted: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let mut scored: Vec<(f64, String)> = names
        .map(|name| (strsim::jaro_winkler(bare(wanted), bare(&name)), name))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .collect();
    scored.sort_by(|(a, name_a), (b, name_b)| b.total_cmp(a).then_with(|| name_a.cmp(name_b)));
    scored.dedup();
    scored.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name).collect()
}

/// Returns `method` of `ns::Type::method(int) const`.
fn bare(name: &str) -> &str {
    let without_parameters = name.split('(').next().unwrap_or(name);
    without_parameters.rsplit("::").next().unwrap_or(without_parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggestions(wanted: &str, names: &[&str]) -> Vec<String> {
        similar(wanted, names.iter().map(|name| (*name).to_owned()))
    }

    #[test]
    fn near_names_come_best_first() {
        let names = ["parse_header", "parse_heder", "print", "zip"];
        assert_eq!(suggestions("parse_heade", &names), ["parse_header", "parse_heder"]);
        assert_eq!(suggestions("quux", &names), Vec::<String>::new());
    }

    #[test]
    fn scopes_and_parameters_are_not_compared() {
        assert_eq!(suggestions("reserv", &["std::vector<int>::reserve(unsigned long)"]).len(), 1);
    }
}
