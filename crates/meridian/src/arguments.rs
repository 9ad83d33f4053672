//! What can be written on the command line.
//!
//! What must never enter: defaults of the server; an absent argument leaves them to the configuration.

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "the help shows these comments as they stand, with brackets that are no links"
)]

mod administration;
mod names;
mod pool;
mod set;
mod token;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use server::configuration::{ListenAddress, LogFilter, TREE_WANTED, is_tree_name, parse_duration};

pub(crate) use administration::{
    FrozenArguments, RecoverSetArguments, RecoveredCommand, RecoveredPlace, ScrubArguments,
    ThawArguments, ViewArguments,
};
pub(crate) use names::{
    AutomountMapArguments, DomainCheckArguments, DomainCommand, JunctionCommand,
};
pub(crate) use pool::{CreatePoolArguments, InvitePoolArguments, JoinPoolArguments, PoolCommand};
pub(crate) use set::{
    AddressArguments, AuthorityCommand, ClientAddressArguments, CreateSetArguments,
    InviteArguments, JoinArguments, ReplicaPlace, SetCommand,
};
pub(crate) use token::TokenCommand;

/// With the commit, since a report of a fault is of little use without it.
const VERSION: &str = concat!(env!("MERIDIAN_VERSION"), " (", env!("MERIDIAN_COMMIT"), ")");

/// Serves file trees to NFSv4.1 clients.
#[derive(Debug, Parser)]
#[command(name = "meridian", version = VERSION, arg_required_else_help = true)]
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
    /// Show who is connected to the server that runs on a data directory
    #[command(args_conflicts_with_subcommands = true)]
    Clients(ClientsArguments),
    /// Begin a set of servers that keep one tree, and work on its members
    Set {
        #[command(subcommand)]
        command: SetCommand,
    },
    /// Begin a pool of data servers, over which the contents of files are spread, and work on its servers
    Pool {
        #[command(subcommand)]
        command: PoolCommand,
    },
    /// Show or choose when changes of a directory of the replicated tree are answered
    Durability(DurabilityArguments),
    /// Show who takes part in the set, who is away and why, and what was decided
    View(ViewArguments),
    /// List what nobody may change because the replica that decided about it is lost
    Frozen(FrozenArguments),
    /// Give up what a lost replica alone had, so that the others go on with its objects
    Thaw(ThawArguments),
    /// Work on versions that were discarded by thawing and kept aside
    Recovered {
        #[command(subcommand)]
        command: RecoveredCommand,
    },
    /// Compare the server's copy with those of the other replicas now, and show what was found
    Scrub(ScrubArguments),
    /// Send the clients of a server to others of its set, and stop it when they have gone
    Drain(DrainArguments),
    /// Publish the domain in whose root clients find the trees, and look whether they would
    Domain {
        #[command(subcommand)]
        command: DomainCommand,
    },
    /// Work on names in the root of the domain that lead to trees of other servers
    Junction {
        #[command(subcommand)]
        command: JunctionCommand,
    },
    /// Answer autofs, for a name below /nfs, which servers to mount
    AutomountMap(AutomountMapArguments),
    /// Verify a data directory while no server runs on it
    Check(CheckArguments),
    /// Look at clock, disk, ports, names, certificates, peers, versions and mounts, and say what to mend
    Doctor(DoctorArguments),
    /// Work on configuration files
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Write manual pages and completions of shells to a directory, for those who make packages
    #[command(hide = true)]
    Manual {
        /// Where to
        to: PathBuf,
    },
}

#[derive(Clone, Debug, Args)]
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
pub(crate) struct ClientsArguments {
    #[command(subcommand)]
    pub(crate) command: Option<ClientsCommand>,
    /// Data directory of the server [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClientsCommand {
    /// Take everything from clients that they have open or locked, and forget them; they may come again, as new ones
    Evict {
        /// The client's number, as `meridian clients` shows it, or an address, for all clients there
        client: String,
        /// Data directory of the server [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DurabilityArguments {
    /// A path in the replicated tree, from its root: `/` or `/projects`
    pub(crate) path: String,
    /// What to set for the directory; without, the setting is shown
    #[arg(value_enum)]
    pub(crate) setting: Option<DurabilityWord>,
    /// Data directory of the server [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DrainArguments {
    /// Another server of the set that takes part, as clients reach it at the port of NFS; may be repeated. Where that
    /// is not the host at which the replicas call it, REPLICA=HOST [default: all that take part, the nearest one first]
    #[arg(long, value_name = "HOST")]
    pub(crate) to: Vec<String>,
    /// How long clients may take, such as `90 s` [default: 3 min]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    pub(crate) patience: Option<Duration>,
    /// Data directory of the server [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DurabilityWord {
    /// Changes are answered once this server has them
    Relaxed,
    /// Changes are answered once a majority of the replicas has them on stable storage
    Majority,
    /// The directory above decides
    Inherit,
}

/// The number of a server.
fn number(text: &str) -> Result<u16, String> {
    let number = text.parse();
    number.map_err(|_| "write its number, such as 2, as the command `members` shows it".to_owned())
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "write a time such as `30 min`, `1 h` or `2 d`".to_owned())
}

fn tree_name(text: &str) -> Result<String, String> {
    match is_tree_name(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("write {TREE_WANTED}")),
    }
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// Data directory to verify [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Mend what can be mended; data that cannot be placed is set aside, never deleted
    #[arg(long)]
    pub(crate) repair: bool,
    /// Where the disk has damaged metadata, give up everything that was changed later, and say what
    #[arg(long, requires = "repair")]
    pub(crate) accept_loss: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Data directory of the server [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Configuration file of the server [default: /etc/meridian/meridian.toml, where that names the same data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say whether a configuration file is right, and what is wrong where
    Check {
        /// The file
        file: PathBuf,
        /// Print what is wrong as JSON
        #[arg(long)]
        json: bool,
    },
    /// Have the server that runs on a data directory read its configuration again, as SIGHUP does
    ///
    /// Access rules of exports change at once, for connected clients too. What else is different is said, and counts from the next
    /// start on. If the file is wrong, nothing changes.
    Reload {
        /// Data directory of the server [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
