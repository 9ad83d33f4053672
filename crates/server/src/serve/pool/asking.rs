//! How one metadata server of a pool asks another until it gets an answer.
//!
//! A question is asked once per session. The session identifies it by a number, carries it over broken connections, and returns its answer.
//! The asker gives up when the other server is silent, not when it is busy: a repeated question would run twice, and under load more and
//! more work would be done for no caller. Instead, the number of questions under way is bounded. A question beyond that waits, and its
//! client keeps its slot.
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

/// Longer than any server runs.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Delay before a question that was not sent is asked again.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// How often a waiting question checks whether the other server is silent, because no event tells, and how often leases of used copies are
/// checked.
const LOOK: Duration = Duration::from_millis(250);

/// Most file bytes under way to or from another server, by requested size: more than a link of 1 Gbit/s carries in 30 ms.
const BYTES_MAX: u32 = 4 << 20;
/// A question about fewer bytes counts as this many, so at most 64 of them are under way.
const BYTES_MIN: u32 = 64 << 10;
/// Most other questions under way.
const OTHERS_MAX: usize = 64;
/// Requests served at once: all questions within these bounds, and as many again for which [`Question::may_wait`] is false.
pub(super) const SERVED_MAX: usize = 2 * (OTHERS_MAX + (BYTES_MAX / BYTES_MIN) as usize);

/// Log entries about refused questions, the first one and then sums.
static REFUSED: Throttle = Throttle::new();

/// Limits the questions to another server that are under way. Further questions wait.
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

    /// Waits until the limits allow the question. It counts until the permit is dropped.
    async fn admit(&self, question: &Question) -> Option<SemaphorePermit<'_>> {
        let permit = match question.contents() {
            _ if !question.may_wait() => return None,
            Some(bytes) => {
                let bytes = bytes.clamp(BYTES_MIN, BYTES_MAX);
                self.contents.acquire_many(bytes).await
            }
            None => self.others.acquire().await,
        };
        // The semaphores are never closed.
        permit.ok()
    }
}

/// Asks until an answer comes, or the other server has been silent for `patience`. A change or an open that was sent is not given up while
/// the other server runs: it might take effect after something that the client asks for later.
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
                // The home may have made the change. It recognizes a repeat.
                if question.is_made_once() {
                    otherwise = Error::Uncertain;
                }
            }
            Err(RequestError::Deadline | RequestError::NotSent(_) | RequestError::Busy) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns when no messages have passed between the two servers for `patience`.
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

/// A session with a working connection.
async fn connected(peer: &Peer) -> Session {
    loop {
        let session = peer.ready().await;
        if session.connected(Lane::Data).await {
            return session;
        }
    }
}

/// The error for a question that cannot be asked, for the client and the log.
fn refused(why: &str) -> Error {
    if let Some(sum) = REFUSED.failed(("a question", 0), std::time::Instant::now()) {
        tracing::warn!(why, %sum, "a metadata server of the pool does not answer a question");
    }
    Error::Io(why.to_owned())
}

/// A run of a home is there, or was. It knows no copies, so it is told that there are none.
pub(super) fn meet(shown: &Arc<RemoteTree>, home: Sender) {
    shown.meet(home.incarnation.0);
    let shown = shown.clone();
    tokio::spawn(async move {
        // If this fails, the next question tells it.
        let _ = shown.ask_for_lease().await;
    });
}

/// Renews leases while copies are in use.
pub(super) async fn keep_lease(shown: Weak<RemoteTree>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(shown) = shown.upgrade() else { return };
        if shown.wants_lease() {
            // Without a lease, everything is asked from the home.
            let _ = shown.ask_for_lease().await;
        }
    }
}
