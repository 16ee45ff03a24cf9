//! Stored pointers and bound slots.

use crate::fixtures::{Fixture, LINKINGS, compile, intact};
use image::{Image, Svma};

fn address_of(image: &Image<'_>, name: &str) -> Svma {
    image.symbols().iter().find(|symbol| symbol.name == name).unwrap_or_else(|| panic!("{name} is missing")).address
}

fn slots(start: Svma, count: u64) -> impl Iterator<Item = Svma> {
    (0..count).map(move |index| start.offset(index * 8))
}

/// The word at `at` as the file holds it.
fn raw_word(image: &Image<'_>, at: Svma) -> Option<u64> {
    Some(u64::from_le_bytes(image.read(at, 8)?.try_into().ok()?))
}

#[test]
fn a_table_of_functions_is_read_in_every_linking() {
    for (linking, flags) in LINKINGS {
        let fixture = compile("program.c", flags);
        let image = fixture.image();
        let table = address_of(&image, "table");
        let expected = ["add", "subtract", "multiply"].map(|name| address_of(&image, name));
        let found: Vec<_> = slots(table, 3).map(|slot| image.pointer_at(slot)).collect();
        assert_eq!(found, expected.map(Some), "{linking}");
        assert_eq!(image.pointer_at(address_of(&image, "indirect")), Some(table), "{linking}");
        let pointers = image.code_pointers();
        for pair in slots(table, 3).zip(expected) {
            assert!(pointers.contains(&pair), "{linking}: {pair:?}");
        }
        assert!(pointers.is_sorted_by(|a, b| a.0 < b.0), "{linking}");
        let is_code = |at: Svma| image.code_regions().iter().any(|region| region.range.contains(at));
        assert!(pointers.iter().all(|&(_, target)| is_code(target)), "{linking}");
    }
}

#[test]
fn a_position_independent_word_without_relocation_is_no_pointer() {
    let fixture = compile("program.c", &["-pie", "-fPIE"]);
    let image = fixture.image();
    assert_eq!(image.pointer_at(address_of(&image, "counter")), None);
    let fixed = compile("program.c", &["-no-pie", "-fno-pie"]);
    let image = fixed.image();
    let table = address_of(&image, "table");
    assert_eq!(image.pointer_at(table), raw_word(&image, table).map(Svma));
}

#[test]
fn packed_relocations_are_used_by_the_fixture() {
    let fixture = compile("program.c", &["-pie", "-fPIE", "-Wl,-z,pack-relative-relocs"]);
    assert!(fixture.image().sections().iter().any(|section| section.name == ".relr.dyn"), "the linker packs");
    let bare = fixture.without_sections();
    let (full, bare) = (fixture.image(), intact(&bare));
    assert!(bare.code_pointers().len() >= 3);
    assert_eq!(bare.code_pointers(), full.code_pointers());
}

fn library() -> Fixture {
    compile("library.c", &["-O1", "-shared", "-fPIC", "-Wl,-z,lazy"])
}

/// The slot of the stub that jumps to `name`.
fn slot_of(image: &Image<'_>, name: &str) -> Svma {
    let stub = image.plt_stubs().iter().find(|stub| stub.symbol.as_deref() == Some(name));
    stub.unwrap_or_else(|| panic!("no stub for {name}")).slot
}

#[test]
fn an_exported_function_may_be_interposed() {
    let fixture = library();
    let image = fixture.image();
    let slot = slot_of(&image, "exported_leaf");
    assert_eq!(image.import_at(slot), Some("exported_leaf"));
    assert_eq!(image.slot_target(slot), Some(address_of(&image, "exported_leaf")));
    let malloc = slot_of(&image, "malloc");
    assert_eq!(image.import_at(malloc), Some("malloc"));
    assert_eq!(image.slot_target(malloc), None);
    assert_eq!(image.pointer_at(malloc), None);
}

#[test]
fn data_of_a_library_points_to_its_own_and_foreign_functions() {
    let fixture = library();
    let image = fixture.image();
    let leaves = address_of(&image, "leaves");
    let names = ["exported_leaf", "hidden_leaf", "protected_leaf", "private_leaf"];
    for (slot, name) in slots(leaves, 4).zip(names) {
        assert_eq!(image.pointer_at(slot), Some(address_of(&image, name)), "{name}");
    }
    assert_eq!(image.import_at(leaves), Some("exported_leaf"));
    assert_eq!(image.import_at(leaves.offset(8)), None, "hidden");
    assert_eq!(image.import_at(leaves.offset(16)), None, "protected");
    let release = address_of(&image, "release");
    assert_eq!((image.import_at(release), image.pointer_at(release)), (Some("free"), None));
}

#[test]
fn symbolic_libraries_keep_their_own_functions() {
    let fixture = compile("library.c", &["-O1", "-shared", "-fPIC", "-Wl,-Bsymbolic"]);
    let image = fixture.image();
    let leaves = address_of(&image, "leaves");
    assert_eq!(image.import_at(leaves), None);
    assert_eq!(image.pointer_at(leaves), Some(address_of(&image, "exported_leaf")));
}

#[test]
fn a_resolver_is_not_the_target_of_its_slot() {
    let fixture = library();
    let image = fixture.image();
    let slot = slot_of(&image, "selected");
    assert_eq!(image.import_at(slot), Some("selected"));
    assert_eq!(image.slot_target(slot), None);
}
