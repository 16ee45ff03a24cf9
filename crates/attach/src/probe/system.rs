//! Settings and abilities of the system that decide how a recording can be made.

use std::fs;
use std::str::FromStr;

use crate::perf::{Attributes, HardwareCounter};

/// `arch_prctl` request for the state of shadow stacks of the calling process.
const ARCH_SHSTK_STATUS: libc::c_int = 0x5005;
const SHADOW_STACK_ENABLED: u64 = 1;
/// Bit of the auxiliary vector: user code may use `rdgsbase` and the like.
const HWCAP2_FSGSBASE: u64 = 1 << 1;

/// Settings and abilities of the system. `None`: the system does not say, mostly because it has no
/// such setting.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct System {
    /// Release of the kernel.
    pub kernel_release: Option<String>,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i32>,
    /// `kernel.yama.ptrace_scope`.
    pub ptrace_scope: Option<u32>,
    /// `vm.memfd_noexec`; at 2, memory files cannot hold code.
    pub memfd_noexec: Option<u32>,
    /// Shadow stacks guard the return addresses of this process, and so probably of others.
    pub has_shadow_stacks: bool,
    /// `Seccomp` of this process: 0 none, 1 strict, 2 filter.
    pub seccomp: Option<u32>,
    /// A hardware counter of cycles can be opened.
    pub has_pmu: bool,
    /// Perf events that send signals can be opened for this process.
    pub has_perf_ticks: bool,
    /// User code may read and write the base of `gs` by instruction.
    pub has_fsgsbase: bool,
    /// Timer interrupts of the kernel per second.
    pub timer_hz: Option<u32>,
}

/// Finds out what the system allows.
#[must_use]
pub fn system() -> System {
    System {
        kernel_release: file("/proc/sys/kernel/osrelease"),
        perf_event_paranoid: number("/proc/sys/kernel/perf_event_paranoid"),
        ptrace_scope: number("/proc/sys/kernel/yama/ptrace_scope"),
        memfd_noexec: number("/proc/sys/vm/memfd_noexec"),
        has_shadow_stacks: shadow_stack_status() & SHADOW_STACK_ENABLED != 0,
        seccomp: seccomp(),
        has_pmu: hardware_counter(HardwareCounter::Cycles).is_ok(),
        has_perf_ticks: Attributes::ticks(u64::from(u32::MAX)).open(0).is_ok(),
        has_fsgsbase: hardware_capabilities_2() & HWCAP2_FSGSBASE != 0,
        timer_hz: timer_hz(),
    }
}

/// Returns whether a hardware counter can be opened for this process.
///
/// # Errors
/// What the kernel says if not.
pub fn hardware_counter(counter: HardwareCounter) -> std::io::Result<()> {
    Attributes::hardware(counter).open(0).map(drop)
}

fn file(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number<T: FromStr>(path: &str) -> Option<T> {
    file(path)?.parse().ok()
}

fn seccomp() -> Option<u32> {
    let status = file("/proc/self/status")?;
    status.lines().find_map(|line| line.strip_prefix("Seccomp:"))?.trim().parse().ok()
}

fn shadow_stack_status() -> u64 {
    let mut status = 0u64;
    // SAFETY: the request writes one `u64`, or nothing if the kernel does not know it.
    let result = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SHSTK_STATUS, &raw mut status) };
    if result == 0 { status } else { 0 }
}

fn hardware_capabilities_2() -> u64 {
    // SAFETY: no memory is involved.
    unsafe { libc::getauxval(libc::AT_HWCAP2) }
}

/// The coarse clock advances at each timer interrupt, and says so.
fn timer_hz() -> Option<u32> {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is valid for the result.
    let result = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut resolution) };
    let is_fraction = result == 0 && resolution.tv_sec == 0 && resolution.tv_nsec > 0;
    is_fraction.then(|| ((1_000_000_000 + resolution.tv_nsec / 2) / resolution.tv_nsec) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_has_a_release_and_a_timer() {
        let system = system();
        assert!(system.kernel_release.is_some_and(|release| !release.is_empty()));
        assert!(system.timer_hz.is_some_and(|hz| (24..=10_000).contains(&hz)));
        assert!(system.seccomp.is_some());
    }
}
