//! Folded stacks: one line per calling context, frames from the root separated by `;`, then CPU
//! time in microseconds.
//!
//! Read by flamegraph.pl, inferno, speedscope and many more. The format has no escapes: a semicolon
//! in a name (`[u8; 4]`) is written as a colon, as the readers of `perf script` do, control
//! characters as spaces. A context that used less than a microsecond counts as 1.

use std::io;

use profile::{Profile, Symbols};

use crate::labels::{KERNEL, Labels, one_line};
use crate::round::whole;
use crate::stacks::functions_from_root;

/// Writes user and kernel CPU time by context.
///
/// # Errors
/// If `out` fails.
pub fn write(profile: &Profile, symbols: &dyn Symbols, out: &mut dyn io::Write) -> io::Result<()> {
    let labels = Labels::new(profile, symbols);
    let names: Vec<String> = labels.all().iter().map(|name| frame(name)).collect();
    for context in &profile.contexts {
        let user_us = whole(context.self_ns.value / 1e3);
        let kernel_us = whole(context.kernel_ns.value / 1e3);
        if user_us == 0 && kernel_us == 0 {
            continue;
        }
        let functions = functions_from_root(profile, context);
        let stack: Vec<&str> = functions.iter().map(|function| names[function.index()].as_str()).collect();
        let stack = stack.join(";");
        if user_us != 0 {
            writeln!(out, "{stack} {user_us}")?;
        }
        if kernel_us != 0 {
            writeln!(out, "{stack};{KERNEL} {kernel_us}")?;
        }
    }
    Ok(())
}

fn frame(name: &str) -> String {
    one_line(name).replace(';', ":").trim().to_owned()
}
