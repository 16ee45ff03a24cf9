//! What planted programs in Rust share. `planted.h` says how they are made and what they print.

/// Names the block that it is in.
#[macro_export]
macro_rules! mark {
    ($name:literal) => {
        // SAFETY: there is no instruction in it, only a line for a section that is not loaded.
        unsafe {
            std::arch::asm!(
                "77:",
                ".pushsection .planted,\"\",@progbits",
                ".quad 77b",
                concat!(".asciz \"", $name, "\""),
                ".popsection",
                options(nomem, nostack, preserves_flags)
            )
        }
    };
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

fn ns_of(clock: i32) -> f64 {
    let mut time = [0, 0];
    // SAFETY: a `timespec` is two words on this system, and they are there.
    assert_eq!(unsafe { clock_gettime(clock, &raw mut time) }, 0);
    time[0] as f64 * 1e9 + time[1] as f64
}

/// CPU time of the thread.
pub fn thread_ns() -> f64 {
    const THREAD: i32 = 3;
    ns_of(THREAD)
}

/// CPU time of the process. Comes last.
pub fn tell_cpu() {
    const PROCESS: i32 = 2;
    println!("cpu {:.0}", ns_of(PROCESS));
}

/// How much work the units of a round are, in parts of the usual: a program that is as regular as a
/// clock would keep time with a profiler's.
pub struct Sizes(u64);

impl Sizes {
    /// The first round's are next.
    pub fn new() -> Sizes {
        Sizes(1)
    }

    /// Of the next round.
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        0.5 + (self.0 >> 40) as f64 / f64::from(1 << 24)
    }
}

/// Rounds by the first argument.
pub fn rounds() -> u32 {
    std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2).max(2)
}

/// Multiplications, each of which needs what the one before it made.
#[inline(always)]
pub fn chain(mut x: u64, n: u32) -> u64 {
    for _ in 0..n {
        x = (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    x
}
