//! A place in a text that is parsed: what both grammars of the crate need of one, so that their
//! errors point at the character in the same way.
//!
//! A parser is a function for each rule of its grammar, as methods of the cursor, in the module of
//! what it makes.

use alloc::string::ToString as _;

use crate::error::{Error, ParseError};

/// Rules inside each other, so that a long text cannot exhaust the stack.
const MAX_DEPTH: u32 = 8;

/// Where a parser is.
pub(crate) struct Cursor<'a> {
    pub rest: &'a str,
    /// Characters before `rest`.
    pub column: usize,
    depth: u32,
}

/// What is wrong, and with which character.
pub(crate) struct At {
    pub column: usize,
    pub error: Error,
}

/// Parses all of `text` by a rule; `behind` is what could still come where the rule ends.
pub(crate) fn parse_all<'a, T>(
    text: &'a str,
    rule: impl FnOnce(&mut Cursor<'a>) -> Result<T, At>,
    behind: &'static str,
) -> Result<T, ParseError> {
    let mut cursor = Cursor { rest: text, column: 0, depth: 0 };
    let parsed = rule(&mut cursor).and_then(|parsed| match cursor.rest {
        "" => Ok(parsed),
        _ => Err(cursor.here(Error::Expected(behind))),
    });
    parsed.map_err(|At { column, error }| ParseError { text: text.to_string(), column, error })
}

impl<'a> Cursor<'a> {
    /// A rule that can be inside itself.
    pub fn deeper<T>(&mut self, rule: impl FnOnce(&mut Self) -> Result<T, At>) -> Result<T, At> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.here(Error::TooDeep));
        }
        let parsed = rule(self)?;
        self.depth -= 1;
        Ok(parsed)
    }

    /// Passes `token`, which must stand here; `what` to say if it does not.
    pub fn expect(&mut self, token: &str, what: &'static str) -> Result<(), At> {
        if self.take(token) { Ok(()) } else { Err(self.here(Error::Expected(what))) }
    }

    /// Passes `token` if it stands here.
    pub fn take(&mut self, token: &str) -> bool {
        let is_here = self.rest.starts_with(token);
        if is_here {
            self.advance(token.len());
        }
        is_here
    }

    pub fn take_while(&mut self, is_wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest;
        let n_bytes = rest.find(|c| !is_wanted(c)).unwrap_or(rest.len());
        self.advance(n_bytes);
        rest.get(..n_bytes).unwrap_or_default()
    }

    pub fn skip_blanks(&mut self) {
        self.take_while(char::is_whitespace);
    }

    pub fn here(&self, error: Error) -> At {
        At { column: self.column, error }
    }

    fn advance(&mut self, n_bytes: usize) {
        let (passed, rest) = self.rest.split_at_checked(n_bytes).unwrap_or((self.rest, ""));
        self.column += passed.chars().count();
        self.rest = rest;
    }
}
