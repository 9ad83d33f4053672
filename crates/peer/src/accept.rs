//! The listening side: TLS, the hello, and then either the connection of a lane or a server that asks to join.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plain_file::descriptors;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::callers::{Callers, Place, Refusals};
use crate::connection;
use crate::endpoint::EndpointState;
use crate::flow::{LaneState, locked};
use crate::handler::Sender;
use crate::handshake::{
    HandshakeError, Socket, agree_on_data_lanes, buffered, certified, check_hello, farewell,
};
use crate::session::SessionState;
use crate::set;
use crate::tls::ALPN_JOIN;
use crate::wire::{Hello, HelloReply, WireRefusal, read_short, write_short};

/// A caller must send its first bytes within this time. A member sends them at once.
const FIRST_BYTES: Duration = Duration::from_secs(3);

/// The log repeats at this interval that no connection can be accepted.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// How often to check whether the log has to report failed connections.
const LOOK: Duration = Duration::from_secs(10);

/// Accepts connections until the endpoint closes.
pub(crate) async fn listen(shared: Arc<EndpointState>, listener: TcpListener) {
    let callers = Callers::new(shared.settings.handshakes_max);
    let refusals = Arc::new(Mutex::new(Refusals::default()));
    let mut failing = Told::default();
    let mut looks = tokio::time::interval(LOOK);
    loop {
        let socket = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = looks.tick() => {
                if let Some(count) = locked(&refusals).due(Instant::now()) {
                    tracing::info!(count, "more connections came to nothing");
                }
                continue;
            }
            () = shared.closed() => return,
        };
        let socket = socket.and_then(|(socket, from)| Ok((above_low_numbers(socket)?, from)));
        let (socket, from) = match socket {
            Ok(accepted) => accepted,
            Err(error) => {
                if failing.note(Instant::now()) {
                    tracing::warn!(%error, "cannot accept a connection");
                }
                // Usually the process is out of file descriptors. The pause lets other connections close theirs.
                tokio::time::sleep(shared.settings.backoff_min).await;
                continue;
            }
        };
        let address = from.ip().to_canonical();
        let from = SocketAddr::new(address, from.port());
        // A failure of one connection does not stop the next one from being accepted.
        let entered = AssertUnwindSafe(|| callers.enter(address, shared.knows_address(address)));
        let Ok(place) = catch_unwind(entered) else {
            tracing::error!(%from, "accepting a connection panicked, which is a fault of this program");
            continue;
        };
        let (shared, refusals) = (shared.clone(), refusals.clone());
        tokio::spawn(async move {
            let greeted = receive(&shared, &place, socket).await;
            drop(place);
            match greeted {
                Ok(Some(lane)) => {
                    shared.note_address(lane.session.peer.slot, address);
                    lane.run(&shared).await;
                }
                Ok(None) => {}
                Err(error) if error.is_transient() => {
                    tracing::debug!(%from, %error, "a connection has to be tried again");
                }
                Err(error) => {
                    tracing::debug!(%from, %error, "a connection came to nothing");
                    if let Some(count) = locked(&refusals).note(Instant::now()) {
                        tracing::info!(%from, %error, count, "a connection came to nothing");
                    }
                }
            }
        });
    }
}

/// Moves the descriptor of a connection above the low numbers, which stay free for uses that must not fail.
fn above_low_numbers(socket: TcpStream) -> io::Result<TcpStream> {
    TcpStream::from_std(descriptors::above(socket.into_std()?)?)
}

/// When the log last reported that no connection can be accepted.
#[derive(Default)]
struct Told(Option<Instant>);

impl Told {
    /// Whether the log reports it again now.
    fn note(&mut self, now: Instant) -> bool {
        let is_due = self
            .0
            .is_none_or(|last| now.duration_since(last) >= TELL_AGAIN);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

/// Waits for the first bytes, then for the rest of the handshake, unless another connection needs the place.
async fn receive(
    shared: &Arc<EndpointState>,
    place: &Place,
    socket: TcpStream,
) -> Result<Option<Greeted>, HandshakeError> {
    let patience = shared.settings.handshake_timeout;
    let greeted = async {
        let mut first = [0];
        let silence = timeout(FIRST_BYTES.min(patience), socket.peek(&mut first));
        match silence.await {
            Err(_) => return Err(HandshakeError::Silent),
            Ok(Ok(0)) => return Err(HandshakeError::Silent),
            Ok(Ok(_)) => place.note_spoken(),
            Ok(Err(error)) => return Err(HandshakeError::unreachable(&error)),
        }
        timeout(patience, greet(shared, socket))
            .await
            .unwrap_or(Err(HandshakeError::TimedOut))
    };
    tokio::select! {
        greeted = greeted => greeted,
        () = place.taken() => Err(HandshakeError::Crowded),
    }
}

/// A lane that is ready to run over its connection.
struct Greeted {
    session: Arc<SessionState>,
    lane: Arc<LaneState>,
    generation: u64,
    stream: TlsStream<Socket>,
}

impl Greeted {
    async fn run(self, shared: &EndpointState) {
        let slot = self.session.peer.slot.0;
        let (lane, keepalive) = (self.lane.index, shared.keepalive);
        let run = connection::run(
            self.session,
            self.lane,
            self.generation,
            self.stream,
            keepalive,
        );
        if let Err(error) = run.await {
            tracing::debug!(peer = slot, lane, %error, "a connection ended");
        }
    }
}

/// Does TLS and the hello. `None` after serving a server that wanted to join.
async fn greet(
    shared: &Arc<EndpointState>,
    socket: TcpStream,
) -> Result<Option<Greeted>, HandshakeError> {
    let socket = buffered(socket).map_err(|error| HandshakeError::unreachable(&error))?;
    let acceptor = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), socket);
    let start = acceptor
        .await
        .map_err(|error| HandshakeError::unreachable(&error))?;
    let joins = start
        .client_hello()
        .alpn()
        .is_some_and(|mut names| names.any(|name| name == ALPN_JOIN));
    let config = if joins {
        &shared.accept_join
    } else {
        &shared.accept
    };
    let mut stream = match start.into_stream(config.clone()).into_fallible().await {
        Ok(stream) => stream,
        Err((error, socket)) => {
            farewell(socket).await;
            return Err(HandshakeError::unreachable(&error));
        }
    };
    if joins {
        set::serve_join(shared.admitting.as_ref(), &mut stream).await?;
        return Ok(None);
    }
    let hello: Hello = read_short(&mut stream).await?;
    let slot = certified(shared, stream.get_ref().1.peer_certificates());
    let admitted = slot
        .map_err(WireRefusal::permanent)
        .and_then(|slot| check_hello(shared, &hello, slot))
        .and_then(|sender| match hello.inquires {
            true => Err(WireRefusal::transient(
                "nothing is wrong; it will be called",
            )),
            false => Ok(sender),
        })
        .and_then(|sender| find_lane(shared, sender, &hello));
    let (session, lane, known) = match admitted {
        Ok(found) => found,
        Err(refusal) => {
            let (transient, reason) = (refusal.is_transient(), refusal.reason.clone());
            write_short(&mut stream, &HelloReply::refuse(refusal)).await?;
            return Err(HandshakeError::Refuse { transient, reason });
        }
    };
    session.counters.connect();
    let generation = lane.begin_connection();
    // If the dialler does not know this session, its numbers belong to another session.
    let (received, credit) = if known {
        (hello.received, hello.credit)
    } else {
        (0, hello.credit_fresh)
    };
    locked(&lane.outbox).resume(received, credit)?;
    let reply = HelloReply {
        hello: Some(answer(shared, &lane, &session)),
        refusal: None,
    };
    write_short(&mut stream, &reply).await?;
    Ok(Some(Greeted {
        session,
        lane,
        generation,
        stream,
    }))
}

/// Our side of the lane, for the dialler.
fn answer(shared: &EndpointState, lane: &LaneState, session: &SessionState) -> Hello {
    let (received, credit) = locked(&lane.inbox).report();
    Hello {
        lane: lane.index,
        peer_incarnation: session.peer.incarnation.0,
        received,
        credit,
        credit_fresh: credit,
        ..shared.hello_to(session.peer.slot, lane.index)
    }
}

type Found = (Arc<SessionState>, Arc<LaneState>, bool);

/// The lane that a hello names, and whether the dialler knows its session. Only the control lane begins a session. So
/// when a new incarnation opens several connections, exactly one of them comes first.
fn find_lane(
    shared: &Arc<EndpointState>,
    sender: Sender,
    hello: &Hello,
) -> Result<Found, WireRefusal> {
    let transient = |reason: &str| WireRefusal::transient(reason);
    if shared.is_closed() {
        return Err(transient("this server is stopping"));
    }
    let peer = shared.peer(sender.slot);
    let known = hello.peer_incarnation == shared.incarnation.0;
    if hello.lane == 0 {
        peer.note_program(hello);
        let (session, is_new) = peer
            .session_with(shared, sender, agree_on_data_lanes(shared, hello))
            .map_err(|_| {
                let reason = "a later start of this replica has been here; two servers use copies of \
                              one identity, or its start counter was lost: let it join again";
                WireRefusal::permanent(reason)
            })?;
        let lane = session.lanes[0].clone();
        return Ok((session, lane, known && !is_new));
    }
    let session = peer
        .current()
        .filter(|session| known && session.peer == sender && !session.has_ended())
        .ok_or_else(|| transient("the control lane comes first"))?;
    let lane = session
        .lanes
        .get(hello.lane as usize)
        .cloned()
        .ok_or_else(|| transient("there are fewer lanes"))?;
    Ok((session, lane, true))
}
