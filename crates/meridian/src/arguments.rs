//! What can be written on the command line.
//!
//! What must never enter: defaults of the server; an absent argument leaves them to the configuration.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use server::configuration::{ListenAddress, LogFilter};

/// Serves file trees to NFSv4.1 clients.
#[derive(Debug, Parser)]
#[command(name = "meridian", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the trees of a data directory until SIGTERM or SIGINT
    Serve(ServeArguments),
    /// Show what the server that runs on a data directory is doing
    Status(StatusArguments),
    /// Verify a data directory while no server runs on it
    Check(CheckArguments),
    /// Work on configuration files
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Data directory, made if it is not there [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Configuration file; without one everything has its default
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address to accept connections at; may be repeated [default: [::]:2049]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Vec<ListenAddress>,
    /// Path at which clients find the tree [default: /export]
    #[arg(long, value_name = "PATH")]
    pub(crate) export: Option<String>,
    /// What to log: error, warn, info, debug or trace, or by module as in `info,store=debug`
    #[arg(long, value_name = "LEVEL", env = "MERIDIAN_LOG")]
    pub(crate) log: Option<LogFilter>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    /// Data directory of the server [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// Data directory to verify
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Mend what can be mended; data that cannot be placed is set aside, never deleted
    #[arg(long)]
    pub(crate) repair: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say whether a configuration file is right, and what is wrong where
    Check {
        /// The file
        file: PathBuf,
    },
}
