//! The parser of selectors: one function for each rule of the grammar.

use alloc::boxed::Box;
use alloc::string::ToString as _;
use alloc::vec::Vec;
use core::ops::Range;

use super::{Classes, Selector};
use crate::cursor::{At, Cursor, parse_all};
use crate::error::{Error, ParseError};

/// Bytes that an instruction can access at once.
const WIDTHS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
const WORDS: &str = "all, load, load8, store, call, jump, branch, value, argument, address, target, type, module:NAME, function:NAME or 0xADDRESS";

pub(super) fn parse(text: &str) -> Result<Selector, ParseError> {
    parse_all(text, Cursor::set, "&, | or the end")
}

/// Whether a name needs no quotes for this character.
pub(super) fn is_plain(c: char) -> bool {
    !c.is_whitespace() && !"&|!()\"".contains(c)
}

impl<'a> Cursor<'a> {
    fn set(&mut self) -> Result<Selector, At> {
        let mut parts = Vec::from([self.part()?]);
        while self.take("|") {
            parts.push(self.part()?);
        }
        Ok(Selector::any_of(parts))
    }

    fn part(&mut self) -> Result<Selector, At> {
        let mut each = Vec::from([self.each()?]);
        while self.take("&") {
            each.push(self.each()?);
        }
        Ok(Selector::all_of(each))
    }

    fn each(&mut self) -> Result<Selector, At> {
        self.skip_blanks();
        let set = self.deeper(|cursor| {
            if cursor.take("!") {
                return Ok(Selector::Not(Box::new(cursor.each()?)));
            }
            if cursor.take("(") {
                let set = cursor.set()?;
                cursor.expect(")", "&, | or )")?;
                return Ok(set);
            }
            if cursor.rest.starts_with("0x") { cursor.places() } else { cursor.word() }
        })?;
        self.skip_blanks();
        Ok(set)
    }

    fn word(&mut self) -> Result<Selector, At> {
        if self.take("module:") {
            return Ok(Selector::Module(self.name()?.to_string()));
        }
        if self.take("function:") {
            return Ok(Selector::Function(self.name()?.to_string()));
        }
        let column = self.column;
        let letters = self.take_while(|c| c.is_ascii_lowercase());
        let class = Classes::NAMES.iter().find(|(name, _)| *name == letters).map(|&(_, class)| class);
        let is_access = class == Some(Classes::LOAD) || class == Some(Classes::STORE);
        let digits_at = self.column;
        let digits = if is_access { self.take_while(|c| c.is_ascii_digit()) } else { "" };
        match class {
            Some(class) if digits.is_empty() => Ok(Selector::Class(class)),
            Some(class) => {
                let bytes = digits.parse().unwrap_or(u64::MAX);
                let is_possible = WIDTHS.contains(&bytes);
                let error = At { column: digits_at, error: Error::AccessBytes(bytes) };
                if is_possible { Ok(Selector::Access(class, bytes as u32)) } else { Err(error) }
            }
            None if letters == "all" => Ok(Selector::All),
            None => Err(At { column, error: Error::Expected(WORDS) }),
        }
    }

    /// A name, with or without quotes.
    fn name(&mut self) -> Result<&'a str, At> {
        if self.take("\"") {
            let name = self.take_while(|c| c != '"');
            self.expect("\"", "a closing \"")?;
            return Ok(name);
        }
        match self.take_while(is_plain) {
            "" => Err(self.here(Error::Expected("a name"))),
            name => Ok(name),
        }
    }

    fn places(&mut self) -> Result<Selector, At> {
        let mut ranges = Vec::from([self.range()?]);
        while self.take(",") {
            ranges.push(self.range()?);
        }
        Ok(Selector::Places(ranges.into_boxed_slice()))
    }

    fn range(&mut self) -> Result<Range<u64>, At> {
        let start = self.address()?;
        let end_at = self.column + "..".len();
        let end = if self.take("..") { self.address()? } else { start.saturating_add(1) };
        if start < end { Ok(start..end) } else { Err(At { column: end_at, error: Error::EmptyRange }) }
    }

    fn address(&mut self) -> Result<u64, At> {
        let column = self.column;
        let digits = if self.take("0x") { self.take_while(|c| c.is_ascii_hexdigit()) } else { "" };
        if digits.is_empty() {
            return Err(At { column, error: Error::Expected("an address such as 0x1000") });
        }
        u64::from_str_radix(digits, 16).map_err(|_| At { column, error: Error::NumberTooLarge })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_printed_as_they_are_written() {
        for text in [
            "all",
            "load8",
            "store",
            "0x1000",
            "0x1000..0x2000,0x3000",
            "module:libc.so.6 & load",
            "function:std::vector<int>::size",
            "function:\"f(int const&)\" | call & !jump",
            "!(load4 | store4) & (value | address)",
            "module:näh",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse("  load&  ( ( store ) )|all ").unwrap().to_string(), "load & store | all");
    }

    #[test]
    fn errors_point_at_the_character() {
        let refused = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(refused("load & "), alloc::format!("expected {WORDS}\n  load & \n         ^"));
        assert_eq!(refused("load store"), "expected &, | or the end\n  load store\n       ^");
        assert_eq!(refused("(load"), "expected &, | or )\n  (load\n       ^");
        assert_eq!(refused("function: main"), "expected a name\n  function: main\n           ^");
        assert_eq!(
            refused("load & load3"),
            "no instruction accesses 3 bytes at once; give 1, 2, 4, 8, 16, 32 or 64\n  load & load3\n             ^"
        );
    }

    #[test]
    fn mistakes_are_found_where_they_stand() {
        let error = |text: &str| {
            let error = parse(text).unwrap_err();
            (error.column(), error.error())
        };
        assert_eq!(error(""), (0, Error::Expected(WORDS)));
        assert_eq!(error("loads"), (0, Error::Expected(WORDS)));
        assert_eq!(error("call8"), (4, Error::Expected("&, | or the end")));
        assert_eq!(error("load99999999999999999999"), (4, Error::AccessBytes(u64::MAX)));
        assert_eq!(error("0x"), (0, Error::Expected("an address such as 0x1000")));
        assert_eq!(error("0x1,2"), (4, Error::Expected("an address such as 0x1000")));
        assert_eq!(error("0x20..0x20"), (6, Error::EmptyRange));
        assert_eq!(error("0x11112222333344445"), (0, Error::NumberTooLarge));
        assert_eq!(error("module:näh é"), (11, Error::Expected("&, | or the end")));
        assert_eq!(error("function:\"main"), (14, Error::Expected("a closing \"")));
        assert_eq!(error(&"!".repeat(100_000)), (8, Error::TooDeep));
        assert_eq!(error(&"(".repeat(100_000)), (8, Error::TooDeep));
    }
}
