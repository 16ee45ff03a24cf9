//! Copies as bytes: what was written is read, and nothing else.

use std::sync::OnceLock;

use emit::{Counting, Error, ModuleCopy, Probe};
use proptest::prelude::*;

use crate::fixture::{parse, translate};
use crate::shapes::{COUNTED, SHAPES};

/// A program, its copy, and that as bytes.
#[derive(Clone)]
struct Stored {
    file: Vec<u8>,
    copy: ModuleCopy,
    bytes: Vec<u8>,
}

fn stored() -> (ModuleCopy, Vec<u8>) {
    static STORED: OnceLock<Stored> = OnceLock::new();
    let Stored { copy, bytes, .. } = STORED.get_or_init(|| store(Probe::Trace)).clone();
    (copy, bytes)
}

fn counted() -> &'static Stored {
    static STORED: OnceLock<Stored> = OnceLock::new();
    STORED.get_or_init(|| store(Probe::Exact(Counting::Paths)))
}

fn store(probe: Probe) -> Stored {
    let file = crate::fixture::assemble(&[SHAPES, COUNTED].concat());
    let (_, copy) = translate(&parse(&file), probe);
    let bytes = copy.to_bytes();
    Stored { file, copy, bytes }
}

#[test]
fn round_trip() {
    let (copy, bytes) = stored();
    assert_eq!(ModuleCopy::from_bytes(&bytes).as_ref(), Ok(&copy));
    let Stored { copy, bytes, .. } = counted();
    assert_eq!(ModuleCopy::from_bytes(bytes).as_ref(), Ok(copy));
    assert!(copy.n_cells() > 0 && copy.n_keys() > 0);
}

#[test]
fn every_prefix_is_refused() {
    let (_, bytes) = stored();
    for len in 0..bytes.len() {
        assert!(ModuleCopy::from_bytes(&bytes[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn every_changed_byte_is_noticed() {
    let (_, mut bytes) = stored();
    for at in 0..bytes.len() {
        bytes[at] ^= 0x10;
        assert!(ModuleCopy::from_bytes(&bytes).is_err(), "byte {at}");
        bytes[at] ^= 0x10;
    }
}

#[test]
fn other_files_are_refused() {
    assert_eq!(ModuleCopy::from_bytes(&[]), Err(Error::Truncated));
    assert_eq!(ModuleCopy::from_bytes(&[0x7f; 4096]), Err(Error::NotACopy));
}

/// The checksum that the format uses, to get past it.
pub fn reseal(bytes: &mut [u8]) {
    let (content, sum) = bytes.split_last_chunk_mut::<8>().expect("a stored copy");
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let (words, rest) = content.as_chunks::<8>();
    let total = words.iter().fold(content.len() as u64, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    *sum = rest.iter().fold(total, |sum, &byte| mix(sum, u64::from(byte))).to_le_bytes();
}

proptest! {
    /// With a right checksum any content may come; using it must not panic.
    #[test]
    fn forged_copies_do_no_harm(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let (_, mut bytes) = stored();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        reseal(&mut bytes);
        if let Ok(copy) = ModuleCopy::from_bytes(&bytes) {
            let _ = copy.place(&emit::Position { module_base: 0, copy: 0, cluster_lo: 0, first_cell: 0, first_key: 1 });
            let _ = (copy.entries().count(), copy.original_range(), copy.statistics().probes());
        }
    }

    /// The same for those that count; they can be verified, too.
    #[test]
    fn forged_copies_that_count_do_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = counted().bytes.clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        reseal(&mut bytes);
        if let Ok(copy) = ModuleCopy::from_bytes(&bytes) {
            let image = parse(&counted().file);
            let flow = flow::analyze(&image, &flow::Sequential);
            let _ = emit_verify::verify(&image, &flow, &copy);
        }
    }
}
