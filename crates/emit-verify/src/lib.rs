//! Shows that a copy does what the original does, without trusting who wrote it.
//!
//! [`verify()`] takes a module, its control-flow graph and a copy of it ([`emit::ModuleCopy`]). It
//! decodes the copy, placed at an address of its own choice, and knows nothing of how it was
//! written. For every block of every function it follows the copy from the block's probe to the
//! places where control leaves the block:
//!
//! * **Instructions** that the copy takes over are the same as the original ones, up to
//!   displacements, which must lead to the same places (`body`).
//! * **Everything else** is executed on abstract values (`state`, `step`): is this register the
//!   program's, or the cursor, or an entry of the map? Only what probes need has a meaning; any
//!   other instruction is an error. Where the walk arrives at a twin, all registers and flags that
//!   are live there must be the program's again, and the block must have been recorded once.
//! * **Recovery** (`recovery`): before every instruction, the rule for its address must turn the
//!   abstract state into that of the original address where the program is.
//! * **Checks**: in every function the graph must have no cycle without a check, and entries must
//!   have one (`cycles`).
//! * **Completeness**: every instruction has one twin, every byte of code is reached by one of the
//!   walks, is padding, or a literal.
//! * **Noted values** (`events`): behind loads, and before other instructions, what is to be noted
//!   is appended to the buffer, and nothing else.
//! * **Accesses** (`cache`): a data cache that is simulated is told of what instructions access.
//!
//! Copies that are never left need no checks; what they must do instead is in `exact`.
//!
//! **What it shares with `emit`.** The data of a copy, which is what it is about: the code, the
//! tables of twins, landings, cells and rules of recovery, what the copy says that its probes do,
//! and [`emit::ModuleCopy::place`], which is how the copy gets into a program. No analysis. What
//! `emit` decides before it writes is decided here again:
//!
//! * What is live where (`liveness`). A register that is wrongly taken for dead breaks a program in
//!   silence, and a verifier that asked the same analysis would agree with it.
//! * Which functions have copies, who owns shared code, whose entries others reach, and whether
//!   flags are passed unseen (`module`).
//! * Which instructions a copy may take over, and which it must leave to the original (`body`).
//! * Which values are noted, and what instructions access (`events`, `cache`).
//!
//! From `flow` come functions, blocks and edges, which have a verifier of their own
//! ([`flow::verify`]), and the numbering of paths, of which [`flow::paths::verify`] shows that it
//! numbers them.
//!
//! Only tests call this: of `emit`, where damaged copies and wrong facts must be found out, and
//! real programs must not.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod block;
mod body;
mod cache;
mod cycles;
mod error;
mod events;
mod exact;
mod index;
mod liveness;
mod module;
mod recovery;
mod state;
mod step;
mod transfer;
mod twins;
mod walk;

pub use error::{Fault, VerifyError};

use emit::{Error, ModuleCopy, Options, Position};
use flow::ModuleFlow;
use flow::callgraph::FunctionId;
use image::Image;

use exact::Cells;
use index::Index;
use module::Module;
use walk::Walker;

/// Where the verifier places a copy. Neither distance is round, so that a place that is not fixed
/// up shows.
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
    let options = Options { cluster: copy.cluster(), probe: copy.probe(), events: copy.events() };
    if copy.code_len() == 0 {
        return Ok(());
    }
    let module = Module::new(image, flow, options);
    if copy.base() != module.base {
        return Err(VerifyError { at: module.base, fault: Fault::Placement(Error::Inconsistent) });
    }
    let code = copy.place(&SAMPLE).map_err(|error| VerifyError { at: module.base, fault: Fault::Placement(error) })?;
    let index = Index::new(&module, copy, &code)?;
    let cells = Cells::new(copy).map_err(|fault| VerifyError { at: module.base, fault })?;
    let mut walker = Walker::new(&module, &index, &cells);
    for id in module.copied() {
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
