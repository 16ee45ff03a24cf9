//! Shows that a copy does what the original does.
//!
//! The verifier decodes the copy, placed at an address of its own choice, and knows nothing of how it was written. For every block
//! of every function it follows the copy from the block's probe to the places where control leaves the block:
//!
//! * **Instructions** that the copy takes over are the same as the original ones, up to displacements, which must lead to the same places
//!   ([`body`]).
//! * **Everything else** is executed on abstract values ([`state`], [`step`]): is this register the program's, or the cursor, or an entry
//!   of the map? Only what probes need has a meaning; any other instruction is an error. Where the walk arrives at a twin, all
//!   registers and flags that are live there must be the program's again, and the block must have been recorded once.
//! * **Recovery** ([`recovery`]): before every instruction, the rule for its address must turn the abstract state into that of the
//!   original address where the program is.
//! * **Checks**: in every function the graph must have no cycle without a check, and entries must have one ([`cycles`]).
//! * **Completeness**: every instruction has one twin, every byte of code is reached by one of the walks, is padding, or a literal.
//!
//! * **Events** ([`events`]): behind loads, and before other instructions, what is to be noted is appended to the buffer, and nothing else.
//! * **Accesses** ([`cache`]): a data cache that is simulated is told of what instructions access.
//!
//! Copies that are never left need no checks; what they must do instead is in [`exact`].

mod block;
mod body;
mod cache;
mod cycles;
mod error;
mod events;
mod exact;
mod index;
mod recovery;
mod state;
mod step;
mod transfer;
mod twins;
mod walk;

pub use error::{Fault, VerifyError};

use flow::ModuleFlow;
use flow::callgraph::FunctionId;
use image::Image;

use crate::Position;
use crate::copy::ModuleCopy;
use crate::module::Module;
use exact::Cells;
use index::Index;
use walk::Walker;

/// Where the verifier places a copy. Neither distance is round, so that a place that is not fixed up shows.
const SAMPLE: Position = Position {
    module_base: 0x5a3c_1234_5000,
    copy: 0x5a3c_5bcd_e7f0,
    cluster_lo: 0x5a3c_1111_1000,
    first_cell: 0x1_2345,
    first_key: 0x234,
};

/// Shows that `copy` does what the module does.
///
/// # Errors
/// The first difference found, with the original address that it concerns.
pub fn verify(image: &Image<'_>, flow: &ModuleFlow, copy: &ModuleCopy) -> Result<(), VerifyError> {
    let options = crate::Options { cluster: copy.cluster, probe: copy.probe, events: copy.events };
    let module = Module::new(image, flow, options, copy.selection.as_ref(), &flow::Sequential);
    if copy.code.is_empty() {
        return Ok(());
    }
    let code = copy.place(&SAMPLE).map_err(|error| VerifyError { at: module.base, fault: Fault::Placement(error) })?;
    let index = Index::new(&module, copy, &code)?;
    let cells = Cells::new(copy).map_err(|fault| VerifyError { at: module.base, fault })?;
    let mut walker = Walker::new(&module, &index, &cells);
    for id in module.ids().filter(|&id| module.skip_reason(id).is_none()) {
        verify_function(&module, &mut walker, id)?;
    }
    walker.finish()
}

fn verify_function<'a, 'data>(
    module: &'a Module<'a, 'data>,
    walker: &mut Walker<'a, 'data>,
    id: FunctionId,
) -> Result<(), VerifyError> {
    let function = module.function(id);
    walker.begin(id).map_err(|fault| VerifyError { at: function.entry, fault })?;
    for block in function.cfg.graph.blocks().filter(|&block| module.is_owned(id, block)) {
        let at = function.cfg.block(block).range.start;
        walker.probe(block).and_then(|()| walker.block(block)).map_err(|fault| VerifyError { at, fault })?;
    }
    if walker.stays() {
        return Ok(());
    }
    cycles::check(function, walker.ways()).map_err(|fault| VerifyError { at: function.entry, fault })
}
