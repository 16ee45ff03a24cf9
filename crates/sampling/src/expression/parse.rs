//! The parser of compositions: one function for each rule of the grammar.

use alloc::vec::Vec;

use super::{Expression, HashKind, SamplerKind, Stage};
use crate::cursor::{At, Cursor, parse_all};
use crate::error::{Error, ParseError, Rate, TableSize};
use crate::rivals::CountMinShape;
use crate::tagged::{TagShape, Thresholds};

/// Defaults of the options of `T`: the paper's tags and ways, and its miss counter of 3 bits. It
/// does not say when to evict.
const TAG_BITS: u64 = 2;
const WAYS: u64 = 2;
const REPLACE: u64 = 8;
/// An entry may be evicted at this part of the rate.
const EVICT_DIVISOR: u64 = 4;

pub(super) fn parse(text: &str) -> Result<Expression, ParseError> {
    parse_all(text, Cursor::expression, "R, P, D, C, H, A, T, SS, MG or CM")
}

/// A number and where it stands, for errors that are found later.
struct Number {
    value: u64,
    column: usize,
}

impl Number {
    fn rate(&self) -> Result<Rate, At> {
        self.check(Rate::new(self.value))
    }

    fn size(&self) -> Result<TableSize, At> {
        self.check(TableSize::new(self.value))
    }

    fn check<T>(&self, result: Result<T, Error>) -> Result<T, At> {
        result.map_err(|error| At { column: self.column, error })
    }
}

impl Cursor<'_> {
    fn expression(&mut self) -> Result<Expression, At> {
        let start = self.column;
        let mut stages = Vec::new();
        self.skip_blanks();
        while let Some(stage) = self.stage()? {
            stages.push(stage);
            self.skip_blanks();
        }
        let at_start = |error| At { column: start, error };
        match Expression::new(stages.into_boxed_slice()) {
            Err(Error::Empty) if !self.rest.is_empty() => Err(self.here(Error::Expected("a component"))),
            result => result.map_err(at_start),
        }
    }

    /// A component, or nothing if none starts here.
    fn stage(&mut self) -> Result<Option<Stage>, At> {
        let kinds = [("R", SamplerKind::Random), ("P", SamplerKind::Periodic), ("D", SamplerKind::Countdown)];
        let named = [
            ("SS", Stage::SpaceSaving as fn(TableSize) -> Stage),
            ("MG", Stage::MisraGries),
            ("A", Stage::Associative),
        ];
        for (name, kind) in kinds {
            if self.take(name) {
                return Ok(Some(Stage::Sampler(kind, self.number()?.rate()?)));
            }
        }
        for (name, stage) in named {
            if self.take(name) {
                return Ok(Some(stage(self.number()?.size()?)));
            }
        }
        if self.take("CM") {
            return self.count_min().map(Some);
        }
        if self.take("C") {
            let counted = kinds.iter().find(|(name, _)| self.take(name));
            let Some(&(_, kind)) = counted else { return Ok(Some(Stage::Counter)) };
            return Ok(Some(Stage::CountedSampler(kind, self.number()?.rate()?)));
        }
        if self.take("H") {
            return self.split().map(Some);
        }
        if self.take("T") {
            return self.tagged().map(Some);
        }
        Ok(None)
    }

    fn split(&mut self) -> Result<Stage, At> {
        let hash = self.hash()?;
        let inner = self.deeper(|cursor| {
            cursor.expect("[", "[")?;
            let inner = cursor.expression()?;
            cursor.expect("]", "another component or ]")?;
            Ok(inner)
        })?;
        let strata = self.number()?;
        strata.check(Stage::split(hash, inner, strata.size()?))
    }

    fn tagged(&mut self) -> Result<Stage, At> {
        let hash = self.hash()?;
        self.expect("[", "[")?;
        let rate = self.number()?.rate()?;
        let default = |value| Number { value, column: 0 };
        let mut tag_bits = default(TAG_BITS);
        let mut ways = default(WAYS);
        let mut evict = default((u64::from(rate.get()) / EVICT_DIVISOR).max(1));
        let mut replace = default(REPLACE);
        while self.take(",") {
            self.skip_blanks();
            let names = [("tag", &mut tag_bits), ("ways", &mut ways), ("evict", &mut evict), ("replace", &mut replace)];
            let option = names.into_iter().find(|(name, _)| self.take(name));
            let Some((_, value)) = option else {
                return Err(self.here(Error::Expected("tag=, ways=, evict= or replace=")));
            };
            self.expect("=", "=")?;
            *value = self.number()?;
        }
        self.expect("]", ", or ]")?;
        let entries = self.number()?;
        let thresholds = Thresholds::new(rate, evict.value, replace.value).map_err(|error| match error {
            Error::EvictThreshold(_) => At { column: evict.column, error },
            _ => At { column: replace.column, error },
        })?;
        let shape = TagShape::new(rate, entries.size()?, tag_bits.value, ways.value).map_err(|error| match error {
            Error::TagBits(_) => At { column: tag_bits.column, error },
            Error::Ways(_) => At { column: ways.column, error },
            _ => At { column: entries.column, error },
        })?;
        entries.check(Stage::tagged(hash, shape, thresholds))
    }

    fn count_min(&mut self) -> Result<Stage, At> {
        self.expect("[", "[")?;
        let rows = self.number()?;
        self.expect(",", ", heap=")?;
        self.skip_blanks();
        self.expect("heap", "heap=")?;
        self.expect("=", "=")?;
        let heap = self.number()?.size()?;
        self.expect("]", "]")?;
        let width = self.number()?.size()?;
        rows.check(CountMinShape::new(rows.value, width, heap)).map(Stage::CountMin)
    }

    fn hash(&mut self) -> Result<HashKind, At> {
        if !self.take(":") {
            return Ok(HashKind::Fast);
        }
        match (self.take("fast"), self.take("paper")) {
            (true, _) => Ok(HashKind::Fast),
            (_, true) => Ok(HashKind::Paper),
            _ => Err(self.here(Error::Expected("fast or paper"))),
        }
    }

    fn number(&mut self) -> Result<Number, At> {
        let column = self.column;
        let digits = self.take_while(|c| c.is_ascii_digit());
        if digits.is_empty() {
            return Err(self.here(Error::Expected("a number")));
        }
        let value = digits.parse().map_err(|_| At { column, error: Error::NumberTooLarge })?;
        Ok(Number { value, column })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString as _;

    fn refused(text: &str) -> alloc::string::String {
        match parse(text) {
            Ok(expression) => format!("parsed as {expression}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn compositions_are_printed_as_they_are_written() {
        for text in [
            "R256",
            "P1",
            "D256",
            "C",
            "CR10",
            "CP10 CD10",
            "H[P256]2048 A16",
            "H:paper[CR10]64",
            "H[H[P4]8 A2]3",
            "T[256, tag=2, ways=2, evict=64, replace=8]2048 A16",
            "T:paper[256, tag=8, ways=8, evict=1, replace=65535]4096",
            "SS512",
            "MG512",
            "CM[4, heap=128]1024",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse(" H:fast[ P2 ]4   A1 ").unwrap().to_string(), "H[P2]4 A1");
        assert_eq!(parse("T[256]2048").unwrap().to_string(), "T[256, tag=2, ways=2, evict=64, replace=8]2048");
    }

    #[test]
    fn errors_point_at_the_character() {
        assert_eq!(refused("H[P0]2048"), "a rate of 0 would never send; the least is 1\n  H[P0]2048\n     ^");
        assert_eq!(
            refused("H[P256]2048 Z"),
            "expected R, P, D, C, H, A, T, SS, MG or CM\n  H[P256]2048 Z\n              ^"
        );
        assert_eq!(refused("H[P256 2048"), "expected another component or ]\n  H[P256 2048\n         ^");
        assert_eq!(refused("H[]4"), "expected a component\n  H[]4\n    ^");
        assert_eq!(refused("P"), "expected a number\n  P\n   ^");
        assert_eq!(refused("H:sha[P1]4"), "expected fast or paper\n  H:sha[P1]4\n    ^");
        assert_eq!(refused(""), "there is no component; an example is `H[P256]2048 A16`\n  \n  ^");
    }

    fn error(text: &str) -> (usize, Error) {
        let error = parse(text).unwrap_err();
        (error.column(), error.error())
    }

    #[test]
    fn numbers_are_checked_where_they_stand() {
        assert_eq!(error("A0"), (1, Error::NoEntries));
        assert_eq!(error("R4294967296"), (1, Error::RateTooLarge(1 << 32)));
        assert_eq!(error("P99999999999999999999"), (1, Error::NumberTooLarge));
        assert_eq!(error("H[P1]67108865"), (5, Error::TooManyEntries((1 << 26) + 1)));
        assert_eq!(error("H[H[P1]65536]65536"), (13, Error::TooManyEntries(1 << 32)));
        assert_eq!(error("A67108864 A1"), (0, Error::TooManyEntries((1 << 26) + 1)));
        assert_eq!(error("H:paper[P1]12"), (11, Error::NotAPowerOfTwo(12)));
        assert_eq!(error("T[256, tag=9]2048"), (11, Error::TagBits(9)));
        assert_eq!(error("T[256, ways=3]2048"), (14, Error::UnevenWays { entries: 2048, ways: 3 }));
        assert_eq!(error("T[256, evict=257]2048"), (13, Error::EvictThreshold(257)));
        assert_eq!(error("T[256, replace=0]2048"), (15, Error::ReplaceThreshold(0)));
        assert_eq!(error("CM[17, heap=1]1"), (3, Error::Rows(17)));
        assert_eq!(error(&"H[".repeat(100_000)), (17, Error::TooDeep));
    }

    #[test]
    fn text_outside_ascii_is_refused_and_pointed_at() {
        assert_eq!(error("P4 é"), (3, Error::Expected("R, P, D, C, H, A, T, SS, MG or CM")));
    }
}
