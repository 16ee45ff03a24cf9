//! Wraps comments and Markdown at 100 columns.
//!
//! Of sources, only lines that are comments as a whole are touched: `//`, `///` and `//!` in Rust
//! and C, and blocks that open with `/*` and go on with ` *` in C. A paragraph is filled anew from
//! its first over-long line to its end; what is above stays as its author broke it. Code in fences,
//! indented code, tables, headings and words that are longer than a line stay, a list keeps its
//! indentation, and code between backquotes stays on one line. Nothing else in a file changes.

use crate::tidy::scan;

pub const MAX_COLUMNS: usize = 100;

/// Wraps the comments of a file.
pub fn wrap(text: &str, is_rust: bool) -> String {
    let begins_in_code = scan::scan(text, is_rust).begins_in_code;
    let lines: Vec<&str> = text.split('\n').collect();
    let mut wrapped: Vec<String> = Vec::with_capacity(lines.len());
    let mut at = 0;
    while at < lines.len() {
        let end = match begins_in_code[at].then(|| prefix(lines[at])).flatten() {
            Some(prefix) => {
                let rest = lines[at..].iter().zip(&begins_in_code[at..]);
                let n = rest.take_while(|(line, is_code)| **is_code && self::prefix(line) == Some(prefix)).count();
                let contents = lines[at..at + n].iter().map(|line| &line[prefix.len()..]);
                wrapped.extend(
                    lines_of(&contents.collect::<Vec<_>>(), prefix.chars().count())
                        .iter()
                        .map(|content| format!("{prefix}{content}")),
                );
                at + n
            }
            None => match block(&lines[at..], &begins_in_code[at..], is_rust) {
                Some(n) => {
                    wrapped.extend(wrap_block(&lines[at..at + n]));
                    at + n
                }
                None => {
                    wrapped.push(lines[at].to_owned());
                    at + 1
                }
            },
        };
        at = end;
    }
    wrapped.join("\n")
}

/// Wraps a document of Markdown.
pub fn wrap_markdown(text: &str) -> String {
    lines_of(&text.split('\n').collect::<Vec<_>>(), 0).join("\n")
}

/// Returns the numbers of the lines of a file that [`wrap`] would make shorter, from 1.
pub fn over_long(text: &str, is_rust: bool) -> Vec<usize> {
    let wrapped = wrap(text, is_rust);
    let kept: std::collections::HashSet<&str> = wrapped.split('\n').collect();
    let numbered = text.split('\n').enumerate().filter(|(_, line)| line.chars().count() > MAX_COLUMNS);
    numbered.filter(|(_, line)| is_comment(line) && !kept.contains(line)).map(|(index, _)| index + 1).collect()
}

fn is_comment(line: &str) -> bool {
    ["//", "/*", "*"].iter().any(|start| line.trim_start().starts_with(start))
}

/// Returns indentation and marker of a comment line.
fn prefix(line: &str) -> Option<&str> {
    let indent = line.len() - line.trim_start().len();
    let marker = ["//!", "///", "//"].into_iter().find(|marker| line[indent..].starts_with(marker))?;
    // A fourth slash makes a rule, not a document.
    (!line[indent + marker.len()..].starts_with('/')).then_some(&line[..indent + marker.len()])
}

/// Returns the number of lines of a block comment of C that stands alone and goes on with ` * `.
fn block(lines: &[&str], begins_in_code: &[bool], is_rust: bool) -> Option<usize> {
    let first = lines[0];
    let indent = &first[..first.len() - first.trim_start().len()];
    if is_rust || !begins_in_code[0] || !first.trim_start().starts_with("/* ") {
        return None;
    }
    let n = 1 + lines.iter().position(|line| line.contains("*/"))?;
    let goes_on = |line: &&str| line.strip_prefix(indent).is_some_and(|rest| rest == " *" || rest.starts_with(" * "));
    (lines[n - 1].trim_end().ends_with("*/") && lines[1..n].iter().all(|line| goes_on(line) || line.trim() == "*/"))
        .then_some(n)
}

fn wrap_block(lines: &[&str]) -> Vec<String> {
    if lines.iter().all(|line| line.chars().count() <= MAX_COLUMNS) {
        return lines.iter().map(|line| (*line).to_owned()).collect();
    }
    let indent = &lines[0][..lines[0].len() - lines[0].trim_start().len()];
    let mut contents: Vec<&str> = lines.iter().map(|line| &line[(indent.len() + 2).min(line.len())..]).collect();
    let last = contents.len() - 1;
    let ends_apart = lines[last].trim() == "*/" && last > 0;
    if ends_apart {
        contents.pop();
    } else {
        contents[last] = contents[last].trim_end().strip_suffix("*/").unwrap_or(contents[last]).trim_end();
    }
    // The end of the comment needs room for itself.
    let mut wrapped = lines_of(&contents, indent.chars().count() + 2 + if ends_apart { 0 } else { 3 });
    if ends_apart {
        wrapped.push("/".to_owned());
    } else if let Some(last) = wrapped.last_mut() {
        last.push_str(" */");
    }
    let starts = std::iter::once("/*").chain(std::iter::repeat(" *"));
    wrapped.iter().zip(starts).map(|(content, start)| format!("{indent}{start}{content}")).collect()
}

/// Wraps the contents of comment lines, markers taken off, behind a prefix of so many columns.
fn lines_of(contents: &[&str], prefix_columns: usize) -> Vec<String> {
    let room = MAX_COLUMNS.saturating_sub(prefix_columns);
    let mut wrapped: Vec<String> = Vec::with_capacity(contents.len());
    let mut is_fenced = false;
    let mut at = 0;
    while at < contents.len() {
        let content = contents[at];
        if content.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        if is_fenced || !is_text(content) || content.chars().count() <= room {
            wrapped.push(content.to_owned());
            at += 1;
            continue;
        }
        let n = 1 + contents[at + 1..].iter().take_while(|next| continues(content, next)).count();
        let indent = indentation(&contents[at..at + n]);
        let text = contents[at..at + n].join(" ");
        let first = &content[..content.len() - content.trim_start().len()];
        wrapped.extend(fill(&text, first, &indent, room));
        at += n;
    }
    wrapped
}

/// Returns whether a line is prose that may be broken: no code, table, heading or drawing.
fn is_text(content: &str) -> bool {
    let text = content.trim();
    let is_indented = content.starts_with("     ") && marker_columns(content).is_none();
    let is_target = text.starts_with('[') && text.contains("]: ");
    let is_prose = !text.starts_with(['|', '#']) && !text.starts_with("```") && !text.contains("   ");
    !text.is_empty() && is_prose && !is_indented && !is_target
}

/// Returns whether `next` belongs to the paragraph of `line`.
fn continues(line: &str, next: &str) -> bool {
    let columns = |text: &str| text.len() - text.trim_start().len();
    let is_item = marker_columns(line).is_some();
    let fits = if is_item { columns(next) > columns(line) } else { columns(next) == columns(line) };
    is_text(next) && marker_columns(next).is_none() && fits
}

/// Returns the columns that the marker of a list item and the blanks around it take.
fn marker_columns(content: &str) -> Option<usize> {
    let text = content.trim_start();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let length = match text[digits..].chars().next() {
        Some('*' | '-' | '+') if digits == 0 => 1,
        Some('.' | ')') if (1..=3).contains(&digits) => digits + 1,
        _ => return None,
    };
    text[length..].starts_with(' ').then_some(content.len() - text.len() + length + 1)
}

/// Returns what the lines of a paragraph behind its first begin with.
fn indentation(paragraph: &[&str]) -> String {
    let blanks = |text: &str| text[..text.len() - text.trim_start().len()].to_owned();
    match (marker_columns(paragraph[0]), paragraph.get(1)) {
        (Some(_), Some(next)) => blanks(next),
        (Some(columns), None) => " ".repeat(columns),
        (None, _) => blanks(paragraph[0]),
    }
}

fn fill(text: &str, first_indent: &str, indent: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = first_indent.to_owned();
    let mut is_empty = true;
    for piece in pieces(text) {
        let columns = line.chars().count() + usize::from(!is_empty) + piece.chars().count();
        if !is_empty && columns > room {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(&piece);
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// Splits text at blanks where a line may end: not within short code, and not before what would
/// begin a list, a heading or a quotation at the start of a line.
fn pieces(text: &str) -> Vec<String> {
    const MAX_CODE_COLUMNS: usize = 70;
    let mut pieces: Vec<String> = Vec::new();
    let mut code: Option<String> = None;
    for word in text.split_whitespace() {
        let whole = match code.take() {
            Some(begun) if begun.len() + word.len() < MAX_CODE_COLUMNS => format!("{begun} {word}"),
            Some(begun) => {
                pieces.extend(begun.split(' ').map(str::to_owned));
                word.to_owned()
            }
            None => word.to_owned(),
        };
        if whole.matches('`').count() % 2 == 1 && whole.len() < MAX_CODE_COLUMNS {
            code = Some(whole);
        } else if opens(&whole) && !pieces.is_empty() {
            let last = pieces.len() - 1;
            pieces[last] = format!("{} {whole}", pieces[last]);
        } else {
            pieces.push(whole);
        }
    }
    pieces.extend(code.iter().flat_map(|begun| begun.split(' ')).map(str::to_owned));
    pieces
}

/// Returns whether a line that begins with this word would not be prose.
fn opens(word: &str) -> bool {
    let is_marker = marker_columns(&format!("{word} ")).is_some();
    is_marker || word.starts_with(['#', '>', '|']) || word.starts_with("```")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str =
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen";

    fn rust(text: &str) -> String {
        let wrapped = wrap(text, true);
        assert_eq!(wrap(&wrapped, true), wrapped, "wrapping twice is wrapping once");
        assert_eq!(over_long(&wrapped, true), Vec::<usize>::new(), "{wrapped}");
        let words = |text: &str| {
            let lines = text.lines().map(|line| line.trim_start().trim_start_matches(['/', '!']).to_owned());
            lines.collect::<Vec<_>>().join(" ").split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(words(&wrapped), words(text), "no word is lost");
        wrapped
    }

    #[test]
    fn a_paragraph_is_filled_from_its_first_long_line_on() {
        let text = format!("//! Short.\n//! {LONG}\n//! the end.\n//!\n//! Next\n//! one.\nfn f() {{}}\n");
        assert_eq!(over_long(&text, true), [2]);
        assert_eq!(
            rust(&text),
            "//! Short.\n//! one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen\n\
             //! seventeen the end.\n//!\n//! Next\n//! one.\nfn f() {}\n"
        );
    }

    #[test]
    fn what_is_short_enough_stays() {
        let text = "    /// One\n    /// two.\n    fn f() {}\n// three\n\n//four\n////////\n";
        assert_eq!(rust(text), text);
    }

    #[test]
    fn lists_keep_their_indentation() {
        let text = format!("/// * {LONG}\n/// * next\n/// 1. {LONG}\n///    more\n/// after\n");
        assert_eq!(
            rust(&text),
            "/// * one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen\n\
             ///   sixteen seventeen\n/// * next\n\
             /// 1. one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen\n\
             ///    sixteen seventeen more\n/// after\n"
        );
    }

    #[test]
    fn code_tables_headings_and_long_words_stay() {
        let url = format!("https://example.org/{}", "x".repeat(100));
        for text in [
            format!("/// ```text\n/// {LONG}\n/// ```\n"),
            format!("///     {LONG}\n"),
            format!("/// | {LONG} |\n"),
            format!("/// # {LONG}\n"),
            format!("/// [x]: {url}\n"),
            format!("/// {url}\n"),
        ] {
            assert_eq!(rust(&text), text);
        }
    }

    #[test]
    fn strings_and_code_with_trailing_comments_stay() {
        let text = format!("let x = 1; // {LONG}\nlet y = \"\n// {LONG}\n\";\nlet z = r#\"\n    /// {LONG}\n\"#;\n");
        assert_eq!(rust(&text), text);
    }

    #[test]
    fn no_line_begins_with_what_would_be_a_list_and_short_code_stays_whole() {
        let text = "// one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen 16000000 - seventeen\n";
        assert_eq!(
            rust(text),
            "// one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen\n\
             // 16000000 - seventeen\n"
        );
        let text = "// one two three four five six seven eight nine ten eleven twelve thirteen fourteen `fifteen and sixteen` end\n";
        assert_eq!(
            rust(text),
            "// one two three four five six seven eight nine ten eleven twelve thirteen fourteen\n\
             // `fifteen and sixteen` end\n"
        );
    }

    #[test]
    fn comments_of_c_are_wrapped_as_blocks() {
        let text = format!("/* {LONG}\n * and more. */\nint x; /* {LONG} */\n// {LONG}\n");
        assert_eq!(
            wrap(&text, false),
            format!(
                "/* one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen\n \
                 * sixteen seventeen and more. */\nint x; /* {LONG} */\n\
                 // one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen\n\
                 // seventeen\n"
            )
        );
        assert_eq!(over_long(&text, false), [1, 4]);
    }

    #[test]
    fn markdown_is_wrapped_outside_of_code_and_tables() {
        let text = format!("# {LONG}\n\n{LONG}\nend\n\n| {LONG} |\n```\n{LONG}\n```\n* {LONG}\n");
        let half = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen";
        assert_eq!(
            wrap_markdown(&text),
            format!("# {LONG}\n\n{half}\nseventeen end\n\n| {LONG} |\n```\n{LONG}\n```\n* {half}\n  seventeen\n")
        );
    }
}
