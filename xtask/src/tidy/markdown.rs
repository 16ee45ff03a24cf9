//! Just enough Markdown for the checks: which text is code, and under which heading it stands.

/// A piece of inline code or one line of a fenced block.
#[derive(Debug, PartialEq, Eq)]
pub struct Code<'a> {
    pub text: &'a str,
    /// The nearest heading above, without its `#` signs; empty before the first one.
    pub heading: &'a str,
    /// The whole line it stands on.
    pub line: &'a str,
    pub line_number: usize,
    pub fenced: bool,
}

pub fn code(text: &str) -> Vec<Code<'_>> {
    let mut found = Vec::new();
    let mut heading = "";
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            found.push(Code { text: line, heading, line, line_number, fenced });
        } else if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim();
        } else {
            let pieces = line.split('`').skip(1).step_by(2);
            found.extend(pieces.map(|text| Code { text, heading, line, line_number, fenced }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_and_fenced_code_with_headings() {
        let text = "# Top\nuse `a` and `b`\n## Next\n```sh\n# not a heading\n```\nplain `c`\n";
        let found: Vec<(&str, &str, usize, bool)> =
            code(text).iter().map(|c| (c.text, c.heading, c.line_number, c.fenced)).collect();
        assert_eq!(
            found,
            [
                ("a", "Top", 2, false),
                ("b", "Top", 2, false),
                ("# not a heading", "Next", 5, true),
                ("c", "Next", 7, false)
            ]
        );
    }
}
