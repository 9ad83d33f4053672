//! The client of this repository at a measured server.
//!
//! What must never enter: what the client does there.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use nfs4::NfsFh4;
use nfs4_client::{Client, Options};
use testbed::Site;

/// The time limit of a request. A server that does not answer for this long has died.
const PATIENCE: Duration = Duration::from_secs(5);

/// How to reach a server.
#[derive(Debug, Clone)]
pub struct Target {
    /// The site of the server; `None` if it is on the machine's own network.
    pub site: Option<Site>,
    /// The address on which it listens.
    pub address: SocketAddr,
    /// The path of its export.
    pub export: String,
}

impl Target {
    /// A client of the server, and the root of the export.
    pub async fn client(&self) -> Result<(Client, NfsFh4)> {
        self.client_with(PATIENCE).await
    }

    /// The same with this time limit for each request.
    pub async fn client_with(&self, patience: Duration) -> Result<(Client, NfsFh4)> {
        let options = Options {
            patience,
            ..self.options()
        };
        let client = Client::connect(options)
            .await
            .with_context(|| format!("could not make a session at {}", self.address))?;
        let root = client
            .mount(&self.export)
            .await
            .with_context(|| format!("could not find the export {}", self.export))?;
        Ok((client, root))
    }

    /// The options of a client there, with defaults for the rest.
    pub fn options(&self) -> Options {
        let address = self.address;
        match self.site.clone() {
            None => Options::at(address),
            Some(site) => Options::dialling(move || {
                let stream = site.enter(|| nfs4_client::connect(address));
                stream.map_err(io::Error::other)?
            }),
        }
    }
}
