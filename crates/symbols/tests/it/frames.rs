//! What is said about single addresses.

use crate::fixture::*;
use profile::Symbols as _;

#[test]
fn inlined_functions_come_first_with_their_lines() {
    let workshop = Workshop::new();
    for flags in [&["-gdwarf-5"][..], &["-gdwarf-4", "-gz=zlib"]] {
        let program = workshop.compile_inlining(flags);
        let outer = addresses_of(&program, "outer");
        let options = symbols::Options { cache: None, ..workshop.offline() };
        let symbolizer = resolved(&profile(&program, BUILD_ID, &[]), &options, outer.clone());
        let frames = all_frames(&symbolizer, outer.clone());
        let inlined = frames.iter().find(|frames| frames.len() == 2).expect("an inlined address");
        assert_eq!(summary(inlined), "inner:2 outer:5", "{flags:?}");
        assert_eq!([inlined[0].function_line, inlined[1].function_line], [1, 4], "{flags:?}");
        assert_eq!(inlined[1].linkage_name, "outer");
        let source = &inlined[0].file;
        assert!(source.ends_with("inlining.c"), "{source}");
        assert_eq!(symbolizer.source_line(source, 2).as_deref(), Some("    return x * 3 + 1;"));
        assert_eq!(symbolizer.function_name(MODULE, outer.start + 1).raw, "outer");
    }
}

const CPP: &str = "\
#include <vector>
volatile int odd, even;
namespace space {
template <class T> struct Sum {
    T total{};
    inline void add(T value) { total += value > 7 ? value * 3 : value > 3 ? value : -value; }
};
}
namespace {
__attribute__((noinline)) int hidden(const std::vector<int> &values) {
    space::Sum<int> sum;
    for (int value : values) { if (value & 1) { odd = value; sum.add(value); } else even = value ? value + 1 : 7; }
    return sum.total;
}
}
int main(int argc, char **argv) {
    std::vector<int> values(argv[0][0], argc);
    return hidden(values);
}
";

const HIDDEN: &str = "_ZN12_GLOBAL__N_16hiddenERKSt6vectorIiSaIiEE";

/// Every address of a C++ function, against the `addr2line` of binutils.
#[test]
fn frames_and_discriminators_are_those_of_binutils() {
    let workshop = Workshop::new();
    let program = workshop.compile("g++", ("sum.cc", CPP), &["-O2", "-g", "-fno-ipa-cp"]);
    let range = addresses_of(&program, HIDDEN);
    let symbolizer = resolved(&profile(&program, BUILD_ID, &[]), &workshop.offline(), range.clone());
    let mut n_inlined = 0;
    let mut n_discriminated = 0;
    for address in range {
        let frames = symbolizer.frames(MODULE, address);
        let expected = run("addr2line", &["-f", "-i", "-e", &program, &format!("{address:#x}")]);
        let expected: Vec<(&str, &str)> =
            expected.lines().collect::<Vec<_>>().chunks(2).map(|pair| (pair[0], pair[1])).collect();
        assert_eq!(frames.len(), expected.len(), "{address:#x}: {frames:#?} {expected:#?}");
        for (frame, (function, place)) in frames.iter().zip(&expected) {
            assert!(frame.linkage_name == *function || frame.function.contains(function), "{function}: {frame:?}");
            let line = place.rsplit(':').next().expect("a line").split(' ').next().expect("a number");
            assert_eq!(frame.line.to_string(), line.replace('?', "0"), "{address:#x}: {frames:#?} {expected:#?}");
        }
        let expected = expected[0].1.split("(discriminator ").nth(1).map_or("0", |rest| rest.trim_end_matches(')'));
        assert_eq!(frames[0].discriminator.to_string(), expected, "{address:#x}");
        n_inlined += usize::from(frames.len() > 1);
        n_discriminated += usize::from(frames[0].discriminator > 0);
        assert_eq!(frames.last().map(|frame| frame.function_line), Some(10));
    }
    assert!(n_inlined > 10 && n_discriminated > 0, "{n_inlined} inlined, {n_discriminated} with discriminator");
}

#[test]
fn names_without_linkage_name_get_it_from_the_symbol() {
    let workshop = Workshop::new();
    let program = workshop.compile("g++", ("sum.cc", CPP), &["-O0", "-g"]);
    let range = addresses_of(&program, HIDDEN);
    let symbolizer = resolved(&profile(&program, BUILD_ID, &[]), &workshop.offline(), range.clone());
    let frames = symbolizer.frames(MODULE, range.start);
    assert_eq!(frames.last().map(|frame| frame.linkage_name.as_str()), Some(HIDDEN));
    let readable = &frames.last().expect("a frame").function;
    assert!(readable.starts_with("(anonymous namespace)::hidden("), "{readable}");
}

#[test]
fn absurd_questions_have_empty_answers() {
    let workshop = Workshop::new();
    let program = workshop.compile_inlining(&[]);
    let mut symbolizer = symbols::Symbolizer::new(&profile(&program, BUILD_ID, &[]), &workshop.offline());
    let nowhere = profile::model::ModuleId(7);
    symbolizer.resolve(&[(MODULE, u64::MAX), (nowhere, 0), (MODULE, 0)]);
    assert_eq!(symbolizer.frames(MODULE, u64::MAX), []);
    assert_eq!(symbolizer.frames(MODULE, 0), []);
    assert_eq!(symbolizer.frames(nowhere, 0), []);
    assert_eq!(symbolizer.function_name(nowhere, 0x1a2b0).raw, "fn_1a2b0");
}
