//! Arguments of the commands about who takes part in a set, and about what lost replicas left behind.
//!
//! What must never enter: what the commands do.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{number, tree_name};

#[derive(Debug, Args)]
pub(crate) struct ViewArguments {
    /// Data directory of the server [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ScrubArguments {
    /// Only show how far the comparison is and what was found
    #[arg(long)]
    pub(crate) show: bool,
    /// Data directory of the server [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FrozenArguments {
    /// Data directory of the server [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ThawArguments {
    /// The lost replica whose unseen changes are given up, as `meridian frozen` names it
    #[arg(long, value_name = "REPLICA", value_parser = number)]
    pub(crate) discard: u16,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Do it without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print JSON, once it is done
    #[arg(long)]
    pub(crate) json: bool,
    /// Data directory of a server that takes part [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RecoverSetArguments {
    /// All replicas that are left, such as `1,3`; every other one is given up for ever
    #[arg(long, value_name = "REPLICAS", value_delimiter = ',', required = true, value_parser = number)]
    pub(crate) survivors: Vec<u16>,
    /// Do it without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Data directory of a survivor whose server does not run [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The tree that the set keeps, as `tree` in [replication] [default: default]
    #[arg(long, value_name = "NAME", value_parser = tree_name)]
    pub(crate) tree: Option<String>,
}

/// Where discarded versions lie.
#[derive(Debug, Args)]
pub(crate) struct RecoveredPlace {
    /// Data directory of the server that kept them [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The tree that the set keeps [default: default]
    #[arg(long, value_name = "NAME", value_parser = tree_name)]
    pub(crate) tree: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RecoveredCommand {
    /// List the sets of discarded versions, or what is in one
    List {
        /// The set to look into
        label: Option<String>,
        #[command(flatten)]
        place: RecoveredPlace,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy discarded versions out, from where they can be put back through a mount
    Restore {
        /// The set, as `list` names it
        label: String,
        /// Only what lies at and below this path of the tree
        path: Option<String>,
        /// A directory to copy to, made if it is not there; nothing in it is replaced
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        #[command(flatten)]
        place: RecoveredPlace,
    },
    /// Remove a set of discarded versions, for ever
    Forget {
        /// The set, as `list` names it
        label: String,
        /// Do it without asking
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        place: RecoveredPlace,
    },
}
