//! Arguments of `meridian pool`: how a pool of data servers begins, grows and shrinks.
//!
//! What must never enter: what the commands do.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use server::configuration::{ClientAddress, PeerAddress, parse_size};
use server::pools::StripeUnit;

use super::token::TokenCommand;
use super::{lifetime, number, tree_name};

#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Make the server of a data directory the metadata server of a new pool
    Create(CreatePoolArguments),
    /// Print a token by which one more server can join, on the first metadata server
    Invite(InvitePoolArguments),
    /// Make the server of an empty data directory one of the pool that a token is of
    Join(JoinPoolArguments),
    /// List the servers of the pool
    Members {
        /// Data directory of a server of the pool [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show on which data servers a file lies, on the metadata server, which has to run
    Where {
        /// The file's path from the root of the tree, without that of the export, such as `/projects/film`
        path: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Data directory of the metadata server [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
    /// Work on tokens that were printed and not used, on the metadata server
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Empty a data server, so that it can be removed, on the metadata server, which has to run
    ///
    /// It gets no new files from now on, and the files that are striped over it move to the other data servers while they are used. Names
    /// those files; `meridian status` shows how far it is. Goes on after a restart.
    DrainData {
        /// The data server's number, as `meridian pool members` shows it
        #[arg(value_name = "SERVER", value_parser = number)]
        number: u16,
        /// Have it get new files again
        #[arg(long)]
        stop: bool,
        /// Copy at most SIZE a second, such as `100 MiB`, from now on [default: as before; 64 MiB at first]
        #[arg(long, value_name = "SIZE", value_parser = rate)]
        rate: Option<u64>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Data directory of the metadata server [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
    /// Spread files over data servers that were added, on the metadata server, which has to run
    ///
    /// Files that were there before a data server joined move to the data servers over which new files are striped, while they are used.
    /// `meridian status` shows how far it is. Goes on after a restart.
    Rebalance {
        /// Leave the files where they are
        #[arg(long)]
        stop: bool,
        /// Copy at most SIZE a second, such as `100 MiB`, from now on [default: as before; 64 MiB at first]
        #[arg(long, value_name = "SIZE", value_parser = rate)]
        rate: Option<u64>,
        /// Data directory of the metadata server [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Give up a server that is lost with all that lay there, on the first metadata server, which has to run
    ///
    /// Of a data server it names the files that had a part there, and asks. Reading and writing those parts gives an error from then on, where it waited
    /// before. Once it is done, the same command names the files that are left. Of a metadata server that had joined it names the directories that
    /// lived there, and asks. Their names go; files of the first server that had names there alone get one in the directory lost+found.NUMBER of
    /// the root. What takes longer than the command waits goes on without it, and `meridian status` shows it until it is done.
    Forget {
        /// The server's number, as `meridian pool members` shows it
        #[arg(value_name = "SERVER", value_parser = number)]
        number: u16,
        /// Do it without asking
        #[arg(long)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Data directory of the metadata server [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
    /// Use a data server again that is refused since an older copy of its contents was seen, on the metadata server, which has to run
    Readmit {
        /// The data server's number, as `meridian pool members` shows it
        #[arg(value_name = "SERVER", value_parser = number)]
        number: u16,
        /// Data directory of the metadata server [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
    /// Remove a data server that holds no files, or a metadata server that has joined, for ever, on the first metadata server, which has to run
    Remove {
        /// The server's number, as `meridian pool members` shows it
        #[arg(value_name = "SERVER", value_parser = number)]
        number: u16,
        /// Data directory of the metadata server [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
    /// Change where a server of the pool is reached, on the metadata server
    Address {
        /// The server's number, as `meridian pool members` shows it
        #[arg(value_name = "SERVER", value_parser = number)]
        number: u16,
        /// Where the others call the first metadata server, or clients another server, from now on
        #[arg(value_name = "HOST:PORT")]
        address: PeerAddress,
        /// Data directory of the metadata server [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreatePoolArguments {
    /// Data directory of the server, made if it is not there [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Where the data servers call this server
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: PeerAddress,
    /// The tree whose new files are striped over the data servers [default: default]
    #[arg(long, value_name = "NAME", value_parser = tree_name)]
    pub(crate) tree: Option<String>,
    /// How many consecutive bytes of a file lie on one data server: a power of two from 64 KiB to 16 MiB [default: 1 MiB]
    #[arg(long, value_name = "SIZE", value_parser = stripe_unit)]
    pub(crate) stripe_unit: Option<StripeUnit>,
}

#[derive(Debug, Args)]
pub(crate) struct InvitePoolArguments {
    /// Invite a data server, which keeps contents of files and no names
    #[arg(
        long,
        required_unless_present = "metadata_server",
        conflicts_with = "metadata_server"
    )]
    pub(crate) data_server: bool,
    /// Invite a metadata server, which shows clients the names that the first one keeps
    #[arg(long)]
    pub(crate) metadata_server: bool,
    /// Data directory of the metadata server [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// What people will call the server that joins
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// How long the token works, such as `30 min` or `2 d` [default: 1 h]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    pub(crate) lifetime: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct JoinPoolArguments {
    /// The line that `meridian pool invite` printed
    pub(crate) token: String,
    /// Data directory of the server, empty, or made if it is not there [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Where clients and the metadata server reach this server
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) address: ClientAddress,
}

fn stripe_unit(text: &str) -> Result<StripeUnit, String> {
    let bytes = parse_size(text).ok_or_else(|| "write a size such as `1 MiB`".to_owned())?;
    StripeUnit::new(bytes).map_err(|error| error.to_string())
}

/// At least what one step of a copy has.
fn rate(text: &str) -> Result<u64, String> {
    match parse_size(text) {
        Some(rate) if rate >= 1 << 20 => Ok(rate),
        _ => Err("choose at least 1 MiB, such as `100 MiB`".to_owned()),
    }
}
