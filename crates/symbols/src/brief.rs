//! Names for tables: what a function is called, without what it takes, returns and is made of.
//!
//! `void std::sort<std::vector<int>::iterator>(...)` is `std::sort<..>`. Brackets are skipped as
//! wholes, so that nothing in them is taken for the end of the name; those that are part of it
//! (`(anonymous namespace)`, `{lambda(int)#1}`, `<T as Trait>`, `operator()`) stay.

/// Longest list of template arguments that stays, in bytes.
const MAX_ARGUMENTS: usize = 16;

/// Longest name, in characters.
const MAX_NAME: usize = 80;

const OPERATORS: [&str; 12] = ["()", "<<=", ">>=", "<=>", "<<", ">>", "<=", ">=", "->*", "->", "<", ">"];

/// The short form of a readable name; any text is one.
pub fn brief(name: &str) -> String {
    let mut short = String::new();
    let mut rest = name;
    while let Some(letter) = rest.chars().next() {
        let is_start = short.is_empty() || short.ends_with("::");
        let operator = OPERATORS.iter().find(|&&token| short.ends_with("operator") && rest.starts_with(token));
        let taken = match (operator, letter) {
            (Some(token), _) => token.len(),
            (None, '(') if !is_start => break,
            (None, '(' | '{') => bracket_len(rest),
            (None, '<') if short.is_empty() => bracket_len(rest),
            (None, '<') => {
                let len = bracket_len(rest);
                if MAX_ARGUMENTS < len {
                    short.push_str("<..>");
                    rest = rest.get(len..).unwrap_or_default();
                    continue;
                }
                len
            }
            (None, ' ') if !short.ends_with("operator") => {
                // What came before was the type of the result.
                short.clear();
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            (None, letter) => letter.len_utf8(),
        };
        let (part, after) = rest.split_at_checked(taken).unwrap_or((rest, ""));
        short.push_str(part);
        rest = after;
    }
    clipped(if short.is_empty() { name } else { &short })
}

/// Mangled names that nobody can read have no parts to leave out.
fn clipped(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME) {
        Some((end, _)) => format!("{}..", &name[..end]),
        None => name.to_owned(),
    }
}

/// Bytes from an opening bracket to behind the one that closes it; all if none does.
fn bracket_len(text: &str) -> usize {
    let (open, close) = match text.chars().next() {
        Some('<') => ('<', '>'),
        Some('{') => ('{', '}'),
        _ => ('(', ')'),
    };
    let mut depth = 0u32;
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        if letter == open {
            depth += 1;
        } else if letter == close && !(close == '>' && before == '-') {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at + letter.len_utf8();
            }
        }
        before = letter;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_function_is_called() {
        let cases = [
            ("main", "main"),
            ("a::b(int, std::vector<int>) const", "a::b"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("x::(anonymous namespace)::f()", "x::(anonymous namespace)::f"),
            ("void std::sort<std::vector<int>::iterator>(int) [clone .isra.0]", "std::sort<..>"),
            ("std::vector<int>::push_back(int&&)", "std::vector<int>::push_back"),
            ("std::function<void (int)>::call(int)", "std::function<void (int)>::call"),
            ("bool ns::Less::operator()(int, int) const", "ns::Less::operator()"),
            ("std::ostream& ns::operator<<(std::ostream&, int)", "ns::operator<<"),
            ("operator new(unsigned long)", "operator new"),
            ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()"),
            (
                "<alloc::string::String as core::fmt::Write>::write_str",
                "<alloc::string::String as core::fmt::Write>::write_str",
            ),
            ("core::ptr::drop_in_place<alloc::vec::Vec<fn(u8) -> u8>>", "core::ptr::drop_in_place<..>"),
            ("", ""),
        ];
        assert_eq!(brief(&"x".repeat(100)).len(), 82);
        for (name, expected) in cases {
            assert_eq!(brief(name), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_name(name in "[a-z:<>(){} é-]{0,40}") {
            let short = brief(&name);
            prop_assert!(name.is_empty() || !short.is_empty());
        }
    }
}
