//! Removes from a profile what identifies people and machines.
//!
//! Of paths the file name is left, of commands the program's file name. Facts that are numbers
//! stay, and those few texts that cannot name anyone; all others go, also those that strobe does
//! not know yet. Names of functions stay: without them there is no profile.

use profile::Profile;

use crate::names::file_name;

/// Facts whose text says nothing about the machine or its users.
const HARMLESS_FACTS: &[&str] = &["strobe", "tick_source", "ended"];
/// The fact of which the name of the program is left.
const COMMAND_FACT: &str = "command";

pub fn scrub(profile: &mut Profile) {
    for module in &mut profile.modules {
        module.path = file_name(&module.path).to_owned();
    }
    for thread in &mut profile.threads {
        thread.command = program_name(&thread.command);
    }
    if let Some(command) = profile.facts.get_mut(COMMAND_FACT) {
        *command = program_name(command);
    }
    let is_harmless = |name: &str, value: &str| {
        name == COMMAND_FACT || HARMLESS_FACTS.contains(&name) || value.parse::<f64>().is_ok()
    };
    profile.facts.retain(|name, value| is_harmless(name, value));
}

/// Arguments are behind the first blank; so is the rest of a program's name that has one.
fn program_name(command: &str) -> String {
    file_name(command.split_whitespace().next().unwrap_or_default()).to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use profile::model::{Module, Thread};

    use super::*;

    #[test]
    fn what_names_people_and_machines_is_gone() {
        let facts = [
            ("command", "/srv/secret/app --token secret"),
            ("host", "secret"),
            ("kernel", "Linux secret 6.1"),
            ("unknown", "/srv/secret"),
            ("ticks", "12"),
            ("cost_percent", "0.5"),
            ("tick_source", "POSIX timers"),
        ];
        let mut profile = Profile {
            facts: facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            modules: vec![Module { path: "/srv/secret/app".to_owned(), build_id: "ab".to_owned() }],
            threads: vec![Thread { pid: 1, tid: 1, command: "/srv/secret/app -u secret".to_owned(), cpu_ns: 1 }],
            ..Profile::default()
        };
        scrub(&mut profile);
        assert!(!format!("{profile:?}").contains("secret"), "{profile:?}");
        let left = [("command", "app"), ("cost_percent", "0.5"), ("tick_source", "POSIX timers"), ("ticks", "12")];
        let left: BTreeMap<String, String> = left.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(profile.facts, left);
        assert_eq!((profile.modules[0].path.as_str(), profile.threads[0].command.as_str()), ("app", "app"));
    }
}
