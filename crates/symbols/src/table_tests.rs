//! Tables return what was put in, and survive any damage.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

type Answers = BTreeMap<u64, (String, Vec<SourceFrame>)>;

fn frame() -> impl Strategy<Value = SourceFrame> {
    let name = "[a-zß]{0,3}";
    (name, name, name, 0..3_u32, 0..2_u32, 0..2_u32).prop_map(
        |(function, linkage_name, file, line, discriminator, function_line)| SourceFrame {
            function,
            linkage_name,
            file,
            line,
            discriminator,
            function_line,
        },
    )
}

fn answers() -> impl Strategy<Value = Answers> {
    let address = prop_oneof![0..40_u64, any::<u64>()];
    prop::collection::btree_map(address, ("[a-z]{0,2}", prop::collection::vec(frame(), 0..4)), 0..20)
}

fn table(answers: &Answers, origin: &Origin) -> Table {
    let mut builder = TableBuilder::new();
    answers.iter().for_each(|(&address, (symbol, frames))| builder.add(address, symbol, frames));
    builder.finish(origin).unwrap()
}

fn contents(table: &Table) -> Answers {
    let addresses = (0..table.layout.n_addresses).map_while(|index| table.address(index));
    let pairs = addresses.filter_map(|address| Some((address, table.get(address)?)));
    pairs.map(|(address, answer)| (address, (answer.symbol().to_owned(), answer.frames().collect()))).collect()
}

fn origin() -> Origin {
    Origin { has_lines: true, debug_link: "x.debug".to_owned(), debug_file: "/y".to_owned() }
}

proptest! {
    #[test]
    fn what_was_added_is_found(answers in answers(), absent in any::<u64>()) {
        let table = table(&answers, &origin());
        prop_assert_eq!(table.origin(), origin());
        prop_assert_eq!(contents(&table), answers.clone());
        prop_assert_eq!(table.get(absent).is_some(), answers.contains_key(&absent));
        let again = Table::from_bytes(table.as_bytes().to_vec());
        prop_assert_eq!(again, Some(table));
    }

    #[test]
    fn absorbing_adds_what_is_not_there(first in answers(), second in answers()) {
        let (old, new) = (table(&first, &origin()), table(&second, &origin()));
        let mut builder = TableBuilder::new();
        builder.absorb(&new);
        builder.absorb(&old);
        let mut expected = first;
        expected.extend(second);
        prop_assert_eq!(contents(&builder.finish(&origin()).unwrap()), expected);
    }

    #[test]
    fn a_changed_byte_or_length_is_noticed(answers in answers(), at in any::<prop::sample::Index>(), flip in 1..=u8::MAX) {
        let bytes = table(&answers, &origin()).as_bytes().to_vec();
        let mut flipped = bytes.clone();
        flipped[at.index(bytes.len())] ^= flip;
        prop_assert_eq!(Table::from_bytes(flipped), None);
        prop_assert_eq!(Table::from_bytes(bytes[..at.index(bytes.len())].to_vec()), None);
        prop_assert_eq!(Table::from_bytes([&bytes[..], &[flip]].concat()), None);
    }

    /// A forger who gets the checksum right gets wrong answers, but no panic and no endless chain.
    #[test]
    fn forged_tables_are_harmless(
        answers in answers(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = table(&answers, &origin()).as_bytes().to_vec();
        for (at, value) in flips {
            let at = CHECKED_FROM + at.index(bytes.len() - CHECKED_FROM);
            bytes[at] = value;
        }
        let checksum = crc32fast::hash(&bytes[CHECKED_FROM..]).to_le_bytes();
        bytes[MAGIC.len()..CHECKED_FROM].copy_from_slice(&checksum);
        if let Some(table) = Table::from_bytes(bytes) {
            contents(&table);
            table.origin();
            let mut builder = TableBuilder::new();
            builder.absorb(&table);
            prop_assert!(builder.finish(&origin()).is_some());
        }
    }
}

#[test]
fn shared_callers_are_stored_once() {
    let caller = SourceFrame { function: "caller".to_owned(), line: 7, ..SourceFrame::default() };
    let mut builder = TableBuilder::new();
    for line in 0..100 {
        let callee = SourceFrame { function: "callee".to_owned(), line, ..SourceFrame::default() };
        builder.add(u64::from(line), "caller", &[callee, caller.clone()]);
    }
    assert_eq!(builder.finish(&origin()).unwrap().layout.n_frames, 101);
}
