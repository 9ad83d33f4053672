//! What travels between the servers of a pool, and who may send it: the one place where that is judged.
//!
//! Data servers call the metadata server; certificates say who is at the other end. Everything goes by the control lane, so that it
//! arrives in the order in which it was sent, or not at all.
//!
//! What must never enter: what the messages do.

use bytes::Bytes;
use peer::{Message, Refusal, Sender, Settings, TurnedAway};
use pool::{Holding, ToDataServer, ToHome};
use vfs::ReplicaSlot;

use crate::pools::PoolPlace;

/// The only version there is of what servers of a pool say to each other.
const VERSION: u32 = 1;

const TO_HOME: u32 = 1;
const TO_DATA_SERVER: u32 = 2;
const HOLDING: u32 = 3;

/// How servers of a pool talk. Bytes of files go another way, so windows are small.
pub(super) fn settings() -> Settings {
    Settings {
        versions: VERSION..=VERSION,
        data_lanes: 1,
        data_window_bytes: 1 << 20,
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

/// Whether a server may talk to the metadata server at all, by the newest list of members.
pub(super) fn meet_at_metadata_server(place: &PoolPlace, peer: Sender) -> Result<(), TurnedAway> {
    match place.member(peer.slot) {
        Some(member) if !member.revoked && peer.slot != place.keeper => Ok(()),
        Some(_) => Err(turned_away(
            "this data server was removed from the pool; to return, it joins anew, with an empty data directory",
        )),
        None => Err(turned_away(
            "the metadata server knows no such data server; if its data directory was put back from a backup that is older than this \
             server, join anew, with an empty data directory",
        )),
    }
}

/// Whether a server may talk to this data server at all.
pub(super) fn meet_at_data_server(place: &PoolPlace, peer: Sender) -> Result<(), TurnedAway> {
    match peer.slot == place.keeper {
        true => Ok(()),
        false => Err(turned_away(
            "data servers talk to the metadata server alone",
        )),
    }
}

pub(super) fn admit_at_metadata_server(
    place: &PoolPlace,
    from: ReplicaSlot,
    kind: u32,
) -> Result<(), Refusal> {
    match kind {
        TO_HOME | HOLDING if from != place.keeper => Ok(()),
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

fn refusal() -> Refusal {
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
    }
}
