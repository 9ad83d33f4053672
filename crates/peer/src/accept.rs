//! The listening side: TLS, the hello, and then the lane's connection; or a server that wants to join.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::connection;
use crate::endpoint::Shared;
use crate::flow::{LaneState, locked};
use crate::handshake::{
    HandshakeError, Socket, agree_on_data_lanes, buffered, certified, check_hello, farewell,
};
use crate::owner::Sender;
use crate::session::SessionState;
use crate::set;
use crate::tls::ALPN_JOIN;
use crate::wire::{Hello, HelloReply, RefusalCode, WireRefusal, read_short, write_short};

/// Accepts connections until the endpoint closes.
pub(crate) async fn listen(shared: Arc<Shared>, listener: TcpListener) {
    let handshakes = Arc::new(Semaphore::new(shared.settings.handshakes_max.max(1)));
    loop {
        let socket = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.closed() => return,
        };
        let (socket, from) = match socket {
            Ok(accepted) => accepted,
            Err(error) => {
                // Usually out of file descriptors: the pause lets others close theirs.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(shared.settings.backoff_min).await;
                continue;
            }
        };
        let Ok(permit) = handshakes.clone().acquire_owned().await else {
            return;
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            let patience = shared.settings.handshake_timeout;
            let greeted = timeout(patience, greet(&shared, socket)).await;
            drop(permit);
            match greeted.unwrap_or(Err(HandshakeError::TimedOut)) {
                Ok(Some(lane)) => lane.run(&shared).await,
                Ok(None) => {}
                Err(error) if error.is_transient() => {
                    tracing::debug!(%from, %error, "a connection has to be tried again");
                }
                Err(error) => tracing::info!(%from, %error, "refused a connection"),
            }
        });
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
    async fn run(self, shared: &Shared) {
        let slot = self.session.peer.slot.0;
        let (lane, keepalive) = (self.lane.index, shared.settings.keepalive);
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

/// TLS and hello. `None` after serving a server that wanted to join.
async fn greet(shared: &Arc<Shared>, socket: TcpStream) -> Result<Option<Greeted>, HandshakeError> {
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
        set::serve_join(shared.desk.as_ref(), &mut stream).await?;
        return Ok(None);
    }
    let hello: Hello = read_short(&mut stream).await?;
    let slot = certified(shared, stream.get_ref().1.peer_certificates());
    let admitted = slot
        .map_err(|reason| WireRefusal::new(RefusalCode::Permanent, reason))
        .and_then(|slot| check_hello(shared, &hello, slot))
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
    // What the dialler says of a session that it does not know is about another one.
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
fn answer(shared: &Shared, lane: &LaneState, session: &SessionState) -> Hello {
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

/// The lane that a hello names, and whether the dialler knows its session. Only the control lane begins a
/// session, so that of several connections of a new incarnation one comes first.
fn find_lane(shared: &Arc<Shared>, sender: Sender, hello: &Hello) -> Result<Found, WireRefusal> {
    let transient = |reason: &str| WireRefusal::new(RefusalCode::Transient, reason);
    if shared.is_closed() {
        return Err(transient("this server is stopping"));
    }
    let peer = shared.peer(sender.slot);
    let known = hello.peer_incarnation == shared.incarnation.0;
    if hello.lane == 0 {
        let (session, is_new) = peer
            .session_with(shared, sender, agree_on_data_lanes(shared, hello))
            .map_err(|_| {
                let reason = "a later start of this replica has been here; two servers use copies of \
                              one identity, or its start counter was lost: let it join again";
                WireRefusal::new(RefusalCode::Permanent, reason)
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
