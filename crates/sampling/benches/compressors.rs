//! Events per second, one core, in cache: `cargo bench -p sampling`.
//!
//! The stream is 8 Ki pairs, Zipf-distributed over 4096 tuples, so that everything stays in the
//! second-level cache.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use sampling::{
    Associative, Compressor, Counter, Expression, FastHash, MisraGries, PaperHash, Periodic, Random, Rate, SpaceSaving,
    Split, TableSize, TagShape, TagTable, Thresholds, Whole,
};

type Pair = (u64, u64);

fn stream() -> Vec<Pair> {
    let shares: Vec<f64> = (1..=4096).map(|rank| 1.0 / f64::from(rank)).collect();
    let total: f64 = shares.iter().sum();
    let mut random = fastrand::Rng::with_seed(1);
    let mut draw = || {
        let mut at = random.f64() * total;
        let rank = shares.iter().position(|share| {
            at -= share;
            at <= 0.0
        });
        let rank = rank.unwrap_or(0) as u64;
        (0x40_0000 + rank / 4 * 4, rank % 4)
    };
    (0..1 << 13).map(|_| draw()).collect()
}

/// Prints the fastest pass, too: on a machine with other work it is what the code can do.
fn one_by_one<X: Compressor<Pair>>(c: &mut Criterion, name: &str, stream: &[Pair], mut compressor: X) {
    let mut group = c.benchmark_group("one by one");
    group.throughput(Throughput::Elements(stream.len() as u64));
    let mut fastest = Duration::MAX;
    group.bench_function(name, |b| {
        b.iter_custom(|n_passes| {
            let mut total = Duration::ZERO;
            for _ in 0..n_passes {
                let start = Instant::now();
                black_box(pass(&mut compressor, black_box(stream)));
                let elapsed = start.elapsed();
                fastest = fastest.min(elapsed);
                total += elapsed;
            }
            total
        });
    });
    println!("{name}: fastest pass {:.0} M events/s", stream.len() as f64 / fastest.as_secs_f64() / 1e6);
}

fn pass<X: Compressor<Pair>>(compressor: &mut X, stream: &[Pair]) -> u64 {
    let messages = stream.iter().filter_map(|&tuple| compressor.observe(tuple));
    messages.map(|message| message.weight).sum()
}

fn in_pieces<X: Compressor<Pair>>(c: &mut Criterion, name: &str, stream: &[Pair], mut compressor: X) {
    let mut group = c.benchmark_group("in pieces of 1024");
    group.throughput(Throughput::Elements(stream.len() as u64));
    group.bench_function(name, |b| {
        b.iter(|| {
            let mut sum = 0;
            for piece in black_box(stream).chunks(1024) {
                compressor.observe_all(piece, &mut |message| sum += message.weight);
            }
            sum
        });
    });
}

fn main() {
    let mut c = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    let stream = stream();
    let size = |n| TableSize::new(n).expect("a size");
    let rate = Rate::new(256).expect("a rate");
    let narrow = Periodic::<u8>::new(rate).expect("a rate that a byte counts to");
    let fast = FastHash::new(size(2048), 1);
    let paper = PaperHash::new(size(2048), 1).expect("a power of two");
    let shape = TagShape::new(rate, size(2048), 2, 2).expect("a shape");
    let thresholds = Thresholds::new(rate, 64, 8).expect("thresholds");
    let sets = FastHash::new(shape.sets().expect("sets"), 1);
    let parsed = "H[P256]2048".parse::<Expression>().expect("an expression").build::<Pair>(1);

    one_by_one(&mut c, "P256", &stream, Whole::new(Periodic::wide(rate)));
    one_by_one(&mut c, "C", &stream, Whole::new(Counter));
    one_by_one(&mut c, "R256", &stream, Whole::new(Random::new(rate, 1)));
    one_by_one(&mut c, "H[P256]2048", &stream, Split::new(narrow.clone(), fast));
    one_by_one(&mut c, "H[P256]2048 from text", &stream, parsed.clone());
    one_by_one(&mut c, "H:paper[P256]2048", &stream, Split::new(narrow, paper));
    one_by_one(&mut c, "T[256]2048", &stream, TagTable::new(shape, thresholds, sets));
    one_by_one(&mut c, "A2048", &stream, Associative::new(size(2048), 1));
    one_by_one(&mut c, "SS2048", &stream, SpaceSaving::new(size(2048), 1));
    one_by_one(&mut c, "MG2048", &stream, MisraGries::new(size(2048), 1));
    in_pieces(&mut c, "P256", &stream, Whole::new(Periodic::wide(rate)));
    in_pieces(&mut c, "C", &stream, Whole::new(Counter));
    in_pieces(&mut c, "H[P256]2048 from text", &stream, parsed);
}
