//! Finds the function of a profile that a user names; the error suggests names that exist.
//!
//! A name is tried as a whole, then without the scopes before it, then as a part of a name; the
//! first way by which there is a function counts. Names that only debug files have are looked up if
//! there is none among those in the profile.

use anyhow::{Result, anyhow, bail};
use profile::model::{FunctionId, ModuleId};

use crate::names::file_name;
use crate::view::subject::Subject;

const MAX_SUGGESTIONS: usize = 3;
const MAX_CANDIDATES: usize = 8;
/// Below this similarity (1 is equal) a name is not what was meant.
const MIN_SIMILARITY: f64 = 0.75;

/// The function that `text` means: a name, `0xADDRESS` or `MODULE:0xADDRESS`.
pub fn function(subject: &mut Subject, text: &str) -> Result<FunctionId> {
    if let Some((module, address)) = address(text) {
        return at_address(subject, module, address);
    }
    if let Some(id) = by_name(subject, text)? {
        return Ok(id);
    }
    let all = (0..subject.profile.functions.len() as u32).map(FunctionId);
    subject.resolve(all, []);
    by_name(subject, text)?.ok_or_else(|| anyhow!("no function is called {text}; {}", advice(subject, text)))
}

/// `0x1a2b0` or `libc.so.6:0x1a2b0`, the digits in hexadecimal.
fn address(text: &str) -> Option<(Option<&str>, u64)> {
    let (module, address) = match text.rsplit_once(':') {
        Some((module, address)) if !module.ends_with(':') => (Some(module), address),
        _ => (None, text),
    };
    let prefixed = address.strip_prefix("0x").or_else(|| address.strip_prefix("0X"));
    let digits = prefixed.or_else(|| module.map(|_| address))?;
    Some((module, u64::from_str_radix(digits, 16).ok()?))
}

fn at_address(subject: &Subject, module: Option<&str>, address: u64) -> Result<FunctionId> {
    let modules = (0..subject.profile.modules.len() as u32).map(ModuleId);
    let is_meant = |id: &ModuleId| module.is_none_or(|name| is_called(subject.module_path(*id), name));
    let modules: Vec<ModuleId> = modules.filter(is_meant).collect();
    if let (true, Some(name)) = (modules.is_empty(), module) {
        let all: Vec<&str> = subject.profile.modules.iter().map(|module| file_name(&module.path)).collect();
        bail!("no module is called {name}; there are {}", all.join(", "));
    }
    let found = functions_at(subject, &modules, address);
    match found[..] {
        [] => bail!("no function that ran contains {address:#x}; `strobe report` lists the hottest"),
        [id] => Ok(id),
        _ => bail!("several modules have a function at {address:#x}; give one of {}", candidates(subject, &found)),
    }
}

/// Functions with a block or their main part around an address.
fn functions_at(subject: &Subject, modules: &[ModuleId], address: u64) -> Vec<FunctionId> {
    let contains = |start: u64, size: u64| address.checked_sub(start).is_some_and(|distance| distance < size.max(1));
    let blocks = subject.profile.blocks.iter().filter(|block| contains(block.address, u64::from(block.size)));
    let functions = subject.profile.functions.iter().enumerate();
    let functions = functions.filter(|(_, function)| contains(function.address, function.size));
    let mut found: Vec<FunctionId> = blocks.map(|block| block.function).collect();
    if found.iter().all(|&id| !modules.contains(&subject.function(id).module)) {
        found.extend(functions.map(|(index, _)| FunctionId(index as u32)));
    }
    found.retain(|&id| modules.contains(&subject.function(id).module));
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether a path ends in these components.
fn is_called(path: &str, name: &str) -> bool {
    path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/') || name.starts_with('/'))
}

fn by_name(subject: &Subject, text: &str) -> Result<Option<FunctionId>> {
    let names: Vec<Names> = (0..subject.profile.functions.len() as u32).map(|id| Names::new(subject, id)).collect();
    let ways: [fn(&Names, &str) -> bool; 3] = [Names::is, Names::ends_in, Names::contains];
    for is_meant in ways {
        let mut found: Vec<FunctionId> =
            names.iter().filter(|names| is_meant(names, text)).map(|names| names.function).collect();
        found.sort_by(|&a, &b| subject.function(b).self_ns.value.total_cmp(&subject.function(a).self_ns.value));
        match found[..] {
            [] => {}
            [id] => return Ok(Some(id)),
            _ => bail!("{} functions match {text}; give one of {}", found.len(), candidates(subject, &found)),
        }
    }
    Ok(None)
}

/// What a function can be called.
struct Names {
    function: FunctionId,
    linkage: String,
    readable: String,
}

impl Names {
    fn new(subject: &Subject, id: u32) -> Names {
        let function = FunctionId(id);
        let label = subject.label(function);
        Names { function, linkage: label.linkage_name, readable: label.name }
    }

    /// Returns the readable name without parameters.
    fn bare(&self) -> &str {
        self.readable.split('(').next().unwrap_or(&self.readable)
    }

    fn is(&self, text: &str) -> bool {
        [self.linkage.as_str(), &self.readable, self.bare()].contains(&text)
    }

    fn ends_in(&self, text: &str) -> bool {
        let ends = |name: &str| name.strip_suffix(text).is_some_and(|scope| scope.ends_with("::"));
        ends(&self.readable) || ends(self.bare())
    }

    fn contains(&self, text: &str) -> bool {
        self.readable.contains(text)
    }
}

/// Returns the first few functions as `gzip:0x1a2b0 (deflate_fast)`.
fn candidates(subject: &Subject, found: &[FunctionId]) -> String {
    let word = |&id: &FunctionId| {
        let label = subject.label(id);
        format!("{}:{} ({})", file_name(&label.module), label.address.0, label.short())
    };
    let shown: Vec<String> = found.iter().take(MAX_CANDIDATES).map(word).collect();
    let more = if MAX_CANDIDATES < found.len() { ", ..." } else { "" };
    shown.join(", ") + more
}

fn advice(subject: &Subject, wanted: &str) -> String {
    let names = (0..subject.profile.functions.len() as u32).map(|id| Names::new(subject, id));
    let similarity = |names: &Names| {
        let last = |name: &str| name.rsplit("::").next().unwrap_or_default().to_owned();
        strsim::jaro_winkler(&last(wanted), &last(names.bare()))
    };
    let mut scored: Vec<(f64, String)> = names.map(|names| (similarity(&names), names.readable)).collect();
    scored.retain(|(similarity, _)| *similarity >= MIN_SIMILARITY);
    scored.sort_by(|(a, name_a), (b, name_b)| b.total_cmp(a).then_with(|| name_a.cmp(name_b)));
    scored.dedup();
    let names: Vec<String> = scored.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name).collect();
    match names.is_empty() {
        true => "`strobe report` lists the hottest that ran".to_owned(),
        false => format!("did you mean {}?", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names() {
        assert_eq!(address("0x1F"), Some((None, 0x1f)));
        assert_eq!(address("libc.so.6:0x1f"), Some((Some("libc.so.6"), 0x1f)));
        assert_eq!(address("/bin/a:1f"), Some((Some("/bin/a"), 0x1f)));
        for name in ["main", "ns::add", "a::b::beef", "1f", "0xyz"] {
            assert_eq!(address(name), None, "{name}");
        }
    }

    #[test]
    fn modules_by_the_end_of_their_path() {
        assert!(is_called("/usr/bin/gzip", "gzip"));
        assert!(is_called("/usr/bin/gzip", "bin/gzip"));
        assert!(is_called("/usr/bin/gzip", "/usr/bin/gzip"));
        assert!(!is_called("/usr/bin/gzip", "zip"));
    }
}
