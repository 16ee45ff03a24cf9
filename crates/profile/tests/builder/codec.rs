//! Code as bytes: there and back, and bytes that are wrong.

use fixtures::program::{Program, Stmt};
use profile::{Error, ModuleCode};
use proptest::prelude::*;

fn code() -> ModuleCode {
    let body = vec![Stmt::While { percent: 50, body: vec![Stmt::Call { function: 1 }] }];
    let program = Program::compile(&[body, vec![Stmt::Work { n_insns: 3, ns: 1 }]]);
    ModuleCode::clone(&program.code)
}

#[test]
fn there_and_back() {
    let code = code();
    assert_eq!(ModuleCode::from_bytes(&code.to_bytes()), Ok(code));
    assert_eq!(ModuleCode::from_bytes(&ModuleCode::default().to_bytes()), Ok(ModuleCode::default()));
}

#[test]
fn refusals_say_why() {
    let bytes = code().to_bytes();
    assert_eq!(ModuleCode::from_bytes(b"something else that is long enough"), Err(Error::NotCode));
    let mut newer = bytes.clone();
    newer[8] = 9;
    assert_eq!(ModuleCode::from_bytes(&newer), Err(Error::CodeVersion(9)));
    let cut = ModuleCode::from_bytes(&bytes[..bytes.len() - 1]);
    assert!(matches!(cut, Err(Error::CodeLength { .. })), "{cut:?}");
    let mut twisted = code();
    twisted.blocks.swap(0, 1);
    assert_eq!(ModuleCode::from_bytes(&twisted.to_bytes()), Err(Error::BadCode("blocks out of order")));
}

#[test]
fn blocks_by_address() {
    let code = code();
    let second = &code.blocks[1];
    assert_eq!(code.block_at(second.address), Some(1));
    assert_eq!(code.block_at(second.address + 1), None);
    assert_eq!(code.block_containing(second.address + 1), Some(1));
    assert_eq!(code.block_containing(second.address - 1), Some(0));
    let last = code.blocks.last().expect("blocks");
    assert_eq!(code.block_containing(last.end_address()), None);
    assert_eq!(code.block_containing(0), None);
}

proptest! {
    #[test]
    fn flipped_bytes_never_panic(position in 0usize..600, value: u8) {
        let mut bytes = code().to_bytes();
        let position = position % bytes.len();
        bytes[position] = value;
        if let Ok(code) = ModuleCode::from_bytes(&bytes) {
            prop_assert_eq!(code.check(), Ok(()));
        }
    }
}
