//! The identity of a client, and how it reaches its server.
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

/// Space in a message for everything except the data of a READ or WRITE, in bytes.
pub(crate) const HEADERS_MAX: u32 = 4096;

/// Makes a connection; it is called outside the runtime's threads and may block.
pub type Dial = dyn Fn() -> io::Result<TcpStream> + Send + Sync;

/// The identity and settings of a client. [`Options::at`] has defaults for everything.
#[derive(Clone)]
pub struct Options {
    /// The client's name, `co_ownerid`: equal for two clients only if one is the other after a
    /// restart. By default it is different for every call of [`Options::at`].
    pub owner: Bytes,
    /// The run of that client, `co_verifier` (RFC 8881, section 18.35.3).
    pub verifier: Verifier4,
    /// The minor version to speak, 1 or 2. By default 2, which xattrs and holes need.
    pub minor_version: u32,
    /// The identity for calls unless they set another one. By default root by AUTH_SYS.
    pub credentials: Credentials,
    /// The number of connections of the session, at least 1.
    pub connections: usize,
    /// The maximum number of outstanding requests; the server may grant fewer.
    pub slots: u32,
    /// The most data in one READ or WRITE, in bytes; the server may grant less.
    pub io_max: u32,
    /// The time limit of a request, including any number of reconnections,
    /// and of repetitions after NFS4ERR_DELAY and NFS4ERR_GRACE.
    pub patience: Duration,
    /// The interval of lease renewals, whatever else is sent; `None` lets it expire.
    pub renewal: Option<Duration>,
    /// True when the caller wants to reclaim state first and to call
    /// [`crate::Client::reclaim_complete`] itself.
    pub reclaims: bool,
    /// Answers the server's callbacks.
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

/// A unique name: process, time and a count of the clients made so far.
fn identity() -> (Bytes, Verifier4) {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // With a clock before 1970, process and count remain, which distinguish clients of one machine.
    let nanoseconds = now.map_or(0, |now| now.as_nanos()) as u64;
    let count = MADE.fetch_add(1, Ordering::Relaxed);
    let owner = format!("nfs4-client/{}/{nanoseconds}/{count}", std::process::id());
    (owner.into(), Verifier4(nanoseconds.to_be_bytes()))
}
