//! The checks that both ends of a connection make on the hello of the other.

use crate::endpoint::EndpointState;
use crate::error::TurnedAway;
use crate::handler::Sender;
use crate::identity::Incarnation;
use crate::settings::MAX_DATA_LANES;
use crate::wire::{Hello, RefusalCode, WireError, WireRefusal, agree_on_version};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use vfs::ReplicaSlot;

use crate::tls;

/// A socket with its buffer beneath TLS, so that one system call carries many TLS records.
pub(crate) type Socket = BufStream<TcpStream>;

/// Size of that buffer in each direction.
const SOCKET_BUFFER_BYTES: usize = 256 * 1024;

/// Prepares a connected socket.
pub(crate) fn buffered(socket: TcpStream) -> std::io::Result<Socket> {
    socket.set_nodelay(true)?;
    Ok(BufStream::with_capacity(
        SOCKET_BUFFER_BYTES,
        SOCKET_BUFFER_BYTES,
        socket,
    ))
}

/// The most that is read from a peer whose handshake failed.
const FAREWELL_BYTES_MAX: u64 = 64 * 1024;

/// Lets a peer read why its handshake failed. The alert is still in our buffer, and closing a socket with unread bytes
/// would reset the connection before the peer has read it. The caller bounds the time.
pub(crate) async fn farewell(mut socket: Socket) {
    if socket.shutdown().await.is_ok() {
        let mut rest = socket.take(FAREWELL_BYTES_MAX);
        // The bytes are discarded, and an error here does not matter.
        let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    /// No connection, or TLS failed.
    #[error("{0}")]
    Unreachable(String),
    /// The peer refused, with its words.
    #[error("the other server refuses: {}", .0.reason)]
    Refused(WireRefusal),
    /// We refuse.
    #[error("{reason}")]
    Refuse { transient: bool, reason: String },
    /// Nothing came in time.
    #[error(
        "no answer in time; check that the address is that of a replica and no firewall drops packets"
    )]
    TimedOut,
    /// The other end sent nothing, or closed without a message.
    #[error("it said nothing; a probe of the port, or no replica")]
    Silent,
    /// There were too many connections before the end of their handshake.
    #[error("it had to make space for others; too many connections at a time")]
    Crowded,
    /// The bytes made no sense.
    #[error(transparent)]
    Wire(#[from] WireError),
}

impl HandshakeError {
    pub(crate) fn unreachable(error: &std::io::Error) -> HandshakeError {
        HandshakeError::Unreachable(tls::explain(error))
    }

    /// We refuse, at every attempt of the peer.
    pub(crate) fn refuse(reason: String) -> HandshakeError {
        HandshakeError::Refuse {
            transient: false,
            reason,
        }
    }

    /// Whether another attempt soon may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            HandshakeError::Refused(refusal) => refusal.is_transient(),
            HandshakeError::Refuse { transient, .. } => *transient,
            _ => false,
        }
    }
}

/// The replica at the other end of TLS.
pub(crate) fn certified(
    shared: &EndpointState,
    chain: Option<&[CertificateDer<'_>]>,
) -> Result<ReplicaSlot, String> {
    let certificate = chain.and_then(<[_]>::first);
    match certificate.and_then(tls::replica_of) {
        Some((set, slot)) if set == shared.set => Ok(slot),
        Some((set, _)) => Err(format!(
            "the certificate is of set {set}, this server is of set {}; check the address",
            shared.set
        )),
        None => {
            Err("the certificate names no replica; let the server join the set again".to_owned())
        }
    }
}

/// Checks everything that does not depend on the lane.
pub(crate) fn check_hello(
    shared: &EndpointState,
    hello: &Hello,
    certified: ReplicaSlot,
) -> Result<Sender, WireRefusal> {
    let refuse = |reason: String| Err(WireRefusal::permanent(reason));
    let theirs = hello.version_min..=hello.version_max;
    if let Err(reason) = agree_on_version(&shared.settings.versions, theirs) {
        return refuse(reason);
    }
    if hello.set[..] != shared.set.0 {
        return refuse("the hello names another set than the certificate".to_owned());
    }
    if hello.slot != u32::from(certified.0) || hello.incarnation == 0 {
        return refuse("the hello does not name the replica of the certificate".to_owned());
    }
    if certified == shared.slot {
        return refuse(format!(
            "replica {} called itself; two servers use copies of one identity, or an address is wrong",
            certified.0
        ));
    }
    let sender = Sender {
        slot: certified,
        incarnation: Incarnation(hello.incarnation),
    };
    let turned_away = |refusal: TurnedAway| {
        let code = match refusal.again {
            true => RefusalCode::Transient,
            false => RefusalCode::Permanent,
        };
        WireRefusal {
            evidence: refusal.evidence,
            ..WireRefusal::new(code, refusal.reason)
        }
    };
    let handler = &shared.handler;
    // Recorded before the identity is judged: our own files may be too old to know it.
    if hello.lane == 0 {
        let met = handler.meet(sender, &hello.introduction);
        met.map_err(turned_away)?;
    }
    handler.admit_session(sender).map_err(turned_away)?;
    Ok(sender)
}

/// How many data lanes two replicas use.
pub(crate) fn agree_on_data_lanes(shared: &EndpointState, hello: &Hello) -> u32 {
    hello
        .data_lanes
        .clamp(1, MAX_DATA_LANES)
        .min(shared.settings.offered_data_lanes())
}
