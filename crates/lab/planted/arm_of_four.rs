//! A load that four paths share. Which of four tables it goes to, an earlier choice says: one is in
//! memory, one in the second cache, two in the first.

#[macro_use]
mod planted;

use planted::{Sizes, chain, rounds, tell_cpu, thread_ns};

const N: f64 = 60_000.0;
/// Turns of the paths.
const CHOICES: [u8; 16] = [0, 1, 0, 3, 1, 2, 0, 1, 0, 2, 1, 0, 1, 2, 0, 1];
const FAR: u8 = 3;
const MIDDLE: u8 = 2;
const NOTHING: u8 = 9;

struct Tables {
    far: Vec<u32>,
    middle: Vec<u32>,
    near: Vec<u32>,
}

#[unsafe(no_mangle)]
#[inline(never)]
fn step(tables: &Tables, choices: &[u8; 16], n: u64, left_out: u8, mut x: u64) -> u64 {
    for i in 0..n {
        let choice = choices[i as usize % 16];
        if choice == left_out {
            continue;
        }
        let table = match choice {
            0 => {
                mark!("plain");
                x ^= 0x55;
                &tables.near
            }
            1 => {
                mark!("counted");
                x += i;
                &tables.near
            }
            2 => {
                mark!("middle");
                &tables.middle
            }
            _ => {
                mark!("far");
                &tables.far
            }
        };
        x = chain(x + u64::from(table[(x >> 24) as usize & (table.len() - 1)]), 7);
    }
    x
}

#[unsafe(no_mangle)]
#[inline(never)]
fn prepare() -> Tables {
    let table = |n: u32| (0..n).map(|i| i.wrapping_mul(1_664_525)).collect();
    Tables { far: table(1 << 26), middle: table(1 << 16), near: table(1 << 8) }
}

/// Units with and without a part: their sizes, and the differences of their times.
#[derive(Default)]
struct Removal {
    pairs: Vec<(f64, f64)>,
}

impl Removal {
    fn sum(&self) -> f64 {
        self.pairs.iter().map(|pair| pair.1).sum()
    }

    /// By what differences differ from being in proportion to the size.
    fn error(&self) -> f64 {
        let n = self.pairs.len() as f64;
        let rate = self.sum() / self.pairs.iter().map(|pair| pair.0).sum::<f64>();
        let squares: f64 = self.pairs.iter().map(|(size, value)| (value - rate * size).powi(2)).sum();
        (squares * n / (n - 1.0)).sqrt()
    }
}

fn main() {
    let start = thread_ns();
    let tables = prepare();
    let prepared_ns = thread_ns() - start;
    let (mut x, mut all_ns) = (1, 0.0);
    let mut took = |size, left_out| {
        let start = thread_ns();
        x = step(&tables, std::hint::black_box(&CHOICES), (N * size) as u64, left_out, x);
        let ns = thread_ns() - start;
        all_ns += ns;
        ns
    };
    let (mut far, mut middle) = (Removal::default(), Removal::default());
    let mut sizes = Sizes::new();
    for _ in 0..rounds() {
        let size = sizes.next();
        far.pairs.push((size, took(size, NOTHING) - took(size, FAR)));
        middle.pairs.push((size, took(size, NOTHING) - took(size, MIDDLE)));
    }
    assert_ne!(x, 0);
    // Of the four units of a round, each path runs in all but the one that it is left out of.
    println!("function step {all_ns:.0} 0");
    println!("path step far {:.0} {:.0}", 3.0 * far.sum(), 3.0 * far.error());
    println!("path step middle {:.0} {:.0}", 3.0 * middle.sum(), 3.0 * middle.error());
    println!("function prepare {prepared_ns:.0} 0");
    tell_cpu();
}
