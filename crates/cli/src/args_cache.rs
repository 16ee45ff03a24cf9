//! The command line of `cache`, exactly as typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use crate::args_values;
use crate::props::CacheProps;

/// Say how large the cache is, list it, make it smaller, or fill it
///
/// strobe keeps translations of programs and libraries, so that a second recording starts warm. Of
/// these it keeps 2 GiB, or what STROBE_CACHE_LIMIT says, such as 500M; what was used longest ago
/// goes first. `warm` translates before the first recording. Which libraries a program needs is
/// asked of its own dynamic linker; the program itself is not run.
#[derive(Debug, ClapArgs)]
#[command(before_help = EXAMPLES, max_term_width = 100)]
pub struct CacheArgs {
    /// What to do: size, list, trim, clear, warm
    #[arg(value_enum, default_value_t = CacheAction::Size, hide_possible_values = true, hide_default_value = true)]
    action: CacheAction,

    /// For warm: programs and libraries
    #[arg(value_name = "BINARY", required_if_eq("action", "warm"))]
    binaries: Vec<PathBuf>,

    /// For trim: keep at most this much, such as 500M or 2G
    #[arg(long, value_name = "SIZE", value_parser = args_values::size)]
    limit: Option<u64>,

    /// For size and list: print as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  strobe cache
  strobe cache warm ./server /usr/bin/python3
  strobe cache trim --limit 500M
  strobe cache list --json | jq '[.files[] | select(.kind == \"copy\")] | length'";

/// What to do with the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CacheAction {
    /// Say how large it is, how large it may be, and where
    Size,
    /// List its files, those used last first
    List,
    /// Remove what is of no use any more, and what is beyond the limit
    Trim,
    /// Remove everything
    Clear,
    /// Translate programs and their libraries as `strobe record` does
    Warm,
}

impl CacheArgs {
    pub fn into_props(self) -> CacheProps {
        let CacheArgs { action, binaries, limit, json } = self;
        let misplaced = [
            ("BINARY goes with warm", !binaries.is_empty() && action != CacheAction::Warm),
            ("--limit goes with trim", limit.is_some() && action != CacheAction::Trim),
            ("--json goes with size and list", json && !matches!(action, CacheAction::Size | CacheAction::List)),
        ];
        if let Some((why, _)) = misplaced.into_iter().find(|&(_, is_so)| is_so) {
            clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, format!("{why} only\n")).exit();
        }
        match action {
            CacheAction::Size => CacheProps::Size { json },
            CacheAction::List => CacheProps::List { json },
            CacheAction::Trim => CacheProps::Trim { limit },
            CacheAction::Clear => CacheProps::Clear,
            CacheAction::Warm => CacheProps::Warm { binaries },
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        cache: CacheArgs,
    }

    fn props(words: &[&str]) -> Result<CacheProps, clap::Error> {
        Typed::try_parse_from(["strobe"].iter().chain(words)).map(|typed| typed.cache.into_props())
    }

    #[test]
    fn what_is_typed_is_what_is_done() {
        assert!(matches!(props(&[]), Ok(CacheProps::Size { json: false })));
        assert!(matches!(props(&["--json"]), Ok(CacheProps::Size { json: true })));
        assert!(matches!(props(&["list", "--json"]), Ok(CacheProps::List { json: true })));
        assert!(matches!(props(&["trim"]), Ok(CacheProps::Trim { limit: None })));
        assert!(matches!(props(&["trim", "--limit", "1M"]), Ok(CacheProps::Trim { limit: Some(0x10_0000) })));
        let Ok(CacheProps::Warm { binaries }) = props(&["warm", "a", "b"]) else { panic!("not warm") };
        assert_eq!(binaries, ["a", "b"].map(PathBuf::from));
        for bad in [&["warm"][..], &["trim", "--limit", "much"], &["fill"]] {
            assert!(props(bad).is_err(), "{bad:?}");
        }
    }
}
