//! What the run cost, where its time went, and how well it was seen.

use std::io::{self, Write};

use profile::query::{scale_factor, share, system_call_sites, totals};

use crate::figures;
use crate::html::{Report, Text};
use crate::names::file_name;

/// System-call sites to list.
const MAX_SITES: usize = 10;

/// Facts to show, and what they are called.
const FACTS: &[(&str, &str)] = &[
    ("cost_percent", "cost of recording, % of CPU time"),
    ("elapsed_s", "elapsed, s"),
    ("attained_rate_hz", "ticks per second of CPU time"),
    ("ticks", "ticks"),
    ("bursts", "bursts"),
    ("processes", "processes"),
    ("threads", "threads"),
];

pub fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let profile = report.profile;
    let totals = totals(profile);
    writeln!(out, "<div class=\"cards\">")?;
    card(out, "CPU time", &figures::time(totals.cpu_ns))?;
    card(out, "in the program", &figures::share(share(totals.user_ns, totals.cpu_ns)))?;
    card(out, "in the kernel", &figures::share(share(totals.kernel_ns, totals.cpu_ns)))?;
    for (name, title) in FACTS {
        if let Some(value) = profile.facts.get(*name) {
            card(out, title, value)?;
        }
    }
    let factor = scale_factor(profile);
    if 1.0 < factor {
        card(out, "counts are right within this factor; ratios within a function are better", &format!("{factor:.1}"))?;
    }
    writeln!(out, "</div>")?;
    write_modules(report, out)?;
    write_system_calls(report, out)
}

fn card(out: &mut dyn Write, title: &str, value: &str) -> io::Result<()> {
    writeln!(out, "<div><b>{}</b>{}</div>", Text(value), Text(title))
}

/// Files that cannot be read any more explain why lines are missing.
fn write_modules(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<details><summary>{} modules</summary><ul>", report.profile.modules.len())?;
    for (id, module) in (0..).map(profile::model::ModuleId).zip(&report.profile.modules) {
        let status = report.symbolizer.status(id);
        writeln!(out, "<li><code>{}</code> <span class=\"dim\">{}</span></li>", Text(&module.path), Text(status))?;
    }
    writeln!(out, "</ul></details>")
}

fn write_system_calls(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let sites = system_call_sites(report.profile);
    if sites.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h3>Kernel time by system-call site</h3>\n<table class=\"narrow\"><tbody>")?;
    for site in sites.iter().take(MAX_SITES) {
        let module = site.module.and_then(|id| report.profile.modules.get(id.index()));
        let module = module.map_or("?", |module| file_name(&module.path));
        let place = format!("{module}+{:#x}", site.address);
        writeln!(out, "<tr><td class=\"n\">{}</td><td>{}</td></tr>", figures::share(site.share), Text(place))?;
    }
    writeln!(out, "</tbody></table>")
}
