//! Hot functions.

use crate::estimate::Estimate;
use crate::model::{FunctionId, Profile};
use crate::query::{inclusive_ns, is_timeless, share, sort_hottest_first, totals};

/// A function and where its time goes.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionRow {
    /// The function.
    pub function: FunctionId,
    /// How often it was entered.
    pub entries: Estimate,
    /// User CPU time in its own code.
    pub self_ns: Estimate,
    /// Kernel CPU time of system calls and faults in its own code.
    pub kernel_ns: Estimate,
    /// CPU time in it and in what it called, user and kernel. A recursive function counts once: the
    /// tree of contexts has no second node of it below the first.
    pub total_ns: Estimate,
    /// `self_ns` as a share of CPU time.
    pub self_share: Estimate,
    /// `total_ns` as a share of CPU time.
    pub total_share: Estimate,
    /// Instructions of its own that ran.
    pub instructions: Estimate,
    /// `instructions` as a share of those of all functions.
    pub instruction_share: Estimate,
}

/// All functions by time in their own code; by instructions, if times are not known.
#[must_use]
pub fn functions(profile: &Profile) -> Vec<FunctionRow> {
    let cpu_ns = totals(profile).cpu_ns;
    let mut total_ns = vec![Estimate::default(); profile.functions.len()];
    let mut kernel_ns = total_ns.clone();
    for (context, inclusive) in profile.contexts.iter().zip(inclusive_ns(profile)) {
        total_ns[context.function.index()] += inclusive;
        kernel_ns[context.function.index()] += context.kernel_ns;
    }
    let mut instructions = vec![Estimate::default(); profile.functions.len()];
    for block in &profile.blocks {
        instructions[block.function.index()] += block.count.scaled(f64::from(block.n_insns));
    }
    let all_instructions: Estimate = instructions.iter().copied().sum();
    let rows = profile.functions.iter().enumerate().map(|(index, row)| FunctionRow {
        function: FunctionId(index as u32),
        entries: row.entries,
        self_ns: row.self_ns,
        kernel_ns: kernel_ns[index],
        total_ns: total_ns[index],
        self_share: share(row.self_ns, cpu_ns),
        total_share: share(total_ns[index], cpu_ns),
        instructions: instructions[index],
        instruction_share: share(instructions[index], all_instructions),
    });
    let mut rows: Vec<FunctionRow> = rows.collect();
    let has_times = !is_timeless(profile);
    let heat = |row: &FunctionRow| if has_times { row.self_ns.value } else { row.instructions.value };
    sort_hottest_first(&mut rows, heat, |row| row.function.0);
    rows
}
