//! How clients reach servers: from which site, with which time limit, and under which name.
//!
//! What must never enter: the requests.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nfs4::callback::CbLayoutrecallArgs;
use nfs4::{NfsStat4, Verifier4};
use nfs4_client::{Callbacks, Client, DataServers, Error, Options};
use testbed::{Place, Site};

/// The time limit of a request: longer than any fault and its consequences.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a request is repeated while the server answers "later".
const LATER: Duration = Duration::from_secs(2);

/// Returns layouts soon, also without a recall: it keeps none for longer than a few requests.
#[derive(Debug)]
struct GivesBackSoon;

impl Callbacks for GivesBackSoon {
    fn recall_layout(&self, _: &CbLayoutrecallArgs) -> NfsStat4 {
        NfsStat4::Delay
    }
}

/// Reaches a server from the server's own site.
#[derive(Debug, Clone)]
pub struct Target {
    site: Site,
    address: SocketAddr,
}

impl Target {
    /// The server of a place.
    pub fn of(place: &Place) -> Self {
        Self {
            site: place.site().clone(),
            address: place.nfs_address(),
        }
    }

    /// The same site, and another server.
    fn with_address(&self, address: SocketAddr) -> Self {
        Self {
            site: self.site.clone(),
            address,
        }
    }

    /// A client with this name, in its run with this number.
    pub async fn client(&self, name: &str, generation: u64) -> Result<Client, Error> {
        Client::connect(self.options(name, generation)).await
    }

    fn options(&self, name: &str, generation: u64) -> Options {
        let Self { site, address } = self.clone();
        let options = Options::dialling(move || {
            let stream = site.enter(|| nfs4_client::connect(address));
            stream.map_err(io::Error::other)?
        });
        Options {
            owner: name.to_owned().into(),
            verifier: Verifier4(generation.to_be_bytes()),
            patience: PATIENCE,
            renewal: Some(Duration::from_secs(3)),
            slots: 4,
            callbacks: Arc::new(GivesBackSoon),
            ..options
        }
    }
}

/// The data servers that a client reaches from its site, under their own name.
pub fn data_servers(target: &Target, name: String) -> DataServers {
    let target = target.clone();
    let connected = Arc::new(AtomicU64::new(0));
    DataServers::reached(move |address| {
        let generation = connected.fetch_add(1, Ordering::Relaxed) + 1;
        Options {
            patience: LATER,
            ..target.with_address(address).options(&name, generation)
        }
    })
}
