//! The report: every claim with what was published, what was required and what was found, as
//! Markdown and as one HTML page.
//!
//! The Markdown refers to plots beside it; the page has them inside, and needs nothing else. What
//! was not measured with the set of the run comes from another set, if there is such a finding in
//! the same folder: the full set takes hours, and not every claim needs it. Each finding says which
//! set it is of.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::{Claim, Experiment, Finding, Set, Workbench, kept};
use crate::accuracy::Extra;
use crate::chart::escaped;
use crate::table::Table;

/// A claim and what was found, if it was measured.
#[derive(Debug)]
struct Entry {
    claim: Claim,
    finding: Option<Finding>,
    /// What the finding is of.
    set: Set,
    with: Vec<Extra>,
}

impl Entry {
    fn verdict(&self) -> &'static str {
        self.finding.as_ref().map_or("not yet", |finding| finding.verdict.word())
    }

    fn class(&self) -> String {
        self.verdict().replace(' ', "")
    }

    fn ours(&self) -> String {
        match (&self.finding, self.claim.experiment) {
            (Some(finding), _) => finding.ours.clone(),
            (None, Experiment::NotYet(why)) => why.to_owned(),
            (None, Experiment::Measured { .. }) => "not measured in this run".to_owned(),
        }
    }

    fn interval(&self) -> String {
        self.finding.as_ref().map_or_else(String::new, |finding| finding.interval.clone())
    }

    fn command(&self) -> String {
        let options: String = self.with.iter().map(|extra| format!(" --with {}", &extra.option()[2..])).collect();
        format!("strobe-lab claims {} --set {}{options}", self.claim.id, self.set)
    }
}

fn entries(bench: &Workbench) -> Vec<Entry> {
    let others = if bench.set == Set::Smoke { &[][..] } else { &[Set::Full, Set::Quick] };
    let find = |claim: Claim| {
        let sets = std::iter::once(bench.set).chain(others.iter().copied());
        let mut found = sets.filter_map(|set| Some((set, kept(&Workbench { set, ..bench.clone() }, claim.id)?)));
        match found.next() {
            Some((set, finding)) => Entry { claim, finding: Some(finding), set, with: bench.with.clone() },
            None => Entry { claim, finding: None, set: bench.set, with: bench.with.clone() },
        }
    };
    super::all().into_iter().map(find).collect()
}

/// One sentence for each set that something was measured of.
fn sets(bench: &Workbench, entries: &[Entry]) -> String {
    let is_used =
        |set: &Set| *set == bench.set || entries.iter().any(|entry| entry.finding.is_some() && entry.set == *set);
    let used: Vec<&str> = [Set::Smoke, Set::Quick, Set::Full].into_iter().filter(is_used).map(Set::describe).collect();
    used.join(" ")
}

/// The table of all claims.
#[must_use]
pub fn summary(bench: &Workbench) -> Table {
    let mut table = Table::new(&["claim", "what", "paper", "must be", "ours", "interval", "verdict"]);
    for entry in entries(bench) {
        let Claim { id, statement, published, required, .. } = entry.claim;
        let (ours, interval) = (entry.ours(), entry.interval());
        table.row([id, statement, published, required, &ours, &interval, entry.verdict()].map(str::to_owned));
    }
    table
}

/// Writes Markdown, a page and the plots into the folder of the report.
pub fn write(bench: &Workbench) -> anyhow::Result<()> {
    let entries = entries(bench);
    let folder = &bench.report_dir;
    write_markdown(bench, &entries, &folder.join("report.md"), "plots")?;
    write_file(&folder.join("index.html"), &page(bench, &entries))
}

/// Writes the same as a document of the project, with plots in a folder of the document's name.
pub fn write_document(bench: &Workbench, path: &Path) -> anyhow::Result<()> {
    let plots = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    write_markdown(bench, &entries(bench), path, &plots)
}

const INTRODUCTION: &str = "\
Written by `strobe-lab claims`, from its latest run; do not edit. Each claim has what the paper found, what strobe must show, what was measured,
with a 95 % interval (programs drawn anew) where there is one, and the verdict: *holds*, *misses* (what is required was not reached), *contradicted*
(the paper's finding is not what we find), *not yet*. The load of the machine while a claim was measured is stated with it: above the number of its
cores it was busy with other work, and times are worth less.
";

fn write_markdown(bench: &Workbench, entries: &[Entry], path: &Path, plots: &str) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let (sets, summary) = (sets(bench, entries), summary(bench).to_markdown());
    let mut text = format!("# Results\n\n{INTRODUCTION}\n{sets}\n\n{summary}\n");
    for entry in entries {
        let Some(finding) = &entry.finding else { continue };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "## {}: {}\n", entry.claim.id, entry.claim.statement);
        let _ = writeln!(
            text,
            "Paper: {}. Must be: {}. **Ours: {}** {}, {}.\n",
            entry.claim.published,
            entry.claim.required,
            finding.ours,
            in_brackets(&finding.interval),
            finding.verdict.word()
        );
        finding.notes.iter().for_each(|note| text.push_str(&format!("{}\n\n", note.trim())));
        for (index, plot) in finding.plots.iter().enumerate() {
            let name = format!("{plots}/{}-{index}.svg", entry.claim.id);
            write_file(&folder.join(&name), plot)?;
            let _ = writeln!(text, "![{}]({name})\n", entry.claim.id);
        }
        for (title, table) in &finding.tables {
            let _ = writeln!(text, "{title}:\n\n{}", table.to_markdown());
        }
        let _ = writeln!(text, "`{}`, {:.0} s. {}.\n", entry.command(), finding.seconds, finding.machine);
    }
    write_file(path, &format!("{}\n", text.trim_end()))
}

fn in_brackets(interval: &str) -> String {
    if interval.is_empty() { String::new() } else { format!("({interval})") }
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color-scheme:light dark}\
table{border-collapse:collapse;display:block;overflow-x:auto;font-size:13px}td,th{padding:2px 8px;border-bottom:1px solid #8884;text-align:right;\
vertical-align:top}td:first-child,th:first-child{text-align:left}.summary td,.summary th{text-align:left}svg{max-width:100%}\
.holds{color:#2a8a3e}.misses,.contradicted{color:#c03030}.notyet{color:#888}";

fn page(bench: &Workbench, entries: &[Entry]) -> String {
    let introduction = format!("{INTRODUCTION}{}", sets(bench, entries));
    let mut body = format!("<h1>Results</h1>\n<p>{}</p>\n", escaped(&introduction));
    body.push_str(
        "<table class=summary><tr><th>claim<th>what<th>paper<th>must be<th>ours<th>interval<th>verdict</tr>\n",
    );
    for entry in entries {
        let Claim { id, statement, published, required, .. } = entry.claim;
        let cells = [statement, published, required, &entry.ours(), &entry.interval()]
            .map(|cell| format!("<td>{}", escaped(cell)));
        let (class, verdict) = (entry.class(), entry.verdict());
        let _ = writeln!(body, "<tr><td><a href=\"#{id}\">{id}</a>{}<td class={class}>{verdict}</tr>", cells.concat());
    }
    body.push_str("</table>\n");
    for entry in entries {
        let Some(finding) = &entry.finding else { continue };
        let Claim { id, statement, .. } = entry.claim;
        let _ = writeln!(body, "<h2 id=\"{id}\">{id}: {}</h2>", escaped(statement));
        let (class, verdict) = (entry.class(), entry.verdict());
        let _ = writeln!(
            body,
            "<p><b>{}</b> {} <span class={class}>{verdict}</span></p>",
            escaped(&finding.ours),
            escaped(&in_brackets(&finding.interval))
        );
        for note in &finding.notes {
            let tag = if note.contains("\n|") { "pre" } else { "p" };
            let _ = writeln!(body, "<{tag}>{}</{tag}>", escaped(note));
        }
        finding.plots.iter().for_each(|plot| body.push_str(plot));
        for (title, table) in &finding.tables {
            let _ = writeln!(body, "<h3>{}</h3>\n{}", escaped(title), table.to_html());
        }
        let _ = writeln!(
            body,
            "<p><code>{}</code>, {:.0} s. {}.</p>",
            escaped(&entry.command()),
            finding.seconds,
            escaped(&finding.machine)
        );
    }
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>strobe: results</title>\
         <style>{STYLE}</style><body>\n{body}</body></html>\n"
    )
}

fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
