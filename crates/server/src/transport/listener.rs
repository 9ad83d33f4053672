//! Accepts TCP connections.
//!
//! What must never enter: what goes over a connection.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::{Transport, connection};
use crate::configuration::ListenAddress;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;
/// A client's machine that vanished is noticed after this much silence, and four probes more.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// How long to wait when the operating system has no room for another connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(200);
/// No more than one line of the log about refused connections in this time.
const REFUSAL_SILENCE: Duration = Duration::from_secs(10);

/// Why an address cannot be listened at. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another program listens there.
    #[error(
        "{0} is in use by another program; `ss -ltnp 'sport = :{port}'` shows which. If it is the kernel's NFS server, stop it (`systemctl stop nfs-server`); or choose another port with --listen", port = .0.port()
    )]
    InUse(SocketAddr),
    /// The process may not.
    #[error(
        "this user may not listen at {0}; start as root, grant CAP_NET_BIND_SERVICE, or choose a port above 1023 with --listen"
    )]
    Permission(SocketAddr),
    /// No interface has the address.
    #[error("{0} is no address of this machine; `ip address` lists those that are")]
    NotOurs(SocketAddr),
    /// Anything else.
    #[error("cannot listen at {address}: {source}; choose another address with --listen")]
    Other {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}

/// A socket that accepts connections.
pub(crate) struct Listener {
    socket: TcpListener,
    /// Where it really listens: the port is known even if any was asked for.
    pub(crate) address: SocketAddr,
}

impl Listener {
    /// Starts to listen. Must be called inside a runtime.
    ///
    /// # Errors
    /// [`ListenError`] says what to do next.
    pub(crate) fn bind(wanted: ListenAddress) -> Result<Listener, ListenError> {
        Listener::bind_plainly(wanted).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => ListenError::InUse(wanted.0),
            io::ErrorKind::PermissionDenied => ListenError::Permission(wanted.0),
            io::ErrorKind::AddrNotAvailable => ListenError::NotOurs(wanted.0),
            _ => ListenError::Other {
                address: wanted.0,
                source,
            },
        })
    }

    /// The same, for those who explain a failure themselves.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn bind_plainly(wanted: ListenAddress) -> io::Result<Listener> {
        match listen(wanted.0) {
            Err(error) if wanted.0.ip().is_unspecified() && lacks_ipv6(&error) => {
                listen(SocketAddr::from((Ipv4Addr::UNSPECIFIED, wanted.0.port())))
            }
            listening => listening,
        }
    }

    /// The socket, for somebody else to accept at.
    pub(crate) fn into_socket(self) -> TcpListener {
        self.socket
    }
}

fn lacks_ipv6(error: &io::Error) -> bool {
    let unsupported = rustix::io::Errno::AFNOSUPPORT.raw_os_error();
    error.raw_os_error() == Some(unsupported) || error.kind() == io::ErrorKind::AddrNotAvailable
}

fn listen(address: SocketAddr) -> io::Result<Listener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        // So that `[::]` takes IPv4 clients whatever the system's default is.
        socket.set_only_v6(false)?;
    }
    // A restart must not wait for the connections of the last run to be forgotten.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let socket = TcpListener::from_std(socket.into())?;
    let address = socket.local_addr()?;
    Ok(Listener { socket, address })
}

/// Serves whoever connects until `stop` says true.
pub(crate) async fn accept(
    listener: Listener,
    transport: Arc<Transport>,
    mut stop: watch::Receiver<bool>,
) {
    let mut refusals = Refusals::default();
    loop {
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            accepted = listener.socket.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) if transport.connections() < transport.limits.connections => {
                welcome(stream, peer, &transport);
            }
            Ok((_, peer)) => refusals.note(peer, &transport),
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(%error, "cannot accept connections: raise the limit of open files");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

fn welcome(stream: TcpStream, peer: SocketAddr, transport: &Arc<Transport>) {
    transport.traffic.accepted.fetch_add(1, Ordering::Relaxed);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_INTERVAL);
    let tuned = stream
        .set_nodelay(true)
        .and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&keepalive.with_retries(4)));
    if let Err(error) = tuned {
        tracing::debug!(%peer, %error, "connection was gone before it could be used");
        return;
    }
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    tokio::spawn(connection::run(stream, peer, transport.clone()));
}

/// Errors that `accept` reports for a connection that is broken already.
fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// Tells of refused connections without flooding the log.
#[derive(Default)]
struct Refusals {
    told: Option<Instant>,
    untold: u64,
}

impl Refusals {
    fn note(&mut self, peer: SocketAddr, transport: &Transport) {
        transport.traffic.refused.fetch_add(1, Ordering::Relaxed);
        self.untold += 1;
        if self
            .told
            .is_some_and(|told| told.elapsed() < REFUSAL_SILENCE)
        {
            return;
        }
        tracing::warn!(
            %peer,
            refused = self.untold,
            limit = transport.limits.connections,
            "too many connections: new ones are closed at once; raise `connections` in [limits]",
        );
        self.told = Some(Instant::now());
        self.untold = 0;
    }
}
