//! Linkage table stubs, against the labels that `objdump` prints.

use crate::fixtures::{Fixture, LINKINGS, SYSTEM_FILES, compile, hex, intact, output};
use image::{Image, PltStubKind, Sources, Svma};
use std::collections::BTreeMap;
use std::path::Path;

fn listed_stubs(image: &Image<'_>, path: &Path) -> BTreeMap<Svma, String> {
    let sections = image.sections().iter().filter(|section| section.name.contains("plt") && section.is_executable);
    let sections: Vec<String> = sections.map(|section| format!("--section={}", section.name)).collect();
    let arguments: Vec<&str> = sections.iter().map(String::as_str).chain(["-d", "--no-show-raw-insn"]).collect();
    let listing = output("objdump", &arguments, path);
    let labels = listing.lines().filter_map(|line| line.strip_suffix("@plt>:")?.split_once(" <"));
    labels.map(|(address, name)| (Svma(hex(address)), name.split('@').next().unwrap_or(name).to_owned())).collect()
}

fn jump_stubs(image: &Image<'_>) -> BTreeMap<Svma, String> {
    let stubs = image.plt_stubs().iter().filter(|stub| stub.kind == PltStubKind::Jump);
    stubs.map(|stub| (stub.range.start, stub.symbol.clone().unwrap_or_default())).collect()
}

fn programs() -> Vec<(&'static str, Fixture)> {
    LINKINGS.into_iter().map(|(name, flags)| (name, compile("program.c", flags))).collect()
}

/// The stub of a function that is chosen at run time has no symbol; objdump names it after the
/// address of the resolver.
fn is_resolved(name: &str) -> bool {
    name.starts_with("*ABS*")
}

fn stubs_agree(image: &Image<'_>, path: &Path) {
    let (found, listed) = (jump_stubs(image), listed_stubs(image, path));
    assert_eq!(found.keys().collect::<Vec<_>>(), listed.keys().collect::<Vec<_>>(), "{}", path.display());
    for (start, name) in listed.iter().filter(|(_, name)| !is_resolved(name)) {
        assert_eq!(&found[start], name, "{}: {start}", path.display());
        assert_eq!(image.name_of(*start).raw, format!("{name}@plt"));
        assert!(image.lookup(&format!("{name}@plt")).contains(start));
    }
}

#[test]
fn stubs_have_the_names_that_objdump_prints() {
    for (_, fixture) in programs() {
        let image = fixture.image();
        if !image.is_static() {
            stubs_agree(&image, &fixture.path);
        }
    }
    for path in SYSTEM_FILES.map(Path::new) {
        let data = std::fs::read(path).expect("a readable file");
        stubs_agree(&intact(&data), path);
    }
}

#[test]
fn stubs_of_a_static_program_are_named_after_their_resolvers() {
    let fixture = compile("program.c", &["-O2", "-static"]);
    let image = fixture.image();
    let relocations = output("readelf", &["-rW"], &fixture.path);
    let resolved = relocations.lines().filter(|line| line.contains("R_X86_64_IRELATIV")).count();
    let found = jump_stubs(&image);
    assert_eq!(found.len(), resolved);
    assert!(found.values().any(|name| name == "strlen"), "{found:?}");
    let strlen = image.plt_stubs().iter().find(|stub| stub.symbol.as_deref() == Some("strlen")).expect("a stub");
    assert_eq!(image.slot_target(strlen.slot), None, "a resolver is not the target");
    assert_eq!(image.pointer_at(strlen.slot), None);
}

#[test]
fn stubs_are_functions_and_their_frames_are_not() {
    for (linking, fixture) in programs() {
        let image = fixture.image();
        for stub in image.plt_stubs() {
            let functions = image.functions();
            let index = functions.binary_search_by_key(&stub.range.start, |function| function.start);
            let function = functions[index.unwrap_or_else(|_| panic!("{linking}: {stub:?}"))];
            assert_eq!(function.sources, Sources::PLT, "{linking}");
            assert_eq!(function.size, Some(stub.range.len()), "{linking}");
        }
        assert!(image.plt_stubs().is_sorted_by(|a, b| a.range.end <= b.range.start), "{linking}");
    }
}

#[test]
fn lazy_stubs_and_headers_are_told_apart() {
    let fixture = compile("program.c", &["-O2", "-fcf-protection=full", "-Wl,-z,ibtplt", "-Wl,-z,lazy"]);
    let image = fixture.image();
    let count = |kind| image.plt_stubs().iter().filter(|stub| stub.kind == kind).count();
    assert_eq!(count(PltStubKind::Header), 1);
    let lazy: Vec<_> = image.plt_stubs().iter().filter(|stub| stub.kind == PltStubKind::Lazy).collect();
    assert_eq!(lazy.len() + 1, count(PltStubKind::Jump), "all but __cxa_finalize are bound lazily");
    for stub in lazy {
        assert_eq!(stub.symbol, None);
        assert!(image.import_at(stub.slot).is_some(), "{stub:?}");
    }
}

#[test]
fn stubs_are_found_without_section_headers() {
    for (linking, fixture) in programs() {
        let bare = fixture.without_sections();
        let (full, bare) = (fixture.image(), intact(&bare));
        if full.is_static() {
            continue;
        }
        assert_eq!(jump_stubs(&bare), jump_stubs(&full), "{linking}");
        let without_symbols = |image: &Image<'_>| -> Vec<Svma> {
            let functions = image.functions().iter().filter(|function| function.sources.contains(Sources::FDE));
            functions.map(|function| function.start).collect()
        };
        assert_eq!(
            without_symbols(&bare),
            without_symbols(&full),
            "{linking}: no frame of a linkage table is a function"
        );
    }
}
