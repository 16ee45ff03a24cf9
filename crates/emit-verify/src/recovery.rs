//! Whether the rule for an address turns the state there into that of the original.

use emit::Original;
use wire::recovery::{Run, kind, saves};

use super::state::{Fields, InHand, RAX, RCX, RDX, State, Value};

/// Whether a thread in `state`, interrupted `into` bytes into `run`, would be recovered to where
/// the program is, with everything that is live there.
pub(super) fn is_right(run: &Run, into: u32, state: &State) -> bool {
    let original = Original(run.original);
    if run.writes != 0 && run.kind != kind::PROBE {
        return false;
    }
    let mut recovered = state.in_hand();
    // These two are taken back or on to where another rule holds, which is walked through, too.
    match run.kind {
        kind::CALLED => return into == 0 && run.original == 0 && state.exact.called.is_some(),
        kind::RETURNING => {
            undo(&mut recovered, &state.fields, run.saves, &[0; 4], into);
            return state.exact.returning == Some(u64::from(run.original)) && recovered.is_restored();
        }
        _ if state.exact.called.is_some() || state.exact.returning.is_some() => return false,
        _ => {}
    }
    let arrives = match run.kind {
        kind::STRAIGHT => Value::Address(Original(run.original.wrapping_add(into))),
        kind::PROBE => {
            undo(&mut recovered, &state.fields, run.saves, &run.save_end, into);
            Value::Address(original)
        }
        kind::FORWARD | kind::EXIT => {
            let target = if into < u32::from(run.save_end[0]) { state.registers[RAX] } else { state.fields.target };
            recovered.registers[RAX] = state.fields.saved_rax;
            undo(&mut recovered, &state.fields, run.saves & !saves::RAX, &run.save_end[1..], into);
            target
        }
        kind::AFTER_SYSTEM_CALL => {
            undo(&mut recovered, &state.fields, run.saves, &run.save_end, into);
            recovered.registers[RCX] = Value::Address(original);
            Value::Address(original)
        }
        kind::SYSTEM_CALL => Value::Address(original),
        _ => return false,
    };
    recovered.is_at(arrives) && recovered.is_restored()
}

fn undo(recovered: &mut InHand<'_>, fields: &Fields, saved: u8, save_end: &[u8], into: u32) {
    let in_order = [saves::RAX, saves::RCX, saves::RDX, saves::FLAGS];
    for (bit, &end) in in_order.into_iter().filter(|bit| saved & bit != 0).zip(save_end) {
        if into < u32::from(end) {
            break;
        }
        match bit {
            saves::RAX => recovered.registers[RAX] = fields.saved_rax,
            saves::RCX => recovered.registers[RCX] = fields.saved_rcx,
            saves::RDX => recovered.registers[RDX] = fields.saved_rdx,
            _ => recovered.flags = super::step::unpacked(fields.saved_flags),
        }
    }
}
