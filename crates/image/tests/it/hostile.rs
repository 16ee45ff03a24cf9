//! Damaged files: whatever the bytes, no panic, and work in proportion to the file.

use crate::fixtures::{compile, intact};
use image::{Image, LineSections, ProblemKind, Svma};
use proptest::prelude::*;

/// Asks everything about a file that can be asked.
fn exhaust(data: &[u8]) {
    if let Ok(sections) = LineSections::read(data, None)
        && let Ok(table) = sections.table()
    {
        for at in [0, 0x1139, 0x1150, 0x401136, u64::MAX] {
            let _ = table.frames_at(Svma(at));
        }
    }
    let Ok(image) = Image::parse(data) else { return };
    let pointers = image.code_pointers();
    assert!(pointers.len() <= data.len(), "{} pointers in {} bytes", pointers.len(), data.len());
    for &(at, target) in pointers.iter().take(50) {
        assert!(image.pointer_at(at).is_some());
        image.name_of(target).demangled();
    }
    for frame in image.frames() {
        let _ = image.unwind_rows(frame);
        let _ = image.call_sites(frame);
        assert_eq!(image.frame_at(frame.range.start), Some(frame));
    }
    for stub in image.plt_stubs() {
        image.import_at(stub.slot);
        image.slot_target(stub.slot);
    }
    assert!(image.functions().is_sorted_by(|a, b| a.start < b.start));
    for function in image.functions() {
        image.name_of(function.start).demangled();
        image.read(function.start, function.size.unwrap_or(1) as usize);
    }
    image.lookup("shapes::caught");
    image.debug_links();
    let _ = image.problems().iter().map(ToString::to_string).collect::<String>();
    if let Ok(image) = Image::parse(data) {
        let _ = image.with_debug_file(data);
    }
}

/// The generator of Steele, Lea and Flood (SplitMix64): the same damage in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Numbers that overflow, wrap, or point somewhere else.
const NASTY: [u64; 8] = [0, 1, u64::MAX, i64::MAX as u64, 1 << 63, 0xffff_ffff, 0x8000_0000, 64];

fn damage(data: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(8) {
        let len = data.len();
        if len < 128 {
            return;
        }
        match random.below(6) {
            0 => data.truncate(64 + random.below(len - 64)),
            1 => {
                let at = random.below(len);
                data[at] ^= 1 << random.below(8);
            }
            2 => {
                // A field of the file header.
                let at = 16 + random.below(40);
                data[at..at + 2].copy_from_slice(&random.next().to_le_bytes()[..2]);
            }
            3 => {
                // A field of a program header.
                let at = (64 + 8 * random.below(7 * 13)).min(len - 8);
                let value =
                    if random.below(2) == 0 { NASTY[random.below(8)] } else { random.next() >> random.below(64) };
                data[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            4 => {
                // A field of a section header; the table is at the end of the file.
                let table_len = len.min(64 * 40);
                let at = (len - table_len + 8 * random.below(table_len / 8)).min(len - 8);
                data[at..at + 8].copy_from_slice(&NASTY[random.below(8)].to_le_bytes());
            }
            _ => {
                let at = 8 * random.below(len / 8);
                let value = if random.below(2) == 0 { NASTY[random.below(8)] } else { random.next() };
                data[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
}

#[test]
fn damaged_files_do_no_harm() {
    let seeds = [
        compile("program.c", &["-O2", "-g", "-fcf-protection=full"]).data,
        compile("program.c", &["-O1", "-no-pie", "-fno-pie", "-rdynamic"]).data,
        compile("exceptions.cpp", &["-O2"]).data,
        compile("library.c", &["-O1", "-shared", "-fPIC", "-Wl,-z,pack-relative-relocs"]).data,
        compile("inlined.c", &["-O2", "-g"]).changed_by("objcopy", &["--compress-debug-sections=zlib"]).data,
        compile("program.c", &["-O2"]).without_sections(),
    ];
    let mut random = Random(2);
    for round in 0..600 {
        for seed in &seeds {
            let mut data = seed.clone();
            damage(&mut data, &mut random);
            if std::panic::catch_unwind(|| exhaust(&data)).is_err() {
                let file = std::env::temp_dir().join("strobe-image-panic");
                std::fs::write(&file, &data).expect("a writable temporary folder");
                panic!("round {round}: the damaged file is {}", file.display());
            }
        }
    }
}

#[test]
fn every_truncation_is_harmless() {
    let data = compile("program.c", &["-O2", "-s"]).data;
    for len in (0..data.len()).step_by(97).chain(0..200) {
        exhaust(&data[..len]);
    }
}

#[test]
fn a_truncated_file_is_partial_and_says_so() {
    let fixture = compile("program.c", &["-O2"]);
    let full = fixture.image();
    let text = full.code_regions().iter().find(|region| region.name == ".text").expect("a .text section");
    let cut = text.bytes.as_ptr_range().end.addr() - fixture.data.as_ptr().addr();
    let image = Image::parse(&fixture.data[..cut]).expect("the header is intact");
    let kinds: Vec<ProblemKind> = image.problems().iter().map(|problem| problem.kind).collect();
    assert!(kinds.contains(&ProblemKind::SectionHeaders), "{kinds:?}");
    assert!(kinds.contains(&ProblemKind::SegmentTruncated), "{kinds:?}");
    assert!(image.read(text.range.start, text.bytes.len()).is_some(), "the code is still there");
}

/// Overwrites the packed relocations with bitmaps of ones: 63 relocations from every 8 bytes.
#[test]
fn packed_relocations_cannot_outgrow_the_file() {
    let fixture = compile("library.c", &["-O1", "-shared", "-fPIC", "-Wl,-z,pack-relative-relocs"]);
    let image = intact(&fixture.data);
    let section = image.sections().iter().find(|section| section.name == ".relr.dyn").expect("packed relocations");
    let dynamic = image.sections().iter().find(|section| section.name == ".dynamic").expect("a dynamic section");
    let offset_of = |at| image.read(at, 1).map(|bytes| bytes.as_ptr().addr() - fixture.data.as_ptr().addr());
    let at = offset_of(section.range.start).expect("in the file");
    let dynamic_at = offset_of(dynamic.range.start).expect("in the file");
    let segment =
        image.segments().iter().find(|segment| segment.range.contains(section.range.start)).expect("a segment");
    let end = segment.file_range.end as usize;

    let mut data = fixture.data.clone();
    data[at + 8..end].fill(0xff);
    let size_tag = 35u64.to_le_bytes();
    let entry = data[dynamic_at..].chunks(16).position(|entry| entry[..8] == size_tag).expect("DT_RELRSZ");
    data[dynamic_at + entry * 16 + 8..][..8].copy_from_slice(&((end - at) as u64 & !7).to_le_bytes());
    exhaust(&data);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn random_bytes_behind_a_good_header_are_harmless(body in prop::collection::vec(any::<u8>(), 0..4096)) {
        let mut data = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 62, 0];
        data.extend(body);
        exhaust(&data);
    }
}
