//! Landing pads. With branch tracking each one starts with `endbr64`, which tells right addresses
//! from wrong ones.

use crate::fixtures::{Fixture, SYSTEM_FILES, compile, intact};
use image::{Image, Svma};
use std::collections::BTreeSet;

const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];

fn tracked(flags: &[&str]) -> Fixture {
    compile("exceptions.cpp", &[&["-fcf-protection=full"], flags].concat())
}

/// Start of the frame and landing pad of all call sites that have one.
fn landing_pads(image: &Image<'_>) -> BTreeSet<(Svma, Svma)> {
    let mut pads = BTreeSet::new();
    for frame in image.frames() {
        for site in image.call_sites(frame).expect("a well-formed table") {
            assert!(site.range.start >= frame.range.start && site.range.end <= frame.range.end);
            pads.extend(site.landing_pad.map(|pad| (frame.range.start, pad)));
        }
    }
    pads
}

#[test]
fn every_landing_pad_starts_with_endbr64() {
    for flags in
        [&["-O0"][..], &["-O2"], &["-O3", "-static"], &["-Os", "-no-pie", "-fno-pie"], &["-O2", "-shared", "-fPIC"]]
    {
        let fixture = tracked(flags);
        let image = fixture.image();
        let own: BTreeSet<Svma> = ["shapes::caught", "shapes::guarded", "shapes::checked<int>"]
            .iter()
            .flat_map(|name| image.lookup(name))
            .collect();
        let pads: Vec<_> = landing_pads(&image).into_iter().filter(|(start, _)| own.contains(start)).collect();
        assert!(pads.len() >= 3, "{flags:?}: {pads:?}");
        for (start, pad) in pads {
            assert_eq!(image.read(pad, 4), Some(ENDBR64), "{flags:?}: {start} lands at {pad}");
        }
    }
}

#[test]
fn cold_parts_have_call_sites_of_their_own() {
    let fixture = tracked(&["-O2"]);
    let image = fixture.image();
    let cold = image.lookup("_ZN6shapes7guardedEi.cold")[0];
    let cold = image.frame_at(cold).expect("the cold part has a frame");
    assert!(cold.lsda.is_some() && cold.has_personality);
    assert!(!image.call_sites(cold).expect("a well-formed table").is_empty());
}

#[test]
fn landing_pads_may_be_relative_to_another_part() {
    let fixture = compile("landing.s", &["-shared", "-nostdlib"]);
    let image = fixture.image();
    let function = image.frame_at(image.lookup("split")[0]).expect("a frame");
    let pad = image.lookup("pad")[0];
    let sites = image.call_sites(function).expect("a well-formed table");
    let found: Vec<_> = sites.iter().map(|site| (site.range.len(), site.landing_pad, site.action)).collect();
    assert_eq!(found, [(2, Some(pad), 1), (3, None, 0)]);
}

#[test]
fn landing_pads_of_system_libraries_are_code() {
    for path in [SYSTEM_FILES[1], SYSTEM_FILES[2]] {
        let data = std::fs::read(path).expect("a readable file");
        let image = intact(&data);
        let pads = landing_pads(&image);
        assert!(pads.len() > 50, "{path}");
        let outside: Vec<_> = pads.iter().filter(|&&(_, pad)| image.frame_at(pad).is_none()).collect();
        assert!(outside.is_empty(), "{path}: {outside:?}");
    }
}

/// The compiler's own listing of the table: one `.uleb128 .LEHBn` line per call site.
#[test]
fn call_sites_are_as_many_as_the_compiler_wrote() {
    let fixture = tracked(&["-O2", "-save-temps=obj"]);
    let image = fixture.image();
    let assembly = std::fs::read_to_string(fixture.beside("built-exceptions.s")).expect("the compiler kept its output");
    let written = assembly.lines().filter(|line| line.contains(".uleb128 .LEHB") && !line.contains(".LEHE")).count();
    let found: usize = image.frames().iter().map(|frame| image.call_sites(frame).expect("a table").len()).sum();
    assert_eq!(found, written);
}
