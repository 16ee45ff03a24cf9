//! `strobe loops`: how often loops iterate, and what an iteration costs.

use std::io::{self, Write};

use profile::model::FunctionId;
use profile::query::{self, LoopRow};
use serde::Serialize;

use crate::figures::{Figure, bare_percent};
use crate::view::subject::{FunctionLabel, Spot, Subject};
use crate::view::table::{DIM, PLACE, TITLE, heat};
use crate::view::{View, nothing, title};

/// Columns of the longest bar.
const BAR_WIDTH: usize = 40;

#[derive(Debug, Serialize)]
pub struct LoopsView {
    pub n_loops: usize,
    pub loops: Vec<LoopLine>,
    #[serde(skip)]
    is_timeless: bool,
}

#[derive(Debug, Serialize)]
pub struct LoopLine {
    pub function: FunctionLabel,
    pub header: Spot,
    /// Number of loops around it.
    pub depth: u32,
    /// Header of the loop around it.
    pub parent: Option<Spot>,
    pub self_ns: Figure,
    /// Share of CPU time.
    pub share: Figure,
    /// Share of the function's own time.
    pub share_of_function: Figure,
    pub entries: Figure,
    pub iterations: Figure,
    pub mean_trips: Option<Figure>,
    pub ns_per_iteration: Option<Figure>,
    /// Complete visits by the number of iterations.
    pub trips: Vec<TripBucket>,
    pub n_partial_visits: u64,
}

/// Visits of `from` to `to` iterations.
#[derive(Debug, Serialize)]
pub struct TripBucket {
    pub from: u64,
    pub to: u64,
    pub visits: u64,
}

pub fn view(subject: &mut Subject, function: Option<FunctionId>, n: usize) -> LoopsView {
    let mut rows = query::loops(&subject.profile, function);
    let n_loops = rows.len();
    rows.truncate(n);
    let header =
        |subject: &Subject, id: profile::model::LoopId| subject.start_of(subject.profile.loops[id.index()].header);
    let parent = |subject: &Subject, row: &LoopRow| subject.profile.loops[row.id.index()].parent;
    let headers = rows.iter().flat_map(|row| [Some(row.id), parent(subject, row)]).flatten();
    let places: Vec<_> = headers.map(|id| header(subject, id)).collect();
    subject.resolve(rows.iter().map(|row| row.function), places);
    let loops = rows.iter().map(|row| LoopLine {
        function: subject.label(row.function),
        header: subject.spot(header(subject, row.id)),
        depth: row.depth,
        parent: parent(subject, row).map(|id| subject.spot(header(subject, id))),
        self_ns: row.self_ns.into(),
        share: row.share.into(),
        share_of_function: row.share_of_function.into(),
        entries: row.entries.into(),
        iterations: row.iterations.into(),
        mean_trips: row.mean_trips.map(Figure::from),
        ns_per_iteration: row.ns_per_iteration.map(Figure::from),
        trips: buckets(&row.trips),
        n_partial_visits: row.n_partial_visits,
    });
    let loops = loops.collect();
    LoopsView { n_loops, loops, is_timeless: query::is_timeless(&subject.profile) }
}

/// From the first bucket with visits to the last.
fn buckets(trips: &[u64]) -> Vec<TripBucket> {
    let start = |power: usize| 1u64.checked_shl(power as u32).unwrap_or(u64::MAX);
    let all = trips.iter().enumerate().map(|(power, &visits)| TripBucket {
        from: start(power),
        to: start(power + 1).saturating_sub(1).max(start(power)),
        visits,
    });
    let mut shown: Vec<TripBucket> = all.skip_while(|bucket| bucket.visits == 0).collect();
    while shown.last().is_some_and(|bucket| bucket.visits == 0) {
        shown.pop();
    }
    shown
}

impl View for LoopsView {
    const KIND: &'static str = "loops";

    fn is_empty(&self) -> bool {
        self.loops.is_empty()
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.loops.is_empty() {
            return nothing(out, "loops");
        }
        title(out, "Hot loops", self.loops.len(), self.n_loops)?;
        self.loops.iter().enumerate().try_for_each(|(index, line)| {
            writeln!(out)?;
            line.print(index + 1, self.is_timeless, out)
        })
    }
}

impl LoopLine {
    fn print(&self, rank: usize, is_timeless: bool, out: &mut dyn Write) -> io::Result<()> {
        let nested =
            self.parent.as_ref().map_or(String::new(), |parent| format!(", inside the loop at {}", parent.text()));
        let place = self.header.text();
        writeln!(out, "#{rank}  {PLACE}{place}{PLACE:#}  {TITLE}{}{TITLE:#}{nested}", self.function.text())?;
        if is_timeless {
            return self.print_counts(out);
        }
        let hot = heat(self.share.value);
        let of_function = self.share_of_function.bare_percent();
        let time = self.self_ns.time();
        writeln!(out, "    time   {hot}{}{hot:#} ({time}), {of_function} of the function", self.share.percent())?;
        let each = self.ns_per_iteration.map_or(String::new(), |ns| format!(", {} each", ns.time()));
        writeln!(out, "    turns  {}{each}", seen(self.iterations))?;
        let mean = self.mean_trips.map_or(String::new(), |trips| format!(", {} turns on average", trips.count()));
        writeln!(out, "    visits {}{mean}", seen(self.entries))?;
        self.print_trips(out)
    }

    /// What a recording knows that counts everything and has no times.
    fn print_counts(&self, out: &mut dyn Write) -> io::Result<()> {
        let mean = self.mean_trips.map_or(String::new(), |trips| format!(", {} turns on average", trips.count()));
        writeln!(out, "    turns  {}", self.iterations.count())?;
        writeln!(out, "    visits {}{mean}", self.entries.count())
    }

    fn print_trips(&self, out: &mut dyn Write) -> io::Result<()> {
        let n_visits: u64 = self.trips.iter().map(|bucket| bucket.visits).fold(0, u64::saturating_add);
        let most = self.trips.iter().map(|bucket| bucket.visits).max().unwrap_or(0).max(1);
        let ranges: Vec<String> = self.trips.iter().map(TripBucket::range).collect();
        let width = ranges.iter().map(String::len).max().unwrap_or(0);
        for (bucket, range) in self.trips.iter().zip(&ranges) {
            let share = bucket.visits as f64 / n_visits.max(1) as f64;
            let length = (BAR_WIDTH as f64 * bucket.visits as f64 / most as f64).ceil() as usize;
            let bar = "█".repeat(length);
            writeln!(out, "      {range:>width$} turns {:>6}  {bar}", bare_percent(share))?;
        }
        let seen = format!("{n_visits} visits seen in full, {} in part", self.n_partial_visits);
        writeln!(out, "      {DIM}{seen}{DIM:#}")
    }
}

fn seen(count: Figure) -> String {
    if 0.0 < count.value { count.count() } else { "none begun while it was watched".to_owned() }
}

impl TripBucket {
    fn range(&self) -> String {
        if self.from == self.to { self.from.to_string() } else { format!("{}-{}", self.from, self.to) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_powers_of_two() {
        let shown = buckets(&[0, 3, 0, 1, 0]);
        let shown: Vec<(String, u64)> = shown.iter().map(|bucket| (bucket.range(), bucket.visits)).collect();
        assert_eq!(shown, [("2-3".to_owned(), 3), ("4-7".to_owned(), 0), ("8-15".to_owned(), 1)]);
        assert_eq!(buckets(&[7])[0].range(), "1");
        assert_eq!(buckets(&vec![1; 80]).len(), 80);
    }
}
