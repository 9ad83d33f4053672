//! Messages between the servers of a pool, and which server may send them. Only this module decides that.
//!
//! The other servers connect to the first metadata server, and certificates identify both ends. Messages of data servers use the control
//! lane, so they arrive in order or not at all. Questions about names use the data lane, in any order.
//!
//! What must never enter: what the messages do.

mod passed;

pub(super) use passed::{
    HeardPool, OfDataServer, Survey, Surveyed, ToldPool, ToldServer, decode_for_data_server,
    decode_for_home, decode_heard_pool, decode_homes, decode_of_data_server, decode_of_home,
    decode_pool, decode_survey, decode_surveyed, encode_for_data_server, encode_for_home,
    encode_heard_pool, encode_homes, encode_listing_of, encode_of_data_server, encode_of_home,
    encode_pool, encode_survey, encode_surveyed,
};

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use bytes::Bytes;
use metadata_server::{Asked, LayoutEvent, News, Reply};
use peer::{Message, Refusal, Sender, Settings, TurnedAway};
use pool::{Holding, HomeNumber, Listing, ToDataServer, ToHome};
use vfs::ReplicaSlot;

use super::asking;
use crate::pools::{PoolPlace, PoolRole};

/// The only supported version of the protocol between servers of a pool. Version 2 added changing keys, version 3 lists of contents,
/// version 4 data servers with several homes.
const VERSION: u32 = 4;

/// The kind of a message. A number is never reused for another meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    /// [`ToHome`], of a data server. Control lane.
    ToHome = 1,
    /// [`ToDataServer`], of the first metadata server. Control lane.
    ToDataServer = 2,
    /// [`Holding`], of a data server. Control lane.
    Holding = 3,
    /// [`Asked`]: a request of a metadata server. Data lane.
    Question = 4,
    /// [`Reply`], the answer to it.
    Answer = 5,
    /// [`News`]: a request of a metadata server. Control lane.
    News = 6,
    /// The answer to it, without a body: the copies are dropped.
    Heard = 7,
    /// [`LayoutEvent`], of a metadata server. Control lane.
    LayoutEvent = 8,
    /// [`Listing`], of a data server: some of its contents. Control lane.
    Listing = 9,
    /// [`ToHome`], of a data server, for a joined home. Control lane.
    ForHome = 10,
    /// The same, as the first metadata server passes it on. Control lane.
    OfDataServer = 11,
    /// [`ToDataServer`], of a joined home. Control lane.
    ForDataServer = 12,
    /// The same, as the first metadata server passes it on. Control lane.
    OfHome = 13,
    /// The part of a [`Listing`] that concerns a joined home, of the first metadata server. Control lane.
    ListingOf = 14,
    /// The joined homes, of the first metadata server to a data server. Control lane.
    Homes = 15,
    /// [`ToldPool`]: a request of the first metadata server to a joined one. Data lane.
    Pool = 16,
    /// [`HeardPool`], the answer to it.
    HeardPool = 17,
    /// [`Survey`]: a request of the first metadata server to a joined home. Data lane.
    Survey = 18,
    /// [`Surveyed`], the answer to it.
    Surveyed = 19,
}

impl Kind {
    const ALL: [Kind; 19] = [
        Kind::ToHome,
        Kind::ToDataServer,
        Kind::Holding,
        Kind::Question,
        Kind::Answer,
        Kind::News,
        Kind::Heard,
        Kind::LayoutEvent,
        Kind::Listing,
        Kind::ForHome,
        Kind::OfDataServer,
        Kind::ForDataServer,
        Kind::OfHome,
        Kind::ListingOf,
        Kind::Homes,
        Kind::Pool,
        Kind::HeardPool,
        Kind::Survey,
        Kind::Surveyed,
    ];

    fn message(self, body: impl Into<Bytes>) -> Message {
        Message::new(self as u32, body.into())
    }

    fn is_of(self, message: &Message) -> bool {
        Kind::try_from(message.kind) == Ok(self)
    }
}

impl TryFrom<u32> for Kind {
    type Error = Refusal;

    fn try_from(number: u32) -> Result<Kind, Refusal> {
        let known = Kind::ALL.into_iter().find(|kind| *kind as u32 == number);
        known.ok_or_else(refusal)
    }
}

/// Settings of the connections in a pool. File bytes do not pass here, except those that clients of a joined metadata server read and
/// write: their limit is that of its questions under way.
pub(super) fn settings() -> Settings {
    Settings {
        versions: VERSION..=VERSION,
        data_lanes: 1,
        data_window_bytes: 16 << 20,
        requests_served_max: asking::SERVED_MAX,
        // Clients wait for a server that comes back.
        backoff_max: Duration::from_secs(1),
        metadata_window_bytes: 1 << 20,
        compression: false,
        ..Settings::default()
    }
}

/// A message from a data server to the metadata server.
#[derive(Debug, PartialEq)]
pub(super) enum FromDataServer {
    /// A message between their cores.
    ToHome(ToHome),
    /// How much it stores.
    Holding(Holding),
    /// Some of its contents.
    Listing(Listing),
}

impl FromDataServer {
    pub(super) fn encode(&self) -> Message {
        match self {
            FromDataServer::ToHome(message) => Kind::ToHome.message(message.encode()),
            FromDataServer::Holding(holding) => Kind::Holding.message(holding.encode()),
            FromDataServer::Listing(listing) => Kind::Listing.message(listing.encode()),
        }
    }

    /// Decodes a message that [`admit_at_metadata_server`] let through. `None` if it is malformed.
    pub(super) fn decode(message: &Message) -> Option<FromDataServer> {
        let body = &message.body;
        let read = match Kind::try_from(message.kind).ok()? {
            Kind::ToHome => ToHome::decode(body).map(FromDataServer::ToHome),
            Kind::Holding => Holding::decode(body).map(FromDataServer::Holding),
            Kind::Listing => Listing::decode(body).map(FromDataServer::Listing),
            _ => return None,
        };
        read.ok().filter(|_| message.payload.is_empty())
    }
}

/// A message from the metadata server to a data server.
pub(super) fn encode(message: &ToDataServer) -> Message {
    Kind::ToDataServer.message(message.encode())
}

/// Decodes a message that [`admit_at_data_server`] let through. `None` if it is malformed, or about contents of one of these other homes.
pub(super) fn decode(
    homes: &BTreeSet<HomeNumber>,
    message: &Message,
) -> Option<(HomeNumber, ToDataServer)> {
    let is_one = Kind::ToDataServer.is_of(message) && message.payload.is_empty();
    let read = is_one.then(|| ToDataServer::decode(&message.body).ok());
    let read = read.flatten()?;
    let lives_elsewhere = |home: &HomeNumber| passed::concerns(*home, &read);
    match homes.iter().any(lives_elsewhere) {
        true => None,
        false => Some((HomeNumber::FIRST, read)),
    }
}

/// A question of a metadata server. It may be long.
pub(super) fn encode_question(asked: &Asked) -> Message {
    Kind::Question
        .message(Bytes::new())
        .with_payload(asked.encode())
}

/// Decodes an admitted question. `None` if it is malformed.
pub(super) fn decode_question(message: &Message) -> Option<Asked> {
    let is_one = Kind::Question.is_of(message) && message.body.is_empty();
    is_one.then(|| Asked::decode(&message.payload)).flatten()
}

/// The answer to a question. It may be long.
pub(super) fn encode_reply(reply: &Reply) -> Message {
    Kind::Answer
        .message(Bytes::new())
        .with_payload(reply.encode())
}

/// Decodes the answer to a question. `None` if it is malformed.
pub(super) fn decode_reply(message: &Message) -> Option<Reply> {
    let is_one = Kind::Answer.is_of(message) && message.body.is_empty();
    is_one.then(|| Reply::decode(&message.payload)).flatten()
}

/// The copies of another metadata server that are invalid now.
pub(super) fn encode_news(news: &News) -> Message {
    Kind::News.message(news.encode())
}

/// Decodes admitted news. `None` if they are malformed.
pub(super) fn decode_news(message: &Message) -> Option<News> {
    let is_some = Kind::News.is_of(message) && message.payload.is_empty();
    is_some.then(|| News::decode(&message.body)).flatten()
}

/// An event of a layout of another metadata server's client, or of a device.
pub(super) fn encode_layout_event(event: &LayoutEvent) -> Message {
    Kind::LayoutEvent.message(event.encode())
}

/// Decodes an admitted event. `None` if it is malformed.
pub(super) fn decode_layout_event(message: &Message) -> Option<LayoutEvent> {
    let is_one = Kind::LayoutEvent.is_of(message) && message.payload.is_empty();
    is_one.then(|| LayoutEvent::decode(&message.body)).flatten()
}

/// The answer to news.
pub(super) fn heard() -> Message {
    Kind::Heard.message(Bytes::new())
}

/// Whether news were acknowledged.
pub(super) fn is_heard(message: &Message) -> bool {
    *message == heard()
}

/// Whether a server may connect to the first metadata server, by the newest list of members, and in which role.
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

/// Whether a server may connect to this joined server.
pub(super) fn meet_at_joined(place: &PoolPlace, peer: Sender) -> Result<(), TurnedAway> {
    match peer.slot == place.keeper {
        true => Ok(()),
        false => Err(turned_away(
            "servers that have joined a pool talk to its first metadata server alone",
        )),
    }
}

pub(super) fn admit_at_metadata_server(from: Option<PoolRole>, number: u32) -> Result<(), Refusal> {
    match (Kind::try_from(number)?, from) {
        (
            Kind::ToHome | Kind::Holding | Kind::Listing | Kind::ForHome,
            Some(PoolRole::DataServer),
        )
        | (
            Kind::Question | Kind::News | Kind::LayoutEvent | Kind::ForDataServer,
            Some(PoolRole::MetadataServer),
        ) => Ok(()),
        _ => Err(refusal()),
    }
}

pub(super) fn admit_at_joined(
    place: &PoolPlace,
    from: ReplicaSlot,
    number: u32,
) -> Result<(), Refusal> {
    match Kind::try_from(number)? {
        Kind::News
        | Kind::LayoutEvent
        | Kind::Question
        | Kind::OfDataServer
        | Kind::ListingOf
        | Kind::Pool
        | Kind::Survey
            if from == place.keeper =>
        {
            Ok(())
        }
        _ => Err(refusal()),
    }
}

pub(super) fn admit_at_data_server(
    place: &PoolPlace,
    from: ReplicaSlot,
    number: u32,
) -> Result<(), Refusal> {
    match Kind::try_from(number)? {
        Kind::ToDataServer | Kind::OfHome | Kind::Homes if from == place.keeper => Ok(()),
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

/// Decodes arbitrary bytes as a message of every kind. They must be refused or understood, and what is understood can be sent.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    for kind in Kind::ALL {
        let short = kind.message(bytes.clone());
        let long = kind.message(Bytes::new()).with_payload(bytes.clone());
        for message in [short, long] {
            reads_as_sent(&message, FromDataServer::decode, FromDataServer::encode);
            let decode = |message: &Message| Some(decode(&BTreeSet::new(), message)?.1);
            reads_as_sent(&message, decode, encode);
            reads_as_sent(&message, decode_question, encode_question);
            reads_as_sent(&message, decode_reply, encode_reply);
            reads_as_sent(&message, decode_news, encode_news);
            reads_as_sent(&message, decode_layout_event, encode_layout_event);
            passed::decode_as_anything(&message);
        }
    }
}

fn reads_as_sent<T: PartialEq + Debug>(
    message: &Message,
    decode: impl Fn(&Message) -> Option<T>,
    encode: impl Fn(&T) -> Message,
) {
    if let Some(read) = decode(message) {
        assert_eq!(decode(&encode(&read)), Some(read));
    }
}

#[cfg(test)]
mod tests {
    use pool::{
        Act, ContentsId, Generation, Intent, IntentNumber, KeyNumber, PlacementNumber, Report,
    };
    use vfs::ObjectId;

    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent_and_others_are_none() {
        let contents = ContentsId {
            object: ObjectId::from_u64(7),
            placement: PlacementNumber(1),
        };
        let intent = Intent {
            number: IntentNumber(1),
            contents,
            generation: Generation(2),
            act: Act::Remove,
        };
        let take = ToDataServer::Take(intent, KeyNumber(3));
        let none = BTreeSet::new();
        let arrived = decode(&none, &encode(&take));
        assert_eq!(arrived, Some((HomeNumber::FIRST, take.clone())));
        let owner = BTreeSet::from([HomeNumber(0)]);
        assert_eq!(decode(&owner, &encode(&take)), None, "it lives elsewhere");
        let looked = ToHome::Looked {
            question: 3,
            report: Report::default(),
        };
        let sent = FromDataServer::ToHome(looked).encode();
        let FromDataServer::ToHome(arrived) = FromDataServer::decode(&sent).unwrap() else {
            panic!("another message");
        };
        assert_eq!(arrived, looked);
        // The kinds distinguish the two directions, and extra payload is refused.
        assert!(decode(&none, &sent).is_none());
        assert!(FromDataServer::decode(&encode(&take)).is_none());
        assert!(FromDataServer::decode(&sent.with_payload(&b"more"[..])).is_none());
        let news = News {
            run: 3,
            told: vec![(1, ObjectId::ROOT)],
        };
        let sent = encode_news(&news);
        assert_eq!(decode_news(&sent), Some(news));
        assert!(decode(&none, &sent).is_none() && !is_heard(&sent) && is_heard(&heard()));
        assert_eq!(decode_news(&sent.with_payload(&b"more"[..])), None);
        for event in [
            LayoutEvent::Recall(1 << 47),
            LayoutEvent::DeviceGone([7; 16]),
        ] {
            let sent = encode_layout_event(&event);
            assert_eq!(decode_layout_event(&sent), Some(event));
            assert!(decode_news(&sent).is_none() && FromDataServer::decode(&sent).is_none());
            assert_eq!(decode_layout_event(&sent.with_payload(&b"more"[..])), None);
        }
    }
}
