//! What must be done on the ways of one function, by what is counted.

use emit::{Counting, Probe};
use flow::callgraph::FunctionId;

use super::cells::Cells;
use super::duties::Duties;
use super::paths::{self, Counter};
use super::{blocks, clock, contexts, samples, trigger};
use crate::Fault;
use crate::module::Module;

/// What must be done on the ways of one function.
pub(crate) fn duties(module: &Module<'_, '_>, id: FunctionId, cells: &Cells) -> Result<Duties, Fault> {
    let Probe::Exact(counting) = module.options.probe else { return Ok(Duties::default()) };
    if counting.has_contexts() {
        let key = contexts::key(module, id, cells)?;
        let mut duties = match paths::context_counter(module, id, cells, key) {
            Some(counter) => paths::duties(module, id, cells, counting.truncation(), counter)?,
            None => Duties { tables: paths::plain_tables(module, id), ..Duties::default() },
        };
        if let Some(metric) = counting.metric().filter(|_| counting.has_path_metric()) {
            duties = clock::timed(duties, metric);
        }
        contexts::add(module, id, key, &mut duties);
        return Ok(duties);
    }
    match counting {
        Counting::Blocks => blocks::duties(module, id, cells),
        Counting::PathMetric(metric) => match paths::counter(module, id, cells)? {
            Some(counter) => {
                let duties = paths::duties(module, id, cells, counting.truncation(), counter)?;
                let duties = clock::timed(duties, metric);
                let n_path_cells = cells.missing_paths(module.original(module.function(id).entry).0);
                Ok(Duties { n_path_cells, n_listed: duties.n_listed + usize::from(n_path_cells.is_some()), ..duties })
            }
            None => blocks::duties(module, id, cells),
        },
        Counting::Paths | Counting::HeaderPaths => match paths::counter(module, id, cells)? {
            Some(counter) => paths::duties(module, id, cells, counting.truncation(), counter),
            None => blocks::duties(module, id, cells),
        },
        Counting::TracedPaths => match paths::counter(module, id, cells)? {
            Some(counter @ Counter::Table { .. }) => paths::duties(module, id, cells, counting.truncation(), counter),
            Some(_) => Err(Fault::Cells),
            None => blocks::duties(module, id, cells),
        },
        Counting::SampledPaths => match paths::counter(module, id, cells)? {
            Some(counter @ Counter::Table { .. }) => {
                paths::duties(module, id, cells, counting.truncation(), counter).map(samples::sampled)
            }
            Some(_) => Err(Fault::Cells),
            None => Ok(Duties::default()),
        },
        Counting::Triggered(trigger) => Ok(trigger::duties(module, id, trigger)),
        _ => Ok(Duties::default()),
    }
}
