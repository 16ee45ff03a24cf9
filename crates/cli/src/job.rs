//! The command that a run is to do, with all that it needs.

use crate::props::{CacheProps, CtlProps, DumpProps, InspectProps, RecordProps};
use crate::tools::ToolJob;
use crate::view::props::ViewProps;

pub struct Props {
    pub color: anstream::ColorChoice,
    pub job: Job,
}

pub enum Job {
    Record(Box<RecordProps>),
    Ctl(CtlProps),
    Cache(CacheProps),
    Doctor { json: bool },
    Inspect(InspectProps),
    Dump(DumpProps),
    View(ViewProps),
    Tool(ToolJob),
}
