//! Jumps through tables, in copies that are never left: to blocks of the same function, found by
//! their addresses in the map.

use flow::graph::BlockId;
use flow::liveness::LiveSet;
use wire::recovery::{kind, saves};
use wire::thread::offset;

use super::transfers::ARRIVAL_SAVE_END;
use crate::asm::{Gpr, Label};
use crate::chunk::{Chunk, Destination, Original, Stub};
use crate::function::Function;
use crate::look_up;
use crate::probe;

/// How far before the code for arrivals that for jumps through tables is: a jump.
pub(crate) const TABLE_ENTRY_BYTES: u32 = 5;

impl Function<'_, '_> {
    /// Where the row of a jump through a table will be, if it has one.
    fn row_label(&mut self, block: BlockId) -> Option<Label> {
        self.plan_of_probes().row(block)?;
        let label = self.chunk.asm.new_label();
        self.rows.push((label, block));
        Some(label)
    }

    /// Behind the function: the rows of its jumps through tables.
    pub fn write_rows(&mut self) {
        for (label, block) in std::mem::take(&mut self.rows) {
            self.chunk.begin_run(kind::NEVER, Original(0), 0, [0; 4]);
            self.chunk.asm.bind(label);
            let bytes: Vec<u8> =
                self.plan_of_probes().row(block).unwrap_or_default().iter().flat_map(|entry| entry.bytes()).collect();
            self.chunk.asm.bytes(&bytes);
        }
    }

    /// A register that nobody needs behind a jump through a table, if that is true of flags and
    /// `rax`, too.
    pub(super) fn scratch_of_table_jump(&self, block: BlockId) -> Option<Gpr> {
        let live = self.module.liveness(self.id).live_out(&self.flow.cfg, block);
        let flags_are_dead = (live & LiveSet::ARITHMETIC_FLAGS).is_empty() && !self.module.passes_flags_unseen;
        let mut dead = probe::dead_registers(live).filter(|_| flags_are_dead);
        dead.find(|&register| register == Gpr::RAX)?;
        probe::dead_registers(live).find(|&register| register != Gpr::RAX)
    }

    /// Goes to a block of the function by its address, which is in `rax`; `rax`, `scratch` and
    /// flags are dead.
    pub(super) fn write_quick_table_arrival(&mut self, block: BlockId, scratch: Gpr) {
        let row = self.row_label(block);
        let cluster = self.module.options.cluster;
        let is_before = self.module.options.probe.tells_arrivals_apart();
        let version = self.module.options.probe.version();
        let chunk = &mut *self.chunk;
        chunk.begin_run(kind::FORWARD, Original(0), saves::RAX, [9, 0, 0, 0]);
        chunk.asm.store(offset::TARGET, Gpr::RAX);
        if let Some(row) = row {
            write_row_address(chunk, row, scratch);
        }
        let holes = look_up::write_find_twin_with(chunk, version, cluster, scratch);
        if is_before {
            chunk.asm.advance(Gpr::RAX, -(TABLE_ENTRY_BYTES as i32));
        }
        chunk.asm.bytes(&[0xff, 0xe0]); // jmp rax
        let slow = chunk.position();
        holes.into_iter().for_each(|hole| chunk.asm.set_displacement(hole, slow));
        chunk.begin_run(kind::FORWARD, Original(0), saves::RAX | saves::RCX, [0, 9, 0, 0]);
        chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
        let hole = chunk.asm.jump();
        chunk.refer(hole, Destination::Stub(Stub::LookUp));
    }

    /// The same where registers or flags are needed.
    pub(super) fn write_table_arrival(&mut self, block: BlockId) {
        let row = self.row_label(block);
        let cluster = self.module.options.cluster;
        let live = self.module.liveness(self.id).live_out(&self.flow.cfg, block);
        let keeps_flags = !(live & LiveSet::ARITHMETIC_FLAGS).is_empty() || self.module.passes_flags_unseen;
        let is_before = self.module.options.probe.tells_arrivals_apart();
        let version = self.module.options.probe.version();
        let chunk = &mut *self.chunk;
        let (saved, ends) = if keeps_flags {
            (saves::RAX | saves::RCX | saves::FLAGS, [9, 18, 31, 0])
        } else {
            (saves::RAX | saves::RCX, ARRIVAL_SAVE_END)
        };
        chunk.begin_run(kind::FORWARD, Original(0), saved, ends);
        chunk.asm.store(offset::TARGET, Gpr::RAX);
        chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
        if keeps_flags {
            probe::save_flags(&mut chunk.asm);
            chunk.asm.load(Gpr::RAX, offset::TARGET);
        }
        if let Some(row) = row {
            write_row_address(chunk, row, Gpr::RCX);
        }
        let [not_here, unknown] = look_up::write_find_twin(chunk, version, cluster);
        let stub = if keeps_flags { [Stub::Other, Stub::Miss] } else { [Stub::LookUp; 2] };
        chunk.refer(not_here, Destination::Stub(stub[0]));
        chunk.refer(unknown, Destination::Stub(stub[1]));
        if is_before {
            chunk.asm.advance(Gpr::RAX, -(TABLE_ENTRY_BYTES as i32));
        }
        chunk.asm.store(offset::TWIN, Gpr::RAX);
        if keeps_flags {
            probe::restore_flags(&mut chunk.asm);
        }
        chunk.asm.load(Gpr::RCX, offset::SAVED_RCX);
        chunk.asm.load(Gpr::RAX, offset::SAVED_RAX);
        chunk.asm.jump_through(offset::TWIN);
    }
}

/// Leaves the address of a row.
fn write_row_address(chunk: &mut Chunk, row: Label, scratch: Gpr) {
    let hole = chunk.asm.address_of(scratch);
    chunk.asm.use_label(hole, row);
    chunk.asm.store(offset::SAVED_RDX, scratch);
}
