//! The machine that figures come from.

use std::fs;

use anyhow::Context as _;

/// Processor, cores, kernel, counters.
pub fn facts() -> anyhow::Result<String> {
    let cpu = fs::read_to_string("/proc/cpuinfo").context("/proc/cpuinfo")?;
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, name)| name);
    let n_cores = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let is_virtual =
        cpu.lines().any(|line| line.starts_with("flags") && line.split(' ').any(|flag| flag == "hypervisor"));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").context("/proc/sys/kernel/osrelease")?;
    let has_counters = fs::exists("/sys/bus/event_source/devices/cpu").unwrap_or(false);
    Ok(format!(
        "{}, {n_cores} cores{}, Linux {}, {} PMU",
        model.unwrap_or("unknown processor"),
        if is_virtual { " of a virtual machine" } else { "" },
        kernel.trim(),
        if has_counters { "with" } else { "no" }
    ))
}

/// Processes that wanted to run in the last minute, on average; `?` if the system does not say.
#[must_use]
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_machine_is_described() {
        let facts = super::facts().unwrap();
        assert!(facts.contains("Linux") && facts.contains("cores"), "{facts}");
        assert!(super::load().parse::<f64>().is_ok(), "{}", super::load());
    }
}
