//! What kind of file it is, and its outermost facts.

use crate::fixtures::{LINKINGS, SYSTEM_FILES, compile, hex, intact, output};
use image::{ImageKind, Svma};

#[test]
fn every_linking_is_recognised() {
    use ImageKind::{Executable, PositionIndependentExecutable as Pie};
    let kinds = [
        (Pie, false),
        (Executable, false),
        (Executable, true),
        (Pie, true),
        (Pie, false),
        (Pie, false),
        (Pie, false),
        (Pie, false),
        (Pie, false),
    ];
    for ((name, flags), expected) in LINKINGS.into_iter().zip(kinds) {
        let fixture = compile("program.c", flags);
        let image = fixture.image();
        assert_eq!((image.kind(), image.is_static()), expected, "{name}");
    }
    let library = compile("library.c", &["-shared", "-fPIC"]);
    assert_eq!(library.image().kind(), ImageKind::SharedObject);
    assert!(!library.image().is_static());
    let libc = std::fs::read(SYSTEM_FILES[1]).expect("the C library");
    assert_eq!(intact(&libc).kind(), ImageKind::SharedObject, "although it names an interpreter");
}

#[test]
fn entry_and_build_id_are_those_that_readelf_prints() {
    let fixture = compile("program.c", &["-Wl,--build-id"]);
    let image = fixture.image();
    let header = output("readelf", &["-hW"], &fixture.path);
    let entry =
        header.lines().find_map(|line| line.trim().strip_prefix("Entry point address:")).expect("an entry point");
    assert_eq!(image.entry(), Some(Svma(hex(entry.trim()))));
    let notes = output("readelf", &["-n"], &fixture.path);
    let build_id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).expect("a build-id");
    assert_eq!(image.build_id().expect("a build-id").to_string(), build_id);
    let bare = fixture.without_sections();
    assert_eq!(intact(&bare).build_id(), image.build_id(), "found through the note segment");
}

#[test]
fn code_regions_are_the_executable_sections() {
    let fixture = compile("program.c", &[]);
    let image = fixture.image();
    let names: Vec<&str> = image.code_regions().iter().map(|region| region.name).collect();
    assert_eq!(names, [".init", ".plt", ".plt.got", ".text", ".fini"]);
    for region in image.code_regions() {
        assert_eq!(region.bytes.len() as u64, region.range.len());
        assert_eq!(image.read(region.range.start, region.bytes.len()), Some(region.bytes));
    }
    let bare = fixture.without_sections();
    let bare = intact(&bare);
    assert_eq!(bare.sections(), []);
    assert_eq!(bare.code_regions().len(), 1);
    assert!(image.code_regions().iter().all(|region| bare.code_regions()[0].range.contains(region.range.start)));
}

#[test]
fn reading_stops_at_segment_borders() {
    let fixture = compile("program.c", &[]);
    let image = fixture.image();
    for segment in image.segments() {
        let len = (segment.file_range.end - segment.file_range.start) as usize;
        let expected = &fixture.data[segment.file_range.start as usize..segment.file_range.end as usize];
        assert_eq!(image.read(segment.range.start, len), Some(expected));
        assert_eq!(image.read(segment.range.start, len + 1), None);
        assert_eq!(image.read(segment.range.start.offset(1), len), None);
    }
    assert_eq!(image.read(Svma(u64::MAX), 1), None);
    assert_eq!(image.read(Svma(0), usize::MAX), None);
}

#[test]
fn an_image_can_be_shared_between_threads() {
    fn assert_shared<T: Send + Sync>() {}
    assert_shared::<image::Image<'static>>();
}
