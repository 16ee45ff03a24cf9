//! Function starts, sizes and names, against `readelf`, `objdump` and `nm`.

use crate::fixtures::{LINKINGS, SYSTEM_FILES, compile, hex, intact, output};
use image::{FunctionSeed, Image, NameKind, Sources, Svma, SymbolSource};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Names by address of the functions that `readelf -s` lists.
fn listed_functions(path: &Path) -> BTreeMap<Svma, BTreeSet<String>> {
    let mut functions: BTreeMap<Svma, BTreeSet<String>> = BTreeMap::new();
    for line in output("readelf", &["-sW"], path).lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [_, value, _, "FUNC" | "IFUNC", _, _, section, name, ..] = fields[..]
            && section != "UND"
        {
            let name = name.split('@').next().expect("a name");
            functions.entry(Svma(hex(value))).or_default().insert(name.to_owned());
        }
    }
    functions
}

/// Start and end of the unwind entries that `objdump` lists.
fn listed_frames(path: &Path) -> Vec<(Svma, Svma)> {
    let listing = output("objdump", &["--dwarf=frames"], path);
    let pcs = listing.lines().filter_map(|line| line.split_once(" FDE ")?.1.split_once("pc="));
    let mut frames: Vec<_> = pcs
        .map(|(_, pcs)| {
            let (start, end) = pcs.split_once("..").expect("a range");
            (Svma(hex(start)), Svma(hex(end)))
        })
        .collect();
    frames.sort();
    frames
}

fn seed<'a>(image: &'a Image<'_>, start: Svma) -> Option<&'a FunctionSeed> {
    let index = image.functions().binary_search_by_key(&start, |function| function.start).ok()?;
    image.functions().get(index)
}

#[test]
fn every_function_symbol_is_a_function() {
    for (linking, flags) in LINKINGS {
        let fixture = compile("program.c", flags);
        let image = fixture.image();
        let listed = listed_functions(&fixture.path);
        assert!(listed.len() > 8, "{linking}");
        for (start, names) in listed {
            let function = seed(&image, start).unwrap_or_else(|| panic!("{linking}: {names:?} is missing"));
            assert!(function.sources.contains(Sources::SYMTAB), "{linking}: {names:?} from {}", function.sources);
            assert!(names.contains(&image.name_of(start).raw), "{linking}: {names:?}");
            for name in &names {
                assert!(image.lookup(name).contains(&start), "{linking}: {name}");
            }
        }
    }
}

#[test]
fn frames_are_those_that_objdump_lists() {
    let fixtures = LINKINGS.map(|(_, flags)| compile("program.c", flags));
    let paths = fixtures.iter().map(|fixture| fixture.path.as_path());
    for path in paths.chain(SYSTEM_FILES.map(Path::new)) {
        let data = std::fs::read(path).expect("a readable file");
        let image = intact(&data);
        let frames: Vec<_> = image.frames().iter().map(|frame| (frame.range.start, frame.range.end)).collect();
        assert_eq!(frames, listed_frames(path), "{}", path.display());
    }
}

#[test]
fn stripped_files_keep_the_functions_of_their_frames() {
    let fixture = compile("program.c", &["-O2"]);
    let stripped = fixture.changed_by("strip", &[]);
    let (full, stripped) = (fixture.image(), stripped.image());
    let main = full.lookup("main")[0];
    let function = seed(&stripped, main).expect("main has a frame");
    assert_eq!(function.sources, Sources::FDE);
    assert_eq!(function.size, seed(&full, main).expect("main").size);
    let name = stripped.name_of(main);
    assert_eq!((name.raw.as_str(), name.kind), (format!("fn_{main:x}").as_str(), NameKind::Synthetic));
    assert_eq!(stripped.lookup(&name.raw), [main]);
}

#[test]
fn start_and_exit_functions_are_found_without_symbols() {
    for (linking, flags) in LINKINGS {
        let fixture = compile("program.c", flags);
        let stripped = fixture.changed_by("strip", &[]);
        let (full, stripped) = (fixture.image(), stripped.image());
        let sources = |name: &str| {
            let start = full.lookup(name)[0];
            seed(&stripped, start).unwrap_or_else(|| panic!("{linking}: {name} is missing")).sources
        };
        assert!(sources("_start").contains(Sources::ENTRY), "{linking}");
        assert!(sources("before_main").contains(Sources::INIT_ARRAY), "{linking}");
        assert!(sources("after_main").contains(Sources::FINI_ARRAY), "{linking}");
        assert!(sources("_init").contains(Sources::INIT), "{linking}");
        assert!(sources("_fini").contains(Sources::FINI), "{linking}");
    }
}

#[test]
fn files_without_section_headers_keep_functions_and_exports() {
    for (source, flags) in [
        ("program.c", &["-O2", "-rdynamic"][..]),
        ("program.c", &["-O2", "-rdynamic", "-Wl,--hash-style=sysv"]),
        ("program.c", &["-O2", "-no-pie", "-rdynamic"]),
        ("library.c", &["-O2", "-shared", "-fPIC"]),
    ] {
        let fixture = compile(source, flags);
        let bare = fixture.without_sections();
        let (full, bare) = (fixture.image(), intact(&bare));
        assert_eq!(bare.exported(), full.exported(), "{source} {flags:?}");
        assert_eq!(bare.frames(), full.frames(), "{source} {flags:?}");
        let named = |image: &Image<'_>| -> Vec<String> {
            image.exported().iter().map(|&start| image.name_of(start).raw).collect()
        };
        assert_eq!(named(&bare), named(&full), "{source} {flags:?}");
        assert!(!bare.exported().is_empty());
    }
}

#[test]
fn functions_are_sorted_unique_and_inside_code() {
    for path in SYSTEM_FILES {
        let data = std::fs::read(path).expect("a readable file");
        let image = intact(&data);
        assert!(image.functions().is_sorted_by(|a, b| a.start < b.start));
        for function in image.functions() {
            let regions = image.code_regions();
            let region = regions.iter().find(|region| region.range.contains(function.start)).expect("inside code");
            assert!(function.start.offset(function.size.unwrap_or(0)) <= region.range.end);
            assert_ne!(function.size, Some(0));
        }
    }
}

#[test]
fn exported_functions_are_those_that_nm_lists() {
    let libc = Path::new(SYSTEM_FILES[1]);
    let data = std::fs::read(libc).expect("the C library");
    let image = intact(&data);
    let mut listed = BTreeSet::new();
    for line in output("nm", &["-D", "--defined-only"], libc).lines() {
        if let [address, "T" | "W" | "i", _] = line.split_whitespace().collect::<Vec<_>>()[..] {
            listed.insert(Svma(hex(address)));
        }
    }
    assert_eq!(image.exported().to_vec(), listed.into_iter().collect::<Vec<_>>());
}

#[test]
fn the_best_name_wins() {
    let data = std::fs::read(SYSTEM_FILES[1]).expect("the C library");
    let image = intact(&data);
    let best = |name: &str| image.name_of(image.lookup(name)[0]).raw;
    assert_eq!(best("__libc_malloc"), "malloc");
    assert_eq!(best("_IO_puts"), "puts", "weak, but without underscore");
    let symbols = image.symbols().iter().filter(|symbol| symbol.name == "malloc");
    assert!(symbols.into_iter().all(|symbol| symbol.source == SymbolSource::Dynsym));
}

#[test]
fn cpp_functions_are_found_by_readable_names() {
    let fixture = compile("exceptions.cpp", &["-O2"]);
    let image = fixture.image();
    let expected = image.lookup("_ZN6shapes6caughtEi");
    assert_eq!(expected.len(), 1);
    assert_eq!(image.lookup("shapes::caught(int)"), expected);
    assert_eq!(image.lookup("shapes::caught"), expected);
    assert_eq!(image.name_of(expected[0]).demangled(), "shapes::caught(int)");
    assert_eq!(image.lookup("shapes::checked<int>").len(), 1);
    assert_eq!(image.lookup("shapes"), []);
    assert_eq!(image.lookup("operator delete(void*, unsigned long)@plt").len(), 1);
}
