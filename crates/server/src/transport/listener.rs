//! Accepts TCP connections.
//!
//! What must never enter: the data of a connection.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plain_file::descriptors;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use throttle::Throttle;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::Transport;
use super::connection::{self, TcpConnection};
use crate::configuration::ListenAddress;

/// The maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 1024;
/// A vanished client machine is detected after this time of silence, and four more probes.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// How long to wait when the operating system has no space for another connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(200);
/// The subject of a log message that is written once, and later with a count.
const CROWDED: throttle::Subject = ("too many connections", 0);
const EXHAUSTED: throttle::Subject = ("cannot accept connections", 0);

/// Why an address cannot be listened at. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another program listens there.
    #[error(
        "{0} is in use by another program; `ss -ltnp 'sport = :{port}'` shows which. If it is the kernel's NFS server, stop it (`systemctl stop nfs-server`); or choose another port with --listen", port = .0.port()
    )]
    InUse(SocketAddr),
    /// The process lacks the permission.
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

/// Checks whether a server could listen at an address, as it does when it starts. Must be called inside a runtime.
///
/// # Errors
/// [`ListenError`] says what to do next.
pub fn try_to_listen(wanted: ListenAddress) -> Result<(), ListenError> {
    Listener::bind(wanted).map(drop)
}

/// A socket that accepts connections.
pub(crate) struct Listener {
    socket: TcpListener,
    /// The real address: it has the port that the system chose if any port was requested.
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

    /// The same, for callers that explain a failure themselves.
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

    /// The socket, so that the caller accepts connections itself.
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
        // So that `[::]` accepts IPv4 clients whatever the system's default is.
        socket.set_only_v6(false)?;
    }
    // A restart must not wait until the system forgets the connections of the last run.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let socket = TcpListener::from_std(socket.into())?;
    let address = socket.local_addr()?;
    Ok(Listener { socket, address })
}

/// Serves all clients that connect until `stop` becomes true.
pub(crate) async fn accept(
    listener: Listener,
    transport: Arc<Transport>,
    mut stop: watch::Receiver<bool>,
) {
    let throttle = Throttle::default();
    let mut reserve = Reserve::default();
    loop {
        reserve.refill();
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            accepted = listener.socket.accept() => accepted,
        };
        let accepted = accepted.and_then(|(stream, peer)| Ok((above_low_numbers(stream)?, peer)));
        match accepted {
            Ok((stream, peer)) => {
                // A failure of one connection does not stop the next one from being accepted.
                let welcomed = AssertUnwindSafe(|| welcome(stream, peer, &transport));
                match catch_unwind(welcomed) {
                    Ok(Some(closed)) => tell_of_crowd(&throttle, closed.address()),
                    Ok(None) => {}
                    Err(_) => {
                        tracing::error!(%peer, "accepting a connection panicked, which is a fault of this program")
                    }
                }
            }
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                tell_of_exhaustion(&throttle, transport.relieve(), &error);
                // A waiting client is accepted with the reserve descriptor.
                if !reserve.release() {
                    tokio::time::sleep(EXHAUSTED_PAUSE).await;
                }
            }
        }
    }
}

/// Connections can be numerous, so they leave the low numbers of descriptors to other uses.
fn above_low_numbers(stream: TcpStream) -> io::Result<TcpStream> {
    TcpStream::from_std(descriptors::above(stream.into_std()?)?)
}

/// Serves a connection. Returns the one that was closed to make room.
fn welcome(
    stream: TcpStream,
    peer: SocketAddr,
    transport: &Arc<Transport>,
) -> Option<Arc<TcpConnection>> {
    transport.traffic.accepted.fetch_add(1, Ordering::Relaxed);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_INTERVAL);
    let tuned = stream
        .set_nodelay(true)
        .and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&keepalive.with_retries(4)));
    if let Err(error) = tuned {
        tracing::debug!(%peer, %error, "connection was gone before it could be used");
        return None;
    }
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let (input, output) = stream.into_split();
    let connection = TcpConnection::new(output, peer, transport);
    let (registration, closed) = transport.register(connection.clone());
    tokio::spawn(connection::run(input, connection, registration));
    closed
}

/// A descriptor that is released when none is left, so that one more connection can be accepted.
#[derive(Default)]
struct Reserve(Option<File>);

impl Reserve {
    fn refill(&mut self) {
        if self.0.is_none() {
            // Without it, accepting pauses for a while when descriptors are lacking.
            self.0 = File::open("/dev/null").ok();
        }
    }

    /// Releases it. Returns whether there was one.
    fn release(&mut self) -> bool {
        self.0.take().is_some()
    }
}

/// Whether this error of `accept` concerns only a connection that is already broken.
fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// Logs that a connection was closed because the maximum is reached; the last closed one came from this address.
fn tell_of_crowd(throttle: &Throttle, from: IpAddr) {
    if let Some(sum) = throttle.failed(CROWDED, Instant::now()) {
        tracing::warn!(
            %from,
            %sum,
            "too many connections: those without a session are closed first, for new ones"
        );
    }
}

/// Logs that connections were closed because the operating system has no space for another one.
fn tell_of_exhaustion(throttle: &Throttle, closed: u64, error: &io::Error) {
    if let Some(sum) = throttle.failed(EXHAUSTED, Instant::now()) {
        tracing::error!(
            closed,
            %error,
            %sum,
            "cannot accept connections: some without a session are closed; raise the limit of open files"
        );
    }
}
