//! Two threads, of which one does four times the work of the other.

mod planted;

use planted::{Sizes, chain, rounds, tell_cpu, thread_ns};

const ROUND: f64 = 40_000.0;

#[unsafe(no_mangle)]
#[inline(never)]
fn much(n: u64, mut x: u64) -> u64 {
    for i in 0..4 * n {
        x = chain(x + i, 24);
    }
    x
}

#[unsafe(no_mangle)]
#[inline(never)]
fn little(n: u64, mut x: u64) -> u64 {
    for i in 0..n {
        x = chain(x ^ i, 24);
    }
    x
}

fn spent(work: fn(u64, u64) -> u64) -> f64 {
    let start = thread_ns();
    let (mut x, mut sizes) = (1, Sizes::new());
    for _ in 0..rounds() {
        x = work((ROUND * sizes.next()) as u64, x);
    }
    assert_ne!(x, 0);
    thread_ns() - start
}

fn main() {
    let threads = [("much", much as fn(u64, u64) -> u64), ("little", little)];
    let threads = threads.map(|(name, work)| (name, std::thread::spawn(move || spent(work))));
    for (name, thread) in threads {
        println!("function {name} {:.0} 0", thread.join().expect("a thread that ends"));
    }
    tell_cpu();
}
