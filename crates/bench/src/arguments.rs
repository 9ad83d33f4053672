//! What can be written on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::workload::Workload;

/// Measures NFS servers with Meridian's own client.
#[derive(Debug, Parser)]
#[command(name = "bench", arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare Meridian with NFS-Ganesha, in turns, on the same disk
    Server(ServerArguments),
    /// Drive one server that runs already
    Load(LoadArguments),
    /// Count the system calls of the server for a small file created, and for one removed
    Count(CountArguments),
    /// Measure what replication costs and brings, over an emulated wide area network
    Replication(ReplicationArguments),
    /// Measure how long a lost server is missed, and what it costs to be prepared
    Failover(FailoverArguments),
    /// Repeat the experiments of the papers, and show them beside what the papers say
    Paper(PaperArguments),
    /// Run programs on a local disk and keep what they did to their files
    Record(RecordArguments),
}

/// Where a benchmark finds and leaves things.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Folder on the disk to use, where a work folder is made and removed
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub(crate) disk: PathBuf,
    /// The server program [default: the one built beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) meridian: Option<PathBuf>,
    /// Folder for the report and the raw figures
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub(crate) output: PathBuf,
    /// Write the result to docs/benchmarks.md, under this date
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) publish: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplicationArguments {
    /// Fewer distances, sets and repetitions, for a first impression
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these parts [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) parts: Vec<Part>,
    /// The trace of a package, made by `bench record`
    #[arg(
        long,
        value_name = "FILE",
        default_value = "crates/bench/traces/dropbear.trace"
    )]
    pub(crate) trace: PathBuf,
    #[command(flatten)]
    pub(crate) run: RunArguments,
}

/// A part of the replication benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Latency of single operations
    Latency,
    /// A package unpacked, configured and built
    Package,
    /// One large file
    Bulk,
}

#[derive(Debug, Args)]
pub(crate) struct FailoverArguments {
    /// Fewer trials and updates, for a first impression
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) run: RunArguments,
}

#[derive(Debug, Args)]
pub(crate) struct PaperArguments {
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
    /// The trace of a package, made by `bench record`
    #[arg(
        long,
        value_name = "FILE",
        default_value = "crates/bench/traces/dropbear.trace"
    )]
    pub(crate) trace: PathBuf,
    /// Folder on the disk to use, where a work folder is made and removed
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub(crate) disk: PathBuf,
    /// The server program [default: the one built beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) meridian: Option<PathBuf>,
    /// Folder for raw results and pages; quick runs use its subfolder `quick`
    #[arg(long, value_name = "DIR", default_value = "target/bench/paper")]
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

#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    /// Short turns and few rounds, for a first impression
    #[arg(long)]
    pub(crate) quick: bool,
    /// Number of rounds, at least 1 [default: 5, or 2 with --quick]
    #[arg(long, value_name = "COUNT")]
    pub(crate) rounds: Option<usize>,
    #[command(flatten)]
    pub(crate) run: RunArguments,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArguments {
    /// Where the server listens
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) server: SocketAddr,
    /// The path of the export
    #[arg(long, value_name = "PATH", default_value = "/export")]
    pub(crate) export: String,
    /// What to do
    #[arg(long, value_enum)]
    pub(crate) workload: Workload,
    /// How many clients do it at once
    #[arg(long, value_name = "COUNT", default_value_t = 16)]
    pub(crate) clients: usize,
    /// For how long
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct CountArguments {
    /// Folder on the disk to use, where a work folder is made and removed
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub(crate) disk: PathBuf,
    /// The server program [default: the one built beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) meridian: Option<PathBuf>,
    /// For how long files are created
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub(crate) seconds: f64,
}
