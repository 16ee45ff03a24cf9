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

/// Returns for each line whether it is part of a fenced block, the fences included.
pub fn fenced_lines(text: &str) -> Vec<bool> {
    let mut is_inside = false;
    let is_fenced = |line: &str| {
        let is_fence = line.trim_start().starts_with("```");
        is_inside ^= is_fence;
        is_fence || is_inside
    };
    text.lines().map(is_fenced).collect()
}

/// A link to somewhere in this repository.
#[derive(Debug, PartialEq, Eq)]
pub struct Link<'a> {
    /// Relative to the folder of the document; empty for the document itself.
    pub path: &'a str,
    /// What is behind `#`.
    pub anchor: Option<&'a str>,
    pub line_number: usize,
}

/// Returns the links and pictures of a document that lead nowhere else.
pub fn links(text: &str) -> Vec<Link<'_>> {
    let mut links = Vec::new();
    for (index, (line, is_fenced)) in text.lines().zip(fenced_lines(text)).enumerate() {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        for target in targets.filter(|target| !is_fenced && !target.contains("://")) {
            let (path, anchor) = match target.split_once('#') {
                Some((path, anchor)) => (path, Some(anchor)),
                None => (target, None),
            };
            links.push(Link { path, anchor, line_number: index + 1 });
        }
    }
    links
}

/// Returns what links can lead to in a document: headings, as they are shortened on the web, and
/// `<a id="...">`.
pub fn anchors(text: &str) -> Vec<String> {
    let mut anchors = Vec::new();
    for (line, _) in text.lines().zip(fenced_lines(text)).filter(|(_, is_fenced)| !is_fenced) {
        if line.starts_with('#') {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            anchors.push(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
        }
        let named = line.split("<a id=\"").skip(1).filter_map(|rest| rest.split_once('"'));
        anchors.extend(named.map(|(name, _)| name.to_owned()));
    }
    anchors
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

    #[test]
    fn links_and_what_they_lead_to() {
        let text = "# A `b`, c\n[x](d.md#e) ![y](f.svg) [z](https://g.h/)\n```\n[x](code.md)\n# no\n```\n* <a id=\"i\"></a>**i**\n";
        let link = |path, anchor| Link { path, anchor, line_number: 2 };
        assert_eq!(links(text), [link("d.md", Some("e")), link("f.svg", None)]);
        assert_eq!(anchors(text), ["a-b-c", "i"]);
        assert_eq!(fenced_lines("a\n```\nb\n```\nc\n"), [false, true, true, true, false]);
    }
}
