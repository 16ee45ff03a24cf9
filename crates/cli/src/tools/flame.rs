//! `strobe flame`: CPU time by calling context as a flame graph.

use std::io::Write;

use anyhow::{Result, ensure};
use inferno::flamegraph::{self, Direction, Options};
use profile::{Profile, Symbols};

use crate::output;
use crate::tools::opened;
use crate::tools::props::FlameProps;

pub fn run(props: &FlameProps, out: &mut impl Write) -> Result<()> {
    let profile = opened::open(&props.profile)?;
    let symbols = opened::symbolizer(&profile, &props.profile);
    let title = props.title.clone().unwrap_or_else(|| title(&profile));
    let svg = svg(&profile, &symbols, &title, props.is_reversed)?;
    output::write(&props.output, out, |file| Ok(file.write_all(&svg)?))
}

fn svg(profile: &Profile, symbols: &dyn Symbols, title: &str, is_reversed: bool) -> Result<Vec<u8>> {
    let mut folded = Vec::new();
    export::folded::write(profile, symbols, &mut folded)?;
    ensure!(!folded.is_empty(), "no CPU time in the profile; record for longer");
    let mut options = Options::default();
    options.title = title.to_owned();
    options.count_name = "us".to_owned();
    options.reverse_stack_order = is_reversed;
    options.direction = if is_reversed { Direction::Inverted } else { Direction::Straight };
    options.hash = true;
    let folded = String::from_utf8_lossy(&folded);
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, folded.lines(), &mut svg)?;
    Ok(svg)
}

fn title(profile: &Profile) -> String {
    profile.facts.get("command").cloned().unwrap_or_else(|| "CPU time".to_owned())
}

#[cfg(test)]
mod tests {
    use profile::Estimate;
    use profile::model::{Context, ContextId, Function, FunctionId, Module, ModuleId};
    use profile::symbols::NoSymbols;

    use super::*;

    fn profile() -> Profile {
        let function = |name: &str| Function {
            module: ModuleId(0),
            address: 0x1000,
            size: 16,
            name: name.to_owned(),
            entries: Estimate::default(),
            self_ns: Estimate::default(),
        };
        let context = |parent: Option<u32>, function, kernel_ns| Context {
            parent: parent.map(ContextId),
            function: FunctionId(function),
            call_site: None,
            entries: Estimate::default(),
            self_ns: Estimate::exact(3_000_000),
            kernel_ns: Estimate::exact(kernel_ns),
            misses: 0,
        };
        Profile {
            modules: vec![Module { path: "/bin/x".to_owned(), build_id: String::new() }],
            functions: vec![function("main"), function("a<b> & c")],
            contexts: vec![context(None, 0, 0), context(Some(0), 1, 2_000_000)],
            ..Profile::default()
        }
    }

    #[test]
    fn frames_have_their_time_and_kernel_time_is_on_top() {
        for is_reversed in [false, true] {
            let svg = String::from_utf8(svg(&profile(), &NoSymbols, "sort <x>", is_reversed).unwrap()).unwrap();
            let main = if is_reversed { "main (3,000 us" } else { "main (8,000 us" };
            for title in [main, "a&lt;b&gt; &amp; c (", "[kernel] (2,000 us", "sort &lt;x&gt;"] {
                assert!(svg.contains(title), "{title}");
            }
        }
    }

    #[test]
    fn a_profile_without_time_has_no_picture() {
        assert!(svg(&Profile::default(), &NoSymbols, "", false).is_err());
    }
}
