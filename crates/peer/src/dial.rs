//! The dialling side: keeps one connection for each lane, for as long as the peer's session lasts.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::connection;
use crate::endpoint::EndpointState;
use crate::flow::locked;
use crate::handshake::{
    HandshakeError, Socket, agree_on_data_lanes, buffered, certified, check_hello,
};
use crate::peers::PeerState;
use crate::session::{SessionState, lane_kind};
use crate::settings::Settings;
use crate::tls::replica_name;
use crate::wire::{Hello, HelloReply, read_short, write_short};

/// Pauses between attempts. They double, with a random part so that replicas do not call at the same time.
struct Backoff {
    next: Duration,
}

impl Backoff {
    fn new(settings: &Settings) -> Backoff {
        Backoff {
            next: settings.backoff_min,
        }
    }

    fn pause(&mut self, settings: &Settings) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(settings.backoff_max);
        // Without randomness the pause has no random part.
        let spread = getrandom::u32().unwrap_or(0) % 512;
        whole / 2 + whole * spread / 1024
    }
}

/// Keeps the control lane of a peer connected, and the other lanes of each new session.
pub(crate) async fn keep_connected(shared: Arc<EndpointState>, peer: Arc<PeerState>) {
    let mut backoff = Backoff::new(&shared.settings);
    while !shared.is_closed() && !shared.is_revoked(peer.slot) {
        match dial_lane(&shared, &peer, 0, None).await {
            Ok(()) => backoff = Backoff::new(&shared.settings),
            Err(error) => {
                if error.is_transient() {
                    backoff = Backoff::new(&shared.settings);
                }
                tracing::debug!(peer = peer.slot.0, %error, "cannot connect");
                *locked(&peer.last_error) = Some(error.to_string());
            }
        }
        let pause = backoff.pause(&shared.settings);
        tokio::select! {
            () = sleep(pause) => {}
            () = shared.closed() => return,
        }
    }
}

/// Asks a peer that should call, and does not, whether it refuses this replica. Only the replica with the larger slot
/// calls. Without this question the smaller one would never learn that it was removed while it was away.
pub(crate) async fn ask_why_silent(shared: Arc<EndpointState>, peer: Arc<PeerState>) {
    // After this time a peer that tries at all has tried again.
    let patience = shared.settings.backoff_max * 2;
    loop {
        tokio::select! {
            () = sleep(patience) => {}
            () = shared.closed() => return,
        }
        if shared.is_closed() || shared.is_revoked(peer.slot) {
            return;
        }
        if peer.is_connected() {
            continue;
        }
        let inquiry = exchange_hellos(&shared, &peer, Purpose::Inquiry, None);
        // A refusal was handed up. Any other problem the peer reports when it calls.
        if let Ok(Err(error)) = timeout(shared.settings.handshake_timeout, inquiry).await {
            tracing::debug!(peer = peer.slot.0, %error, "asked a peer that does not call");
        }
    }
}

/// The purpose of a connection.
#[derive(Clone, Copy)]
enum Purpose {
    /// To run this lane.
    Lane(u32),
    /// To ask why the peer does not call.
    Inquiry,
}

/// Keeps one further lane of a session connected until the session ends.
async fn keep_lane(
    shared: Arc<EndpointState>,
    peer: Arc<PeerState>,
    session: Arc<SessionState>,
    index: u32,
) {
    let mut backoff = Backoff::new(&shared.settings);
    while !session.has_ended() {
        match dial_lane(&shared, &peer, index, Some(&session)).await {
            Ok(()) => backoff = Backoff::new(&shared.settings),
            Err(error) => {
                if error.is_transient() {
                    backoff = Backoff::new(&shared.settings);
                }
                tracing::debug!(peer = peer.slot.0, lane = index, %error, "cannot connect");
            }
        }
        let pause = backoff.pause(&shared.settings);
        tokio::select! {
            () = sleep(pause) => {}
            () = session.ended() => return,
        }
    }
}

/// Connects one lane and runs it until it breaks. An error means that there was no connection.
async fn dial_lane(
    shared: &Arc<EndpointState>,
    peer: &Arc<PeerState>,
    index: u32,
    session: Option<&Arc<SessionState>>,
) -> Result<(), HandshakeError> {
    let believed = session.cloned().or_else(|| peer.current());
    let exchange = exchange_hellos(shared, peer, Purpose::Lane(index), believed.as_deref());
    let (stream, theirs) = timeout(shared.settings.handshake_timeout, exchange)
        .await
        .unwrap_or(Err(HandshakeError::TimedOut))?;
    let session = match session {
        Some(session) => session.clone(),
        None => session_of(shared, peer, &stream, &theirs)?,
    };
    if theirs.incarnation != session.peer.incarnation.0 {
        return Err(HandshakeError::refuse("the peer has restarted".to_owned()));
    }
    let lane = session.lanes[index as usize].clone();
    let generation = lane.begin_connection();
    locked(&lane.outbox).resume(theirs.received, theirs.credit)?;
    session.counters.connect();
    if index == 0 {
        *locked(&peer.last_error) = None;
    }
    let run = connection::run(session, lane, generation, stream, shared.keepalive);
    if let Err(error) = run.await {
        tracing::debug!(peer = peer.slot.0, lane = index, %error, "a connection ended");
    }
    Ok(())
}

/// The session that the answer on a control lane belongs to. A new session starts its other lanes.
fn session_of(
    shared: &Arc<EndpointState>,
    peer: &Arc<PeerState>,
    stream: &TlsStream<Socket>,
    theirs: &Hello,
) -> Result<Arc<SessionState>, HandshakeError> {
    let slot = certified(shared, stream.get_ref().1.peer_certificates())
        .map_err(HandshakeError::refuse)?;
    let sender = check_hello(shared, theirs, slot).map_err(|refusal| HandshakeError::Refuse {
        transient: refusal.is_transient(),
        reason: refusal.reason,
    })?;
    peer.note_program(theirs);
    let lanes = agree_on_data_lanes(shared, theirs);
    let (session, is_new) = peer.session_with(shared, sender, lanes).map_err(|_| {
        let reason = "an earlier start of the peer answers; two servers use copies of one identity";
        HandshakeError::refuse(reason.to_owned())
    })?;
    if is_new {
        for index in 1..session.lanes.len() {
            let index = u32::try_from(index).expect("lanes are bounded by MAX_DATA_LANES");
            tokio::spawn(keep_lane(
                shared.clone(),
                peer.clone(),
                session.clone(),
                index,
            ));
        }
    }
    Ok(session)
}

/// Connects and exchanges hellos: each side says where the lane stands.
async fn exchange_hellos(
    shared: &EndpointState,
    peer: &PeerState,
    purpose: Purpose,
    believed: Option<&SessionState>,
) -> Result<(TlsStream<Socket>, Hello), HandshakeError> {
    let mut stream = open(shared, peer).await?;
    let (index, inquires) = match purpose {
        Purpose::Lane(index) => (index, false),
        Purpose::Inquiry => (0, true),
    };
    let mut hello = Hello {
        lane: index,
        inquires,
        credit_fresh: shared.settings.window_bytes(lane_kind(index), 1),
        ..shared.hello_to(peer.slot, index)
    };
    if let Some(session) = believed {
        let (received, credit) = locked(&session.lanes[index as usize].inbox).report();
        hello.peer_incarnation = session.peer.incarnation.0;
        hello.received = received;
        hello.credit = credit;
    }
    let told = write_short(&mut stream, &hello).await;
    // A refusal of our certificate arrives here: in TLS 1.3 the client finishes before the server verifies the certificate.
    let reply: HelloReply = match read_short(&mut stream).await {
        Ok(reply) => reply,
        Err(crate::wire::WireError::Broken(error)) => {
            return Err(HandshakeError::unreachable(&error));
        }
        Err(error) => return Err(error.into()),
    };
    told?;
    match (reply.hello, reply.refusal) {
        (Some(theirs), None) => Ok((stream, theirs)),
        (_, Some(refusal)) => {
            // TLS has proven the identity of this peer.
            shared.handler.turned_away(peer.slot, &refusal.evidence);
            Err(HandshakeError::Refused(refusal))
        }
        (None, None) => Err(HandshakeError::refuse("the answer is empty".to_owned())),
    }
}

/// Connects to the first address that answers with the right certificate.
async fn open(
    shared: &EndpointState,
    peer: &PeerState,
) -> Result<TlsStream<Socket>, HandshakeError> {
    let addresses = locked(&peer.addresses).clone();
    let name = ServerName::try_from(replica_name(shared.set, peer.slot))
        .map_err(|error| HandshakeError::Unreachable(error.to_string()))?;
    let mut last = HandshakeError::Unreachable("the peer has no address".to_owned());
    for address in addresses {
        let attempt = async {
            let socket = buffered(TcpStream::connect(&address).await?)?;
            let connector = TlsConnector::from(shared.dial.clone());
            connector.connect(name.clone(), socket).await
        };
        match attempt.await {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                let reason = crate::tls::explain(&error);
                last = HandshakeError::Unreachable(format!("{address}: {reason}"));
            }
        }
    }
    Err(last)
}
