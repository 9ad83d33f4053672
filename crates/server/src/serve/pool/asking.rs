//! How one metadata server of a pool asks another one, until it is answered.
//!
//! A question is asked once in a session, which knows it by its number, carries it over connections that break, and brings its answer. It is
//! given up when the other server is silent, not when it is busy: asked again, it would be carried out twice, and the more there is to do, the more of
//! it would be for nobody. What is under way is bounded instead, and what is beyond that waits with its client, whose slot it keeps.
//!
//! What must never enter: what is asked.

use std::sync::{Arc, Weak};
use std::time::Duration;

use metadata_server::{Asked, Question, RemoteTree, Reply};
use peer::{Lane, Peer, RequestError, SendError, Sender, Session};
use throttle::Throttle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use vfs::Error;

use super::connection;

/// Longer than a server runs.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Before a question is asked again that did not get through.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// How often a question that waits looks whether the other server is silent, which no event tells, and whether copies that are in use need another lease.
const LOOK: Duration = Duration::from_millis(250);

/// The bytes of files that are under way to or from another server, by what was asked for: more than a link of 1 Gbit/s carries in 30 ms.
const BYTES_MAX: u32 = 4 << 20;
/// What a question about few bytes counts as, so that there are at most 64 of them.
const BYTES_MIN: u32 = 64 << 10;
/// Other questions that are under way.
const OTHERS_MAX: usize = 64;
/// What is under way with these bounds, and as much again of what [`Question::may_wait`] says no to, is served at once.
pub(super) const SERVED_MAX: usize = 2 * (OTHERS_MAX + (BYTES_MAX / BYTES_MIN) as usize);

/// What is told of questions that are refused, once and then in sums.
static REFUSED: Throttle = Throttle::new();

/// Bounds what is asked of another server at once; questions beyond that wait their turn.
pub(super) struct UnderWay {
    contents: Semaphore,
    others: Semaphore,
}

impl UnderWay {
    pub(super) fn new() -> UnderWay {
        UnderWay {
            contents: Semaphore::new(BYTES_MAX as usize),
            others: Semaphore::new(OTHERS_MAX),
        }
    }

    /// Waits until the question may be asked: few enough others are under way. It counts until what is returned is dropped.
    async fn admit(&self, question: &Question) -> Option<SemaphorePermit<'_>> {
        let permit = match question.contents() {
            _ if !question.may_wait() => return None,
            Some(bytes) => {
                let bytes = bytes.clamp(BYTES_MIN, BYTES_MAX);
                self.contents.acquire_many(bytes).await
            }
            None => self.others.acquire().await,
        };
        // They are never closed.
        permit.ok()
    }
}

/// Asks until an answer comes, or the other server has been silent for so long. A change, or an open, is not given up once it is on its way, as
/// long as the other server runs: it might be made after something that the client asks for later.
pub(super) async fn ask(
    (peer, under_way): (&Peer, &UnderWay),
    asked: Asked,
    patience: Duration,
) -> vfs::Result<Reply> {
    let (message, question) = (connection::encode_question(&asked), asked.question);
    let mut otherwise = Error::Delay;
    let _permit = tokio::select! {
        permit = under_way.admit(&question) => permit,
        () = silence(peer, patience) => return Err(otherwise),
    };
    loop {
        let Ok(session) = tokio::time::timeout(patience, connected(peer)).await else {
            return Err(otherwise);
        };
        let forever = Instant::now() + FOREVER;
        let answer = tokio::select! {
            answer = session.request(Lane::Data, message.clone(), forever) => answer,
            () = silence(peer, patience), if question.may_be_given_up() => return Err(otherwise),
        };
        match answer {
            Ok(reply) => {
                return connection::decode_reply(&reply)
                    .ok_or_else(|| refused("the answer of a metadata server is none"));
            }
            Err(RequestError::Refused(why)) => return Err(refused(&why.to_string())),
            Err(RequestError::NotSent(too_large @ SendError::TooLarge { .. })) => {
                return Err(refused(&too_large.to_string()));
            }
            Err(RequestError::OutcomeUnknown(_)) => {
                // The home may have made it. It knows the same request again.
                if question.is_made_once() {
                    otherwise = Error::Uncertain;
                }
            }
            Err(RequestError::Deadline | RequestError::NotSent(_) | RequestError::Busy) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns when no messages have travelled between the two servers for so long.
async fn silence(peer: &Peer, patience: Duration) {
    let mut heard = Instant::now();
    loop {
        tokio::time::sleep(LOOK.min(patience)).await;
        let session = peer.session();
        if session.is_ok_and(|session| session.is_connected(Lane::Data)) {
            heard = Instant::now();
        } else if heard.elapsed() >= patience {
            return;
        }
    }
}

/// A session in which messages travel.
async fn connected(peer: &Peer) -> Session {
    loop {
        let session = peer.ready().await;
        if session.connected(Lane::Data).await {
            return session;
        }
    }
}

/// What cannot be asked is an error for the client, and for the log.
fn refused(why: &str) -> Error {
    if let Some(sum) = REFUSED.failed(("a question", 0), std::time::Instant::now()) {
        tracing::warn!(why, %sum, "a metadata server of the pool does not answer a question");
    }
    Error::Io(why.to_owned())
}

/// A run of a home is there, or was: it knows of no copies, and hears that there are none.
pub(super) fn meet(shown: &Arc<RemoteTree>, home: Sender) {
    shown.meet(home.incarnation.0);
    let shown = shown.clone();
    tokio::spawn(async move {
        // Otherwise it hears it with the next question.
        let _ = shown.ask_for_lease().await;
    });
}

/// Asks for leases as long as copies are in use.
pub(super) async fn keep_lease(shown: Weak<RemoteTree>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(shown) = shown.upgrade() else { return };
        if shown.wants_lease() {
            // Without one, the home is asked for everything.
            let _ = shown.ask_for_lease().await;
        }
    }
}
