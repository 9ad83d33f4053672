//! What can be written on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Repeats the experiments of the papers, and shows them beside what the papers say.
#[derive(Debug, Parser)]
#[command(name = "evaluation", arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure what is missing, and show it
    Measure(MeasureArguments),
    /// Run programs on a local disk and keep what they did to their files
    Record(RecordArguments),
}

#[derive(Debug, Args)]
pub(crate) struct MeasureArguments {
    /// Few trials of shortened work, in about ten minutes, to see that everything works
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these experiments [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Discard earlier results of these experiments instead of going on with them
    #[arg(long)]
    pub(crate) afresh: bool,
    /// Measure nothing, show what was measured
    #[arg(long, conflicts_with = "afresh")]
    pub(crate) show: bool,
    /// Measure nothing, say how many jobs of each experiment are left, and about how long they take
    #[arg(long, conflicts_with_all = ["afresh", "show", "publish"])]
    pub(crate) list: bool,
    /// Write what is finished to docs/evaluation, under this date, and list it in docs/evaluation.md
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) publish: Option<String>,
    /// The trace of a package, made by `evaluation record`
    #[arg(
        long,
        value_name = "FILE",
        default_value = "crates/evaluation/traces/dropbear.trace"
    )]
    pub(crate) trace: PathBuf,
    /// Folder on the disk to use, where a work folder is made and removed
    #[arg(long, value_name = "DIR", default_value = "target/evaluation")]
    pub(crate) disk: PathBuf,
    /// The server program [default: the one built beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) meridian: Option<PathBuf>,
    /// Folder for raw results and pages; quick runs use its subfolder `quick`
    #[arg(long, value_name = "DIR", default_value = "target/evaluation")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct RecordArguments {
    /// A folder for the work, on a local disk; two trees in it are replaced
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Where the trace goes
    #[arg(long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// What it is, for people
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: String,
    /// The phases, each run by sh in the tree
    #[arg(last = true, required = true, value_name = "NAME=COMMAND")]
    pub(crate) phases: Vec<String>,
}
