//! The process in which inputs are exercised, and what it tells the one that started it.
//!
//! Before each input the worker says which one, after it how that went; so if the worker dies or
//! falls silent, the supervisor knows the input. Panics are caught here and reported as outcomes.

use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::time::Instant;

use super::bases;
use super::exercise::{Outcome, exercise};
use super::mutate::{Strategy, input};

/// What a worker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// It starts with this input.
    Begin(u64),
    /// It is done with it.
    End {
        /// How long that took.
        time_us: u64,
        /// How it went; `Err` is the message of a panic.
        outcome: Result<Outcome, String>,
    },
}

impl Message {
    /// One line, fields separated by tabs.
    #[must_use]
    pub fn to_line(&self) -> String {
        match self {
            Message::Begin(index) => format!("begin\t{index}"),
            Message::End { time_us, outcome: Err(message) } => {
                format!("end\t{time_us}\tpanic\t{}", message.replace(['\n', '\t'], " "))
            }
            Message::End { time_us, outcome: Ok(Outcome::Refused(reason)) } => {
                format!("end\t{time_us}\trefused\t{reason}")
            }
            Message::End { time_us, outcome: Ok(Outcome::Analyzed { problems }) } => {
                let problems = problems.iter().map(|(kind, count)| format!("\t{kind}={count}")).collect::<String>();
                format!("end\t{time_us}\tanalyzed{problems}")
            }
        }
    }

    /// Reads a line written by [`Message::to_line`].
    #[must_use]
    pub fn from_line(line: &str) -> Option<Message> {
        let mut fields = line.split('\t');
        match fields.next()? {
            "begin" => Some(Message::Begin(fields.next()?.parse().ok()?)),
            "end" => {
                let time_us = fields.next()?.parse().ok()?;
                let outcome = match fields.next()? {
                    "panic" => Err(fields.next()?.to_owned()),
                    "refused" => Ok(Outcome::Refused(fields.next()?.to_owned())),
                    "analyzed" => Ok(Outcome::Analyzed { problems: fields.map(problem).collect::<Option<_>>()? }),
                    _ => return None,
                };
                Some(Message::End { time_us, outcome })
            }
            _ => None,
        }
    }
}

fn problem(field: &str) -> Option<(String, u64)> {
    let (kind, count) = field.split_once('=')?;
    Some((kind.to_owned(), count.parse().ok()?))
}

/// Which inputs a worker does: every `step`-th index from `from` up to `to`.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Seed of the run.
    pub seed: u64,
    /// First index.
    pub from: u64,
    /// End of the indices.
    pub to: u64,
    /// Distance between indices.
    pub step: u64,
}

/// Exercises a share of the inputs and reports on standard output.
pub fn run(base_dir: &Path, share: Share) -> anyhow::Result<()> {
    let bases = bases::read(base_dir)?;
    panic::set_hook(Box::new(|_| {}));
    let mut out = io::stdout().lock();
    let mut index = share.from;
    while index < share.to {
        let (_, bytes) = input(&bases, share.seed, index);
        writeln!(out, "{}", Message::Begin(index).to_line())?;
        out.flush()?;
        let start = Instant::now();
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| exercise(&bytes))).map_err(|payload| text_of(&*payload));
        let time_us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        writeln!(out, "{}", Message::End { time_us, outcome }.to_line())?;
        out.flush()?;
        index += share.step;
    }
    Ok(())
}

/// Exercises a single input in the open: a panic shows its backtrace. For finding out what is
/// wrong.
pub fn run_one(base_dir: &Path, seed: u64, index: u64) -> anyhow::Result<(Strategy, Vec<u8>, Outcome)> {
    let (strategy, bytes) = input(&bases::read(base_dir)?, seed, index);
    let outcome = exercise(&bytes);
    Ok((strategy, bytes, outcome))
}

fn text_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn messages_survive_being_written_and_read() {
        let problems = BTreeMap::from([("FrameInvalid".to_owned(), 3), ("lines: Truncated".to_owned(), 1)]);
        let messages = [
            Message::Begin(17),
            Message::End { time_us: 5, outcome: Ok(Outcome::Refused("NotElf".to_owned())) },
            Message::End { time_us: 6, outcome: Ok(Outcome::Analyzed { problems }) },
            Message::End { time_us: 7, outcome: Ok(Outcome::Analyzed { problems: BTreeMap::new() }) },
            Message::End { time_us: 8, outcome: Err("index out of bounds".to_owned()) },
        ];
        for message in messages {
            assert_eq!(Message::from_line(&message.to_line()), Some(message));
        }
        assert_eq!(Message::from_line("end\tnever"), None);
    }
}
