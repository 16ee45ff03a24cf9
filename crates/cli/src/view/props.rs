//! What a view is asked to show, as plain values.

use std::path::PathBuf;

use clap::ValueEnum;
use profile::query;

#[derive(Debug)]
pub struct ViewProps {
    pub profile: PathBuf,
    pub query: Query,
    /// Rows to show; `None`: as many as suit the view.
    pub top: Option<usize>,
    pub json: bool,
    /// Whether a terminal gets a pager.
    pub use_pager: bool,
    /// Whether servers may be asked for debug data.
    pub use_debuginfod: bool,
}

#[derive(Debug)]
pub enum Query {
    Report {
        /// Where to write it as a page, instead of printing it.
        html: Option<PathBuf>,
    },
    Paths {
        function: Option<String>,
        by: PathOrder,
        style: CodeStyle,
        is_by_context: bool,
    },
    PathClasses {
        function: Option<String>,
        statistics: Statistics,
        is_by_context: bool,
    },
    Edges {
        function: Option<String>,
    },
    Calls {
        function: Option<String>,
    },
    Contexts(ContextsProps),
    ContextTree(Statistics),
    Annotate {
        function: String,
        style: CodeStyle,
    },
    Loops {
        function: Option<String>,
    },
    Methods,
    Branches {
        function: Option<String>,
        by: BranchOrder,
    },
    Values {
        function: Option<String>,
    },
}

#[derive(Debug)]
pub struct ContextsProps {
    /// Smallest share of CPU time that is shown.
    pub min_share: f64,
    /// Only what runs below this function.
    pub caller: Option<String>,
    /// Only what leads to this function.
    pub callee: Option<String>,
    /// Functions at the root, their callers below.
    pub is_inverted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PathOrder {
    /// CPU time in its blocks
    Time,
    /// How often it ran, times its branches
    Flow,
    /// How often it ran
    Count,
}

/// What statistics are of.
#[derive(Debug, Clone, Copy)]
pub struct Statistics {
    pub metric: MetricName,
    /// Share of the metric from which on something is hot.
    pub hot_share: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MetricName {
    /// How often it ran
    Executions,
    /// Instructions in it
    Instructions,
    /// Conditional and computed branches in it
    Branches,
    /// CPU time in it
    #[value(alias = "time")]
    Cycles,
    /// Misses of the simulated data cache in it
    #[value(alias = "misses")]
    L1d,
}

impl MetricName {
    pub fn query(self) -> query::Metric {
        match self {
            MetricName::Executions => query::Metric::Executions,
            MetricName::Instructions => query::Metric::Instructions,
            MetricName::Branches => query::Metric::Branches,
            MetricName::Cycles => query::Metric::Time,
            MetricName::L1d => query::Metric::Misses,
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            MetricName::Executions => "executions",
            MetricName::Instructions => "instructions",
            MetricName::Branches => "branches",
            MetricName::Cycles => "cycles",
            MetricName::L1d => "L1d misses",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BranchOrder {
    /// How often it ran
    Count,
    /// How often it ran, times what is left to guess of its outcome
    Entropy,
}

/// What code is shown as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeStyle {
    /// Source lines; instructions where there are none.
    Source,
    /// Instructions, with source lines between them.
    Instructions,
}
