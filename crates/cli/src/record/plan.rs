//! Turns the properties of a command line into a plan for the recorder.

use std::path::PathBuf;

use recorder::Plan;

use crate::props::RecordProps;

/// Returns the plan of a recording of the program in a file.
pub fn plan(props: &RecordProps, program: PathBuf) -> Plan {
    Plan {
        program,
        command: props.command.clone(),
        output: props.output.clone(),
        mode: props.mode.clone(),
        ticks: props.ticks,
        stack_bytes: props.stack_bytes,
        seed: props.seed,
        window: props.window,
        modules: props.modules.clone(),
        threads: props.threads.clone(),
        follows: props.follows,
        noting: props.noting.clone(),
        uses_cache: props.uses_cache,
    }
}
