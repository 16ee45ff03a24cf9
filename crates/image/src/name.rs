//! Names of functions: mangled, readable, and made up where a file has none.
//!
//! A mangled name is a small program that prints a text, and a short hostile one can print without
//! end; what it prints is therefore cut off at a limit, and the raw name shown instead.

use crate::Svma;
use cpp_demangle::DemangleOptions;
use std::fmt::{self, Write};

/// Longest readable name; longer ones are shown raw.
const MAX_DEMANGLED_LEN: usize = 1 << 16;

/// Ending of the names of linkage table stubs.
const PLT_SUFFIX: &str = "@plt";

/// Beginning of made-up names.
const SYNTHETIC_PREFIX: &str = "fn_";

/// The name of a function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FunctionName {
    /// As the file has it, or made up.
    pub raw: String,
    /// Where it comes from.
    pub kind: NameKind,
}

/// Where a name comes from.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// A symbol table.
    Symbol,
    /// The import that a linkage table stub jumps to.
    Plt,
    /// The address: `fn_1a2b0`.
    Synthetic,
}

impl FunctionName {
    pub(crate) fn symbol(raw: &str) -> FunctionName {
        FunctionName { raw: raw.to_owned(), kind: NameKind::Symbol }
    }

    pub(crate) fn plt(symbol: &str) -> FunctionName {
        FunctionName { raw: format!("{symbol}{PLT_SUFFIX}"), kind: NameKind::Plt }
    }

    pub(crate) fn synthetic(start: Svma) -> FunctionName {
        FunctionName { raw: format!("{SYNTHETIC_PREFIX}{start:x}"), kind: NameKind::Synthetic }
    }

    /// The name as written in the source, with parameters if the mangling has them.
    pub fn demangled(&self) -> String {
        match (self.kind, self.raw.strip_suffix(PLT_SUFFIX)) {
            (NameKind::Symbol, _) => demangle(&self.raw),
            (NameKind::Plt, Some(symbol)) => demangle(symbol) + PLT_SUFFIX,
            _ => self.raw.clone(),
        }
    }
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.demangled())
    }
}

/// The readable form of a Rust or C++ name; any other name is its own.
pub fn demangle(raw: &str) -> String {
    demangle_with(raw, DemangleOptions::new()).unwrap_or_else(|| raw.to_owned())
}

/// Whether `raw` reads as `wanted`, with or without its parameters. The name without parameters
/// does not mean the cold part, which is no function of its own.
pub(crate) fn reads_as(raw: &str, wanted: &str) -> bool {
    let matches = |options| demangle_with(raw, options).is_some_and(|name| name == wanted);
    matches(DemangleOptions::new())
        || (!raw.contains(".cold") && matches(DemangleOptions::new().no_params().no_return_type()))
}

/// The address that a made-up name is made of.
pub(crate) fn synthetic_address(name: &str) -> Option<Svma> {
    let digits = name.strip_prefix(SYNTHETIC_PREFIX)?;
    let address = Svma(u64::from_str_radix(digits, 16).ok()?);
    (FunctionName::synthetic(address).raw == name).then_some(address)
}

/// The import that a stub's name is made of.
pub(crate) fn plt_symbol(name: &str) -> Option<&str> {
    name.strip_suffix(PLT_SUFFIX)
}

fn demangle_with(raw: &str, options: DemangleOptions) -> Option<String> {
    let mut out = Limited(String::new());
    if let Ok(name) = rustc_demangle::try_demangle(raw) {
        write!(out, "{name:#}").ok()?;
    } else if raw.starts_with("_Z") {
        cpp_demangle::BorrowedSymbol::new(raw.as_bytes()).ok()?.structured_demangle(&mut out, &options).ok()?;
    } else {
        return None;
    }
    Some(out.0)
}

/// A string that refuses to grow without end.
struct Limited(String);

impl Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_DEMANGLED_LEN {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_and_cpp_names_are_readable() {
        assert_eq!(demangle("_ZN5space3fooEibc"), "space::foo(int, bool, char)");
        assert_eq!(demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"), "core::fmt::Formatter::pad");
        assert_eq!(demangle("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("_Zbogus"), "_Zbogus");
        assert_eq!(FunctionName::plt("_Znwm").demangled(), "operator new(unsigned long)@plt");
    }

    #[test]
    fn names_match_with_and_without_parameters() {
        assert!(reads_as("_ZN5space3fooEibc", "space::foo(int, bool, char)"));
        assert!(reads_as("_ZN5space3fooEibc", "space::foo"));
        assert!(!reads_as("_ZN5space3fooEibc", "foo"));
        assert!(!reads_as("main", "main"), "plain names are matched raw");
    }

    #[test]
    fn synthetic_names_round_trip() {
        let name = FunctionName::synthetic(Svma(0x1a2b0));
        assert_eq!(name.raw, "fn_1a2b0");
        assert_eq!(synthetic_address(&name.raw), Some(Svma(0x1a2b0)));
        for other in ["fn_", "fn_xyz", "fn_01", "fn_+1", "fn_1A", "main"] {
            assert_eq!(synthetic_address(other), None, "{other}");
        }
    }

    /// Each parameter is a pair of the one before it, by reference: 2^30 characters if printed.
    #[test]
    fn exploding_names_stay_raw() {
        let exploding = |pairs: usize| {
            let mut raw = String::from("_Z1f1a1pIS_S_E");
            for previous in "123456789ABCDEFGHIJKLMNOPQRSTU".chars().take(pairs) {
                raw += &format!("S0_IS{previous}_S{previous}_E");
            }
            raw
        };
        assert_eq!(demangle(&exploding(1)), "f(a, p<a, a>, p<p<a, a>, p<a, a> >)");
        assert_eq!(demangle(&exploding(30)), exploding(30));
    }
}
