//! BOLT's own text format: transfers between offsets of symbols, with counts. For
//! `llvm-bolt -data`.
//!
//! A record is `1 from offset 1 to offset mispredictions count`, offsets in hexadecimal.
//! `0 [unknown] 0` stands for what is outside of the module or under no symbol. Fall-throughs are
//! records like jumps, from the last instruction of a block to the first of the next; BOLT loses
//! most of its effect without them. But BOLT has longer blocks than a profile, whose blocks end at
//! calls: a fall-through that does not lead to the start of one of BOLT's blocks makes it refuse
//! the whole function. Unless a branch is passed, only those to the target of some jump are
//! written. Mispredictions are not known and written as 0; the layout passes do not use them.
//! Returns are left out: BOLT does not use them either. Symbols go by the names that
//! [`BinaryFacts::bolt_symbol`](crate::BinaryFacts::bolt_symbol) gives; a blank in one is escaped
//! with a backslash.

use std::collections::BTreeMap;
use std::io;

use profile::Profile;
use profile::model::BlockEnd;

use crate::bolt::{FallThrough, ModuleFlow, Transfer};
use crate::error::Error;
use crate::options::{Options, SymbolOffset};
use crate::stacks::last_address;

/// Writes the flow of one module.
///
/// # Errors
/// If `out` fails, or if the profile has no module.
pub fn write(profile: &Profile, options: &Options<'_>, out: &mut dyn io::Write) -> Result<(), Error> {
    let module = options.module_of(profile)?;
    let flow = ModuleFlow::new(profile, module);
    let is_boundary = |step: &&FallThrough<'_>| {
        step.from.end == BlockEnd::Branch
            || flow.jump_targets.contains(&step.to.address)
            || options.facts.is_jump_target(module, step.to.address)
    };
    let fall_throughs = flow.fall_throughs.iter().filter(is_boundary).map(|step| Transfer {
        from: Some(last_address(step.from)),
        to: Some(step.to.address),
        count: step.count,
    });
    let symbol = |address: Option<u64>| address.and_then(|address| options.facts.bolt_symbol(module, address));
    let mut records: BTreeMap<_, u64> = BTreeMap::new();
    for transfer in flow.transfers.iter().copied().chain(fall_throughs) {
        let count = records.entry((symbol(transfer.from), symbol(transfer.to))).or_default();
        *count = count.saturating_add(transfer.count);
    }
    for ((from, to), count) in records {
        if from.is_some() || to.is_some() {
            writeln!(out, "{} {} 0 {count}", place(from), place(to))?;
        }
    }
    Ok(())
}

fn place(symbol: Option<SymbolOffset>) -> String {
    match symbol {
        Some(SymbolOffset { name, offset }) if !name.contains('\n') => {
            format!("1 {} {offset:x}", name.replace(' ', "\\ "))
        }
        _ => "0 [unknown] 0".to_owned(),
    }
}
