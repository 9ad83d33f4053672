//! How one metadata server of a pool asks another one, until it is answered.
//!
//! What must never enter: what is asked.

use std::sync::Arc;
use std::time::Duration;

use metadata_server::{Asked, RemoteTree, Reply};
use peer::{Lane, Peer, RequestError, SendError, Sender, Session};
use throttle::Throttle;
use tokio::time::Instant;
use vfs::Error;

use super::connection;

/// Longer than a server runs.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Before a question is asked again that did not get through.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// How often it is looked whether copies that are in use need another lease.
const LOOK: Duration = Duration::from_millis(250);

/// What is told of questions that are refused, once and then in sums.
static REFUSED: Throttle = Throttle::new();

/// Asks until an answer comes, or the time is over. A change, or an open, is not given up once it is on its way, as long as the other server
/// runs: it might be made after something that the client asks for later.
pub(super) async fn ask_until(peer: &Peer, asked: Asked, deadline: Instant) -> vfs::Result<Reply> {
    let (message, question) = (connection::encode_question(&asked), asked.question);
    let given_up = match question.may_be_given_up() {
        true => deadline,
        false => Instant::now() + FOREVER,
    };
    let mut otherwise = Error::Delay;
    loop {
        let Ok(session) = tokio::time::timeout_at(deadline, connected(peer)).await else {
            return Err(otherwise);
        };
        let asked = session.request(Lane::Data, message.clone(), given_up).await;
        match asked {
            Ok(reply) => {
                return connection::decode_reply(&reply)
                    .ok_or_else(|| refused("the answer of a metadata server is none"));
            }
            Err(RequestError::Deadline) => return Err(otherwise),
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
            Err(RequestError::NotSent(_) | RequestError::Busy) => {}
        }
        tokio::time::sleep(PAUSE).await;
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
pub(super) async fn keep_lease(shown: std::sync::Weak<RemoteTree>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(shown) = shown.upgrade() else { return };
        if shown.wants_lease() {
            // Without one, the home is asked for everything.
            let _ = shown.ask_for_lease().await;
        }
    }
}
