//! Arguments of `meridian set token` and `meridian pool token`: tokens that were printed and not used.
//!
//! What must never enter: what the commands do.

use std::path::PathBuf;

use clap::Subcommand;

use super::number;

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// List the tokens that still work, without their secrets
    List {
        /// Data directory of the server that made them [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Have a token admit nobody any more
    Revoke {
        /// The number that the server using it would get, as `token list` shows it
        #[arg(value_name = "NUMBER", value_parser = number)]
        number: u16,
        /// Data directory of the server that made it [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
}
