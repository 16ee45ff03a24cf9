//! The report as one page: overview, flame graph, functions, hot paths with their source, loops.
//!
//! The page is one file that loads nothing: styles and script are in it, and its content-security
//! policy forbids requests. Everything that comes from a profile or a binary is escaped ([`Text`]);
//! the script reads figures from attributes and never builds markup of text.

mod flame;
mod overview;
mod paths;
mod tables;

use std::fmt;
use std::io::{self, Write};

use anyhow::Result;
use profile::Profile;
use symbols::Symbolizer;

use crate::names::Names;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// Writes the page. Looks names and lines up itself, in one batch.
pub fn write(profile: &Profile, symbolizer: &mut Symbolizer, out: &mut dyn Write) -> Result<()> {
    let nameless = profile.functions.iter().filter(|row| row.name.is_empty());
    let entries = nameless.map(|row| (row.module, row.address));
    let shown = paths::places(profile).into_iter().chain(tables::loop_places(profile));
    symbolizer.resolve(&entries.chain(shown).collect::<Vec<_>>());
    let names = Names::new(profile, symbolizer);
    let report = Report { profile, symbolizer, names: &names };
    report.write(out)?;
    Ok(())
}

/// What the sections are made of.
struct Report<'a> {
    profile: &'a Profile,
    symbolizer: &'a Symbolizer,
    names: &'a Names,
}

impl Report<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let title = self.profile.facts.get("command").map_or("profile", String::as_str);
        writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
        writeln!(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">")?;
        writeln!(out, "<meta name=\"viewport\" content=\"width=device-width\">")?;
        writeln!(out, "<title>{} - strobe</title>\n<style>\n{STYLE}</style>\n</head>\n<body>", Text(title))?;
        writeln!(out, "<header><h1><code>{}</code></h1><nav>", Text(title))?;
        for section in SECTIONS {
            writeln!(out, "<a href=\"#{}\">{}</a>", section.id, section.title)?;
        }
        writeln!(out, "</nav><button id=\"theme\">light / dark</button></header>")?;
        for section in SECTIONS {
            writeln!(out, "<section id=\"{}\">\n<h2>{}</h2>", section.id, section.title)?;
            (section.write)(self, out)?;
            writeln!(out, "</section>")?;
        }
        writeln!(out, "<script>\n{SCRIPT}</script>\n</body>\n</html>")
    }
}

struct Section {
    id: &'static str,
    title: &'static str,
    write: fn(&Report<'_>, &mut dyn Write) -> io::Result<()>,
}

const SECTIONS: &[Section] = &[
    Section { id: "overview", title: "Overview", write: overview::write },
    Section { id: "flame", title: "Flame graph", write: flame::write },
    Section { id: "functions", title: "Functions", write: tables::functions },
    Section { id: "paths", title: "Hot paths", write: paths::write },
    Section { id: "loops", title: "Loops", write: tables::loops },
];

/// Text in markup or in an attribute in double quotes.
struct Text<T>(T);

impl<T: fmt::Display> fmt::Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.to_string().chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c if c.is_control() && c != '\t' => f.write_str(" ")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
