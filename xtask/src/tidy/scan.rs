//! Tells code from comments and literals in Rust and C, so that checks neither read nor change what
//! is quoted.

/// A source text and what each of its parts is.
pub struct Scan {
    /// The text with the content of comments, strings and characters replaced by blanks, line by
    /// line.
    pub code: String,
    /// For each line, whether it begins outside of comments and literals.
    pub begins_in_code: Vec<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    LineComment,
    /// Nested so many deep; in C always one.
    BlockComment(u32),
    Text,
    /// Ends at a quote with so many `#` behind it.
    RawText(usize),
}

/// Scans a file of Rust, or of C and C++ if `is_rust` is false.
pub fn scan(text: &str, is_rust: bool) -> Scan {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut begins_in_code = vec![true];
    let mut state = State::Code;
    let mut at = 0;
    while at < chars.len() {
        let (next, length) = step(&chars[at..], at.checked_sub(1).map(|before| chars[before]), state, is_rust);
        let is_code = state == State::Code && next == State::Code && length == 1;
        for &c in &chars[at..at + length] {
            code.push(if c == '\n' || is_code { c } else { ' ' });
        }
        state = next;
        at += length;
        if chars[at - 1] == '\n' {
            begins_in_code.push(state == State::Code);
        }
    }
    Scan { code, begins_in_code }
}

/// Returns the state behind the next piece of `rest`, and the number of characters of that piece.
fn step(rest: &[char], before: Option<char>, state: State, is_rust: bool) -> (State, usize) {
    let starts = |text: &str| text.chars().enumerate().all(|(i, c)| rest.get(i) == Some(&c));
    match state {
        State::LineComment if rest[0] == '\n' => (State::Code, 1),
        State::BlockComment(depth) if starts("*/") => {
            (if depth == 1 { State::Code } else { State::BlockComment(depth - 1) }, 2)
        }
        State::BlockComment(depth) if is_rust && starts("/*") => (State::BlockComment(depth + 1), 2),
        // An escaped end of line is left to the next step, which ends the line.
        State::Text if rest[0] == '\\' && rest.get(1).is_some_and(|&c| c != '\n') => (State::Text, 2),
        State::Text if rest[0] == '"' => (State::Code, 1),
        State::RawText(hashes) if rest[0] == '"' && rest[1..].iter().take_while(|&&c| c == '#').count() >= hashes => {
            (State::Code, 1 + hashes)
        }
        State::LineComment | State::BlockComment(_) | State::Text | State::RawText(_) => (state, 1),
        State::Code if starts("//") => (State::LineComment, 2),
        State::Code if starts("/*") => (State::BlockComment(1), 2),
        State::Code if rest[0] == '"' => (State::Text, 1),
        State::Code if is_rust && !before.is_some_and(is_word) && raw_text(rest).is_some() => {
            let (hashes, length) = raw_text(rest).unwrap_or((0, 1));
            (State::RawText(hashes), length)
        }
        State::Code => (State::Code, if rest[0] == '\'' { character(rest) } else { 1 }),
    }
}

/// Returns the number of hashes and the length of the opening of a raw string, `r#"` or `br"`.
fn raw_text(rest: &[char]) -> Option<(usize, usize)> {
    let letters = rest.iter().take_while(|&&c| matches!(c, 'b' | 'c' | 'r')).count();
    let is_raw = matches!(rest.get(..letters)?, ['r'] | ['b', 'r'] | ['c', 'r']);
    let hashes = rest[letters..].iter().take_while(|&&c| c == '#').count();
    (is_raw && rest.get(letters + hashes) == Some(&'"')).then_some((hashes, letters + hashes + 1))
}

/// Returns the length of a character literal, or 1 for a lifetime.
fn character(rest: &[char]) -> usize {
    match rest {
        [_, '\\', _, tail @ ..] => tail.iter().take(12).position(|&c| c == '\'').map_or(1, |end| end + 4),
        [_, _, '\'', ..] => 3,
        _ => 1,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let scan = scan(text, true);
        assert_eq!(scan.code.chars().count(), text.chars().count());
        scan.code
    }

    #[test]
    fn comments_and_literals_are_blank() {
        assert_eq!(code("a // b\nc"), "a     \nc");
        assert_eq!(code("a /* b /* c */ d */ e"), "a                   e");
        assert_eq!(code("f(\"x \\\" y\", z)").replace(' ', ""), "f(,z)");
        assert_eq!(code("f(r#\"x \" y\"#, z)").replace(' ', ""), "f(,z)");
        assert_eq!(code("for(x)").trim(), "for(x)");
    }

    #[test]
    fn quotes_in_characters_and_lifetimes_open_nothing() {
        assert_eq!(code("m('\"', '\\'', '\\u{22}') + n").replace(' ', ""), "m(,,)+n");
        assert_eq!(code("fn f<'a>(x: &'a str)"), "fn f<'a>(x: &'a str)");
    }

    #[test]
    fn lines_inside_of_strings_and_comments_do_not_begin_in_code() {
        let text = "let a = \"\n// not a comment\n\";\n/*\n// neither\n*/\n// one\n";
        let scan = scan(text, true);
        assert_eq!(scan.begins_in_code, [true, false, false, true, false, false, true, true]);
    }

    #[test]
    fn an_escaped_end_of_line_ends_the_line() {
        let scan = scan("\"a\\\nb\\\\\"\n// c\n", true);
        assert_eq!(scan.begins_in_code, [true, false, true, true]);
    }

    #[test]
    fn comments_of_c_do_not_nest() {
        assert_eq!(scan("/* a /* b */ c", false).code.trim(), "c");
    }
}
