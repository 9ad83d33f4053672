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
    /// Count the system calls of the server, and the waits of its threads, for a small file created, and for one removed
    Count(CountArguments),
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
