//! How a client presents itself, and how it reaches its server.
//!
//! What must never enter: anything negotiated. What a server granted is in `session`.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use nfs4::Verifier4;
use oncrpc::{AuthSys, Credentials, Groups};

use crate::back_channel::{Callbacks, NoCallbacks};
use crate::dial;

/// Space in a message for everything but the data of a READ or WRITE, in bytes.
pub(crate) const HEADERS_MAX: u32 = 4096;

/// Makes a connection; it is called off the runtime's threads and may block.
pub type Dial = dyn Fn() -> io::Result<TcpStream> + Send + Sync;

/// How a client presents itself. [`Options::at`] has defaults for everything.
#[derive(Clone)]
pub struct Options {
    /// Who the client is, `co_ownerid`: equal for two clients only if one is the other after a
    /// restart. By default it is different for every call of [`Options::at`].
    pub owner: Bytes,
    /// Which run of that client it is, `co_verifier` (RFC 8881, section 18.35.3).
    pub verifier: Verifier4,
    /// The minor version to speak, 1 or 2. By default 2, which xattrs and holes need.
    pub minor_version: u32,
    /// In whose name calls are made unless they say otherwise. By default root by AUTH_SYS.
    pub credentials: Credentials,
    /// How many connections the session uses, at least 1.
    pub connections: usize,
    /// How many requests can be outstanding at once; the server may grant fewer.
    pub slots: u32,
    /// The most data in one READ or WRITE, in bytes; the server may grant less.
    pub io_max: u32,
    /// How long a request may try to get through to the server, reconnecting as often as needed,
    /// and how long it puts up with NFS4ERR_DELAY and NFS4ERR_GRACE.
    pub patience: Duration,
    /// How often the lease is renewed, whatever else is sent; `None` lets it expire.
    pub renewal: Option<Duration>,
    /// True when the caller wants to reclaim state first and to call
    /// [`crate::Client::reclaim_complete`] itself.
    pub reclaims: bool,
    /// Who answers the server's callbacks.
    pub callbacks: Arc<dyn Callbacks>,
    /// How the server is reached, see [`Options::dialling`].
    pub dial: Arc<Dial>,
}

impl Options {
    /// Reaches the server at this address, from a privileged port if the process may use one.
    pub fn at(server: SocketAddr) -> Self {
        Self::dialling(move || dial::connect(server))
    }

    /// Reaches the server through connections that `dial` makes, from another network namespace
    /// for example.
    pub fn dialling(dial: impl Fn() -> io::Result<TcpStream> + Send + Sync + 'static) -> Self {
        let (owner, verifier) = identity();
        Self {
            owner,
            verifier,
            minor_version: 2,
            credentials: auth_sys(0, 0, &[]),
            connections: 1,
            slots: 64,
            io_max: 1 << 20,
            patience: Duration::from_secs(30),
            renewal: Some(Duration::from_secs(15)),
            reclaims: false,
            callbacks: Arc::new(NoCallbacks),
            dial: Arc::new(dial),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("owner", &self.owner)
            .field("verifier", &self.verifier)
            .field("minor_version", &self.minor_version)
            .finish_non_exhaustive()
    }
}

/// AUTH_SYS credentials of a user.
pub(crate) fn auth_sys(uid: u32, gid: u32, groups: &[u32]) -> Credentials {
    Credentials::Sys(AuthSys {
        stamp: 0,
        machinename: Bytes::from_static(b"nfs4-client"),
        uid,
        gid,
        gids: Groups::first_of(groups),
    })
}

/// A name no other client has: process, time and a count of the clients made so far.
fn identity() -> (Bytes, Verifier4) {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // A clock before 1970 leaves process and count, which tell clients of one machine apart.
    let nanoseconds = now.map_or(0, |now| now.as_nanos()) as u64;
    let count = MADE.fetch_add(1, Ordering::Relaxed);
    let owner = format!("nfs4-client/{}/{nanoseconds}/{count}", std::process::id());
    (owner.into(), Verifier4(nanoseconds.to_be_bytes()))
}
