//! What travels between the servers of a pool, and who may send it: the one place where that is judged.
//!
//! The others call the first metadata server; certificates say who is at the other end. What data servers say goes by the control lane, so
//! that it arrives in the order in which it was sent, or not at all. Questions about names go by the data lane, in any order.
//!
//! What must never enter: what the messages do.

use std::time::Duration;

use bytes::Bytes;
use metadata_server::{Asked, News, Reply};
use peer::{Message, Refusal, Sender, Settings, TurnedAway};
use pool::{Holding, ToDataServer, ToHome};
use vfs::ReplicaSlot;

use crate::pools::{PoolPlace, PoolRole};

/// The only version there is of what servers of a pool say to each other.
const VERSION: u32 = 1;

const TO_HOME: u32 = 1;
const TO_DATA_SERVER: u32 = 2;
const HOLDING: u32 = 3;
/// A question of a metadata server, which is answered.
const QUESTION: u32 = 4;
/// The answer to it.
const ANSWER: u32 = 5;
/// What copies of the receiver do not count any more: a request of the first metadata server.
const NEWS: u32 = 6;
/// The answer to it: the copies are dropped.
const HEARD: u32 = 7;

/// How servers of a pool talk. Bytes of files go another way, but for those that clients of a metadata server that has joined read and
/// write: as many as its questions under way can have.
pub(super) fn settings() -> Settings {
    Settings {
        versions: VERSION..=VERSION,
        data_lanes: 1,
        data_window_bytes: 16 << 20,
        requests_served_max: 64,
        // Clients wait for a server that comes back.
        backoff_max: Duration::from_secs(1),
        metadata_window_bytes: 1 << 20,
        compression: false,
        ..Settings::default()
    }
}

/// What a data server says to the metadata server.
#[derive(Debug)]
pub(super) enum FromDataServer {
    /// What their cores agree on.
    ToHome(ToHome),
    /// How much it keeps.
    Holding(Holding),
}

impl FromDataServer {
    pub(super) fn encode(&self) -> Message {
        match self {
            FromDataServer::ToHome(message) => Message::new(TO_HOME, message.encode()),
            FromDataServer::Holding(holding) => Message::new(HOLDING, holding.encode()),
        }
    }

    /// Reads a message that [`admit_at_metadata_server`] let through; nothing when it is none.
    pub(super) fn decode(message: &Message) -> Option<FromDataServer> {
        let body = &message.body;
        let read = match message.kind {
            TO_HOME => ToHome::decode(body).map(FromDataServer::ToHome),
            HOLDING => Holding::decode(body).map(FromDataServer::Holding),
            _ => return None,
        };
        read.ok().filter(|_| message.payload.is_empty())
    }
}

/// What the metadata server says to a data server.
pub(super) fn encode(message: &ToDataServer) -> Message {
    Message::new(TO_DATA_SERVER, message.encode())
}

/// Reads a message that [`admit_at_data_server`] let through; nothing when it is none.
pub(super) fn decode(message: &Message) -> Option<ToDataServer> {
    let read = ToDataServer::decode(&message.body).ok();
    read.filter(|_| message.kind == TO_DATA_SERVER && message.payload.is_empty())
}

/// A question of a metadata server; it may be long.
pub(super) fn encode_question(asked: &Asked) -> Message {
    Message::new(QUESTION, Bytes::new()).with_payload(asked.encode())
}

/// Reads a question that [`admit_at_metadata_server`] let through; nothing when it is none.
pub(super) fn decode_question(message: &Message) -> Option<Asked> {
    let is_one = message.kind == QUESTION && message.body.is_empty();
    is_one.then(|| Asked::decode(&message.payload)).flatten()
}

/// The answer to a question; it may be long.
pub(super) fn encode_reply(reply: &Reply) -> Message {
    Message::new(ANSWER, Bytes::new()).with_payload(reply.encode())
}

/// Reads what answers a question; nothing when it is no answer.
pub(super) fn decode_reply(message: &Message) -> Option<Reply> {
    let is_one = message.kind == ANSWER && message.body.is_empty();
    is_one.then(|| Reply::decode(&message.payload)).flatten()
}

/// What copies of a metadata server that has joined do not count any more.
pub(super) fn encode_news(news: &News) -> Message {
    Message::new(NEWS, news.encode())
}

/// Reads news that [`admit_at_joined`] let through; nothing when they are none.
pub(super) fn decode_news(message: &Message) -> Option<News> {
    let is_some = message.kind == NEWS && message.payload.is_empty();
    is_some.then(|| News::decode(&message.body)).flatten()
}

/// The answer to news.
pub(super) fn heard() -> Message {
    Message::new(HEARD, Bytes::new())
}

/// Whether news were taken.
pub(super) fn is_heard(message: &Message) -> bool {
    *message == heard()
}

/// Whether a server may talk to the first metadata server at all, by the newest list of members, and as what.
pub(super) fn meet_at_metadata_server(
    place: &PoolPlace,
    peer: Sender,
) -> Result<PoolRole, TurnedAway> {
    match place.member(peer.slot) {
        Some(member) if !member.revoked && peer.slot != place.keeper => {
            Ok(PoolRole::of(&member, place.keeper))
        }
        Some(_) => Err(turned_away(
            "this server was removed from the pool; to return, it joins anew, with an empty data directory",
        )),
        None => Err(turned_away(
            "the metadata server knows no such server; if its data directory was put back from a backup that is older than this \
             server, join anew, with an empty data directory",
        )),
    }
}

/// Whether a server may talk at all to this one, which has joined.
pub(super) fn meet_at_joined(place: &PoolPlace, peer: Sender) -> Result<(), TurnedAway> {
    match peer.slot == place.keeper {
        true => Ok(()),
        false => Err(turned_away(
            "servers that have joined a pool talk to its first metadata server alone",
        )),
    }
}

pub(super) fn admit_at_metadata_server(from: Option<PoolRole>, kind: u32) -> Result<(), Refusal> {
    match (kind, from) {
        (TO_HOME | HOLDING, Some(PoolRole::DataServer))
        | (QUESTION, Some(PoolRole::MetadataServer)) => Ok(()),
        _ => Err(refusal()),
    }
}

pub(super) fn admit_at_joined(
    place: &PoolPlace,
    from: ReplicaSlot,
    kind: u32,
) -> Result<(), Refusal> {
    match kind {
        NEWS if from == place.keeper => Ok(()),
        _ => Err(refusal()),
    }
}

pub(super) fn admit_at_data_server(
    place: &PoolPlace,
    from: ReplicaSlot,
    kind: u32,
) -> Result<(), Refusal> {
    match kind {
        TO_DATA_SERVER if from == place.keeper => Ok(()),
        _ => Err(refusal()),
    }
}

pub(super) fn refusal() -> Refusal {
    Refusal("a server of the pool does not say that to another one in this role".to_owned())
}

fn turned_away(reason: &str) -> TurnedAway {
    TurnedAway {
        again: false,
        reason: reason.to_owned(),
        evidence: Bytes::new(),
    }
}

#[cfg(test)]
mod tests {
    use pool::{Act, ContentsId, Generation, Intent, IntentNumber, PlacementNumber, Report};
    use vfs::ObjectId;

    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent_and_others_are_none() {
        let contents = ContentsId {
            object: ObjectId::from_u64(7),
            placement: PlacementNumber(1),
        };
        let take = ToDataServer::Take(Intent {
            number: IntentNumber(1),
            contents,
            generation: Generation(2),
            act: Act::Remove,
        });
        assert_eq!(decode(&encode(&take)), Some(take.clone()));
        let looked = ToHome::Looked {
            question: 3,
            report: Report::default(),
        };
        let sent = FromDataServer::ToHome(looked).encode();
        let FromDataServer::ToHome(arrived) = FromDataServer::decode(&sent).unwrap() else {
            panic!("another message");
        };
        assert_eq!(arrived, looked);
        // The kinds tell the two ways apart, and nothing has bytes beside.
        assert!(decode(&sent).is_none() && FromDataServer::decode(&encode(&take)).is_none());
        assert!(FromDataServer::decode(&sent.with_payload(&b"more"[..])).is_none());
        let news = News {
            run: 3,
            told: vec![(1, ObjectId::ROOT)],
        };
        let sent = encode_news(&news);
        assert_eq!(decode_news(&sent), Some(news));
        assert!(decode(&sent).is_none() && !is_heard(&sent) && is_heard(&heard()));
        assert_eq!(decode_news(&sent.with_payload(&b"more"[..])), None);
    }
}
