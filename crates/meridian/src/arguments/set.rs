//! Arguments of `meridian set`: how a set begins, grows and shrinks.
//!
//! What must never enter: what the commands do.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use server::configuration::{ClientAddress, PeerAddress};

use super::administration::RecoverSetArguments;
use super::token::TokenCommand;
use super::{lifetime, number, tree_name};

#[derive(Debug, Subcommand)]
pub(crate) enum SetCommand {
    /// Make the server of a data directory the first replica of a new set
    Create(CreateSetArguments),
    /// Print a token by which one more server can join, on the server that keeps the authority
    Invite(InviteArguments),
    /// Make the server of a data directory a replica of the set that a token is of
    Join(JoinArguments),
    /// Replace the copy of a member that was put back from an older one, is damaged or half restored
    ///
    /// The server becomes a new replica of its set: the number it had is never used again, since nobody can tell what it had
    /// promised under it. What its data directory has of the set is kept aside in it, and nothing of it is
    /// read any more. Before, on the server that keeps the authority, remove the old number with
    /// `meridian set remove` and make a token with `meridian set invite`. This server must not run.
    Rejoin(JoinArguments),
    /// List the members of the set, and which of them keeps the authority
    Members {
        /// Data directory of a member [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a member for ever, on the server that keeps the authority
    ///
    /// Refused while that member may have something that nobody else has: it never comes back to hand it over. A newcomer that has never
    /// taken part has nothing.
    #[command(alias = "revoke")]
    Remove {
        /// The member's number, as `meridian set members` shows it
        #[arg(value_name = "REPLICA", value_parser = number)]
        slot: u16,
        /// Give up what the member alone has, as `meridian thaw --discard` does
        #[arg(long)]
        discard: bool,
        /// Data directory of the server that keeps the authority [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
    /// Change where the other replicas reach a member, on the server that keeps the authority
    Address(AddressArguments),
    /// Change where clients reach a member, on the server that keeps the authority
    ///
    /// Clients are told so, when they ask where else a tree is, and `meridian domain records` prints it. Until somebody says otherwise
    /// it is the host at which the other replicas reach the member, at the port of NFS, 2049.
    ClientAddress(ClientAddressArguments),
    /// Change what people call a member, on the server that keeps the authority
    Name {
        /// The member's number, as `meridian set members` shows it
        #[arg(value_name = "REPLICA", value_parser = number)]
        slot: u16,
        /// Its name from now on: letters, digits, `-`, `_` and `.`, a letter first; an empty one takes the name away
        name: String,
        /// Data directory of the server that keeps the authority [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
    /// Work on tokens that were printed and not used, on the server that keeps the authority
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Show, move or restore the authority, which signs who is a member
    Authority {
        #[command(subcommand)]
        command: AuthorityCommand,
    },
    /// Go on with the replicas that are left, when the majority is gone for ever
    Recover(RecoverSetArguments),
}

/// What a server is told that becomes a replica.
#[derive(Debug, Args)]
pub(crate) struct ReplicaPlace {
    /// Data directory of the server, made if it is not there [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Where the other replicas reach this server
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: PeerAddress,
    /// Where clients reach this server [default: the same host, at port 2049]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) client_address: Option<ClientAddress>,
    /// The tree that the set keeps, as `tree` in [replication] [default: default]
    #[arg(long, value_name = "NAME", value_parser = tree_name)]
    pub(crate) tree: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CreateSetArguments {
    #[command(flatten)]
    pub(crate) place: ReplicaPlace,
    /// What people call this server, such as the name of its site
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct InviteArguments {
    /// Data directory of the server that keeps the authority [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Invite a witness: it votes, so that two replicas can outvote a lost one, and keeps no contents
    #[arg(long)]
    pub(crate) witness: bool,
    /// What people will call the server that joins, such as the name of its site
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// How long the token works, such as `30 min` or `2 d` [default: 1 h]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    pub(crate) lifetime: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct JoinArguments {
    /// The line that `meridian set invite` printed
    pub(crate) token: String,
    #[command(flatten)]
    pub(crate) place: ReplicaPlace,
}

#[derive(Debug, Args)]
pub(crate) struct AddressArguments {
    /// The member's number, as `meridian set members` shows it
    #[arg(value_name = "REPLICA", value_parser = number)]
    pub(crate) slot: u16,
    /// Where the other replicas reach it from now on
    #[arg(value_name = "HOST:PORT")]
    pub(crate) address: PeerAddress,
    /// Data directory of the server that keeps the authority [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ClientAddressArguments {
    /// The member's number, as `meridian set members` shows it
    #[arg(value_name = "REPLICA", value_parser = number)]
    pub(crate) slot: u16,
    /// Where clients reach it from now on
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "default")]
    pub(crate) address: Option<ClientAddress>,
    /// From now on at the host at which the other replicas reach it, at port 2049
    #[arg(long, conflicts_with = "address")]
    pub(crate) default: bool,
    /// Data directory of the server that keeps the authority [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthorityCommand {
    /// Show which server keeps the authority, and write a backup of it
    Show {
        /// Write a backup of the authority, key included, to this file, which must not be there yet
        #[arg(long, value_name = "FILE")]
        export: Option<PathBuf>,
        /// Data directory of a member; with --export, of the server that keeps the authority [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Print JSON
        #[arg(long, conflicts_with = "export")]
        json: bool,
    },
    /// Have another member keep the authority; both servers must run
    Move {
        /// The member that keeps it from now on
        #[arg(long, value_name = "REPLICA", value_parser = number)]
        to: u16,
        /// Data directory of the server that keeps the authority [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
    /// Have this server keep the authority, from a backup, when its keeper is lost for ever
    Restore {
        /// A file that `meridian set authority show --export` wrote, or a copy of the lost keeper's `set` directory
        #[arg(long, value_name = "FILE_OR_DIR")]
        from: PathBuf,
        /// Do it without asking
        #[arg(long)]
        yes: bool,
        /// Data directory of the server that is to keep the authority, and runs [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
}
