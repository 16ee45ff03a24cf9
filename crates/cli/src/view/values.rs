//! `strobe values`: loads that mostly load the same, and calls, jumps and branches that mostly go
//! to the same place.

use std::io::{self, Write};

use profile::model::{FunctionId, ValueKind};
use profile::query::{self, ValueSite};
use serde::Serialize;

use crate::figures::{Figure, bare_percent};
use crate::view::subject::{FunctionLabel, Spot, Subject};
use crate::view::table::{Table, heat};
use crate::view::{View, title};

/// Values of a load that are shown in a row of text.
const N_SHOWN: usize = 3;

#[derive(Debug, Serialize)]
pub struct ValuesView {
    /// Instructions with values, those that are not shown included.
    pub n_sites: usize,
    pub sites: Vec<SiteLine>,
}

#[derive(Debug, Serialize)]
pub struct SiteLine {
    /// What the values are.
    pub kind: String,
    pub module: String,
    pub function: Option<FunctionLabel>,
    pub spot: Spot,
    pub count: Figure,
    /// Share of the most frequent value.
    pub invariance: f64,
    /// 95 % interval of it.
    pub low: f64,
    pub high: f64,
    /// The most frequent first.
    pub values: Vec<ValueShare>,
}

#[derive(Debug, Serialize)]
pub struct ValueShare {
    pub value: u64,
    /// The place in a program that the value is.
    pub place: Option<ValuePlace>,
    pub count: Figure,
    pub share: f64,
}

#[derive(Debug, Serialize)]
pub struct ValuePlace {
    pub module: String,
    pub function: Option<FunctionLabel>,
    pub spot: Spot,
}

pub fn view(subject: &mut Subject, function: Option<FunctionId>, n: usize) -> ValuesView {
    let mut sites = query::value_sites(&subject.profile, function);
    let n_sites = sites.len();
    sites.truncate(n);
    let values = || sites.iter().flat_map(|site| &site.values);
    let targets: Vec<_> = values().filter_map(|seen| Some((seen.module?, seen.value))).collect();
    let places: Vec<_> = sites.iter().map(|site| (site.module, site.address)).chain(targets).collect();
    let functions = sites.iter().filter_map(|site| site.function).chain(values().filter_map(|seen| seen.function));
    subject.resolve(functions, places);
    let sites = sites.iter().map(|site| line(subject, site)).collect();
    ValuesView { n_sites, sites }
}

fn line(subject: &Subject, site: &ValueSite) -> SiteLine {
    let values = site.values.iter().map(|seen| ValueShare {
        value: seen.value,
        place: seen.module.map(|module| ValuePlace {
            module: subject.module_path(module).to_owned(),
            function: seen.function.map(|id| subject.label(id)),
            spot: subject.spot((module, seen.value)),
        }),
        count: seen.count.into(),
        share: seen.count.value / site.count.value,
    });
    SiteLine {
        kind: kind_name(site.kind),
        module: subject.module_path(site.module).to_owned(),
        function: site.function.map(|id| subject.label(id)),
        spot: subject.spot((site.module, site.address)),
        count: site.count.into(),
        invariance: site.invariance,
        low: site.interval.0,
        high: site.interval.1,
        values: values.collect(),
    }
}

impl View for ValuesView {
    const KIND: &'static str = "values";

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.sites.is_empty() {
            return writeln!(out, "no values in this profile; record with `strobe record --values`");
        }
        title(out, "Instructions with mostly the same value", self.sites.len(), self.n_sites)?;
        writeln!(out, "SAME is the share of the most frequent value, with its 95 % interval")?;
        let mut table = Table::new(&["SAME", "INTERVAL", "COUNT", "KIND", "INSTRUCTION", "VALUES"]);
        for line in &self.sites {
            let place = line.function.as_ref().map_or_else(String::new, |function| format!("  {}", function.text()));
            let values: Vec<String> = line.values.iter().take(N_SHOWN).map(ValueShare::text).collect();
            let cells = [
                bare_percent(line.invariance),
                format!("{}-{}", bare_percent(line.low), bare_percent(line.high)),
                line.count.count(),
                line.kind.clone(),
                format!("{}{place}", line.spot.text()),
                values.join(", "),
            ];
            table.row(heat(line.low), cells);
        }
        table.print(out)
    }
}

fn kind_name(kind: ValueKind) -> String {
    match kind {
        ValueKind::Load => "load".to_owned(),
        ValueKind::Address => "address".to_owned(),
        ValueKind::CallTarget => "call".to_owned(),
        ValueKind::JumpTarget => "jump".to_owned(),
        ValueKind::MethodTable => "type".to_owned(),
        ValueKind::BranchTarget => "branch".to_owned(),
        ValueKind::Argument(index) => format!("argument {}", index + 1),
    }
}

impl ValueShare {
    /// The name of a place; small numbers as they are, others, which are addresses and bit
    /// patterns, in hexadecimal.
    fn text(&self) -> String {
        const SMALL: u64 = 10_000;
        if let Some(ValuePlace { function, spot, .. }) = &self.place {
            let place = function.as_ref().map_or_else(|| spot.text(), |function| function.text());
            return format!("{place} {}", bare_percent(self.share));
        }
        let value = match self.value {
            value if value < SMALL => value.to_string(),
            value if value.wrapping_neg() < SMALL => format!("-{}", value.wrapping_neg()),
            value => format!("{value:#x}"),
        };
        format!("{value} {}", bare_percent(self.share))
    }
}
