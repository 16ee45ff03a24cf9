//! `strobe values`: loads that mostly load the same.

use std::io::{self, Write};

use profile::model::FunctionId;
use profile::query::{self, ValueSite};
use serde::Serialize;

use crate::view::figures::{Figure, bare_percent};
use crate::view::subject::{FunctionLabel, Spot, Subject};
use crate::view::table::{Table, heat};
use crate::view::{View, title};

/// Values of a load that are shown in a row of text.
const N_SHOWN: usize = 3;

#[derive(Debug, Serialize)]
pub struct ValuesView {
    pub n_loads: usize,
    pub loads: Vec<LoadLine>,
}

#[derive(Debug, Serialize)]
pub struct LoadLine {
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
    pub count: Figure,
    pub share: f64,
}

pub fn view(subject: &mut Subject, function: Option<FunctionId>, n: usize) -> ValuesView {
    let mut sites = query::value_sites(&subject.profile, function);
    let n_loads = sites.len();
    sites.truncate(n);
    let places: Vec<_> = sites.iter().map(|site| (site.module, site.address)).collect();
    subject.resolve(sites.iter().filter_map(|site| site.function), places);
    let loads = sites.iter().map(|site| line(subject, site)).collect();
    ValuesView { n_loads, loads }
}

fn line(subject: &Subject, site: &ValueSite) -> LoadLine {
    let values = site.values.iter().map(|&(value, count)| ValueShare {
        value,
        count: count.into(),
        share: count.value / site.count.value,
    });
    LoadLine {
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
        if self.loads.is_empty() {
            return writeln!(out, "no values in this profile; record with `strobe record --exact=blocks --values`");
        }
        title(out, "Loads that mostly load the same", self.loads.len(), self.n_loads)?;
        writeln!(out, "SAME is the share of the most frequent value, with its 95 % interval")?;
        let mut table = Table::new(&["SAME", "INTERVAL", "LOADS", "LOAD", "VALUES"]);
        for line in &self.loads {
            let place = line.function.as_ref().map_or_else(String::new, |function| format!("  {}", function.text()));
            let values: Vec<String> = line.values.iter().take(N_SHOWN).map(ValueShare::text).collect();
            let cells = [
                bare_percent(line.invariance),
                format!("{}-{}", bare_percent(line.low), bare_percent(line.high)),
                line.count.count(),
                format!("{}{place}", line.spot.text()),
                values.join(", "),
            ];
            table.row(heat(line.low), cells);
        }
        table.print(out)
    }
}

impl ValueShare {
    /// Small numbers as they are, others, which are addresses and bit patterns, in hexadecimal.
    fn text(&self) -> String {
        const SMALL: u64 = 10_000;
        let value = match self.value {
            value if value < SMALL => value.to_string(),
            value if value.wrapping_neg() < SMALL => format!("-{}", value.wrapping_neg()),
            value => format!("{value:#x}"),
        };
        format!("{value} {}", bare_percent(self.share))
    }
}
