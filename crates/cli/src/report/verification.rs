//! Does the analysis keep its own promises? A fault is a bug in strobe, whatever the input.

use flow::FunctionFlow;
use flow::paths::verify::{verify_placement, verify_plan};
use flow::verify::verify_cfg;
use image::Image;
use serde::Serialize;

use crate::props::NumberingProps;
use crate::report::{Address, Numbering};

/// A function whose graph or numbering is wrong.
#[derive(Debug, Serialize)]
pub struct Fault {
    pub function: Address,
    pub text: String,
}

impl Fault {
    /// The first fault of a function, if it has one.
    pub fn find(image: &Image<'_>, function: &FunctionFlow, props: NumberingProps) -> Option<Fault> {
        let fault = |text: String| Fault { function: Address(function.entry), text };
        if let Err(found) = verify_cfg(image, function) {
            return Some(fault(format!("graph: {found}")));
        }
        let Numbering { plan, placement, .. } = Numbering::new(function, props);
        let numbering = verify_plan(&plan).and_then(|()| verify_placement(&plan, &placement));
        numbering.err().map(|found| fault(format!("numbering: {found}")))
    }
}
