//! What the first metadata server passes on between data servers and joined homes, and its own reports and questions to these homes.
//!
//! A home may speak only of its own contents. The first metadata server and data servers ignore a home's messages about other contents.
//!
//! What must never enter: what the messages do.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use bytes::Bytes;
use peer::Message;
use pool::{DataServerNumber, Holding, HomeNumber, Listing, ToDataServer, ToHome};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Kind, reads_as_sent};

/// A pool has at most this many homes.
const HOMES_MAX: usize = 65;

/// What a joined home receives from a data server.
#[derive(Debug, PartialEq)]
pub(in crate::serve::pool) enum OfDataServer {
    /// A message between their cores.
    ToHome(ToHome),
    /// Contents of the home that the data server has.
    Listing(Listing),
}

/// The state of the pool, as reported to joined metadata servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::serve::pool) struct ToldPool {
    /// Grows with each report of a run of the first metadata server.
    pub(in crate::serve::pool) number: u64,
    /// The parts of its book that concern joined servers.
    pub(in crate::serve::pool) book: String,
    /// Data servers, with what is known of each.
    pub(in crate::serve::pool) servers: Vec<ToldServer>,
    /// Data servers that are no members any more.
    pub(in crate::serve::pool) removed: BTreeSet<u16>,
}

/// What is known of a data server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::serve::pool) struct ToldServer {
    pub(in crate::serve::pool) number: u16,
    /// Its NFS address.
    pub(in crate::serve::pool) address: Option<SocketAddr>,
    /// Its last report.
    pub(in crate::serve::pool) holding: Option<Holding>,
}

/// The answer: no file is being made under an earlier book any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::serve::pool) struct HeardPool {
    /// Whether files that live there are striped.
    pub(in crate::serve::pool) stripes: bool,
    /// None of these files must still be moved under the book.
    pub(in crate::serve::pool) moved: bool,
    /// Data servers that it refuses because their contents are not the expected ones.
    pub(in crate::serve::pool) refused: BTreeSet<u16>,
}

/// A question about files that live at a home, or a request to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::serve::pool) enum Survey {
    /// How many must be moved.
    ToMove,
    /// Which of them lie on a data server, and the state of that server.
    Server(u16),
    /// Where this file lies.
    File(u64),
    /// An administrator confirms that a data server has the right contents.
    Readmit(u16),
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::serve::pool) struct Surveyed {
    /// Names of files that are striped over it.
    pub(in crate::serve::pool) files: u64,
    /// The names among these of files that had a part there.
    pub(in crate::serve::pool) had_part: u64,
    /// It may have a lease of this home.
    pub(in crate::serve::pool) may_serve: bool,
    /// Changes that wait for it.
    pub(in crate::serve::pool) owes: u64,
    /// The number of files to move under the book, and of their bytes.
    pub(in crate::serve::pool) to_move: (u64, u64),
    /// The placement in the row of the file. `None` if the file lies at its home.
    pub(in crate::serve::pool) placement: Option<Vec<u8>>,
    /// The data server was refused, and is accepted now.
    pub(in crate::serve::pool) readmitted: bool,
}

fn numbered(kind: Kind, number: u16, inner: Vec<u8>) -> Message {
    kind.message([&number.to_be_bytes()[..], &inner].concat())
}

/// The number and the rest of a message of this kind.
fn parts(kind: Kind, message: &Message) -> Option<(u16, Bytes)> {
    if !kind.is_of(message) || !message.payload.is_empty() || message.body.len() < 2 {
        return None;
    }
    let number = u16::from_be_bytes([message.body[0], message.body[1]]);
    Some((number, message.body.slice(2..)))
}

/// Whether a message is about contents that live at this joined home.
pub(super) fn concerns(home: HomeNumber, message: &ToDataServer) -> bool {
    let about = message.contents();
    about.is_some_and(|contents| contents.object.slot().0 == home.0)
}

/// Whether a home may send this.
fn is_of_home(home: HomeNumber, message: &ToDataServer) -> bool {
    let about = message.contents();
    about.is_none_or(|contents| home.may_speak_of(contents.object))
}

fn to_data_server(kind: Kind, message: &Message) -> Option<(u16, ToDataServer)> {
    let (number, rest) = parts(kind, message)?;
    Some((number, ToDataServer::decode(&rest).ok()?))
}

/// A message from a data server to a joined home.
pub(in crate::serve::pool) fn encode_for_home(home: HomeNumber, message: ToHome) -> Message {
    numbered(Kind::ForHome, home.0, message.encode())
}

pub(in crate::serve::pool) fn decode_for_home(message: &Message) -> Option<(HomeNumber, ToHome)> {
    let (home, rest) = parts(Kind::ForHome, message)?;
    Some((HomeNumber(home), ToHome::decode(&rest).ok()?))
}

/// The same, as passed on to the home.
pub(in crate::serve::pool) fn encode_of_data_server(
    server: DataServerNumber,
    message: ToHome,
) -> Message {
    numbered(Kind::OfDataServer, server.0, message.encode())
}

/// The part of a data server's list that concerns a home.
pub(in crate::serve::pool) fn encode_listing_of(
    server: DataServerNumber,
    listing: &Listing,
) -> Message {
    numbered(Kind::ListingOf, server.0, listing.encode())
}

pub(in crate::serve::pool) fn decode_of_data_server(
    message: &Message,
) -> Option<(DataServerNumber, OfDataServer)> {
    if let Some((server, rest)) = parts(Kind::ListingOf, message) {
        let listing = OfDataServer::Listing(Listing::decode(&rest).ok()?);
        return Some((DataServerNumber(server), listing));
    }
    let (server, rest) = parts(Kind::OfDataServer, message)?;
    let message = OfDataServer::ToHome(ToHome::decode(&rest).ok()?);
    Some((DataServerNumber(server), message))
}

/// A message from a joined home to a data server.
pub(in crate::serve::pool) fn encode_for_data_server(
    server: DataServerNumber,
    message: &ToDataServer,
) -> Message {
    numbered(Kind::ForDataServer, server.0, message.encode())
}

/// A message from this home. `None` if it is about contents of other homes.
pub(in crate::serve::pool) fn decode_for_data_server(
    home: HomeNumber,
    message: &Message,
) -> Option<(DataServerNumber, ToDataServer)> {
    let (server, message) = to_data_server(Kind::ForDataServer, message)?;
    is_of_home(home, &message).then_some((DataServerNumber(server), message))
}

/// The same, as passed on to the data server.
pub(in crate::serve::pool) fn encode_of_home(home: HomeNumber, message: &ToDataServer) -> Message {
    numbered(Kind::OfHome, home.0, message.encode())
}

/// A message from one of these homes. `None` if it is about contents of other homes.
pub(in crate::serve::pool) fn decode_of_home(
    homes: &BTreeSet<HomeNumber>,
    message: &Message,
) -> Option<(HomeNumber, ToDataServer)> {
    let (home, message) = to_data_server(Kind::OfHome, message)?;
    let home = HomeNumber(home);
    (homes.contains(&home) && is_of_home(home, &message)).then_some((home, message))
}

/// The homes besides the first one.
pub(in crate::serve::pool) fn encode_homes(homes: &BTreeSet<HomeNumber>) -> Message {
    let numbers = homes.iter().flat_map(|home| home.0.to_be_bytes());
    Kind::Homes.message(numbers.collect::<Vec<u8>>())
}

pub(in crate::serve::pool) fn decode_homes(message: &Message) -> Option<BTreeSet<HomeNumber>> {
    let is_one = Kind::Homes.is_of(message) && message.payload.is_empty();
    let (numbers, rest) = message.body.as_chunks::<2>();
    let is_whole = rest.is_empty() && numbers.len() <= HOMES_MAX;
    let homes = || {
        numbers
            .iter()
            .map(|number| HomeNumber(u16::from_be_bytes(*number)))
    };
    (is_one && is_whole).then(|| homes().collect())
}

/// Messages that may be long: JSON in the payload.
fn long<T: Serialize>(kind: Kind, what: &T) -> Message {
    // All types sent this way have string keys and can be encoded.
    let text = serde_json::to_vec(what).unwrap_or_default();
    kind.message(Bytes::new()).with_payload(text)
}

fn read_long<T: DeserializeOwned>(kind: Kind, message: &Message) -> Option<T> {
    let is_one = kind.is_of(message) && message.body.is_empty();
    is_one
        .then(|| serde_json::from_slice(&message.payload).ok())
        .flatten()
}

pub(in crate::serve::pool) fn encode_pool(told: &ToldPool) -> Message {
    long(Kind::Pool, told)
}

pub(in crate::serve::pool) fn decode_pool(message: &Message) -> Option<ToldPool> {
    read_long(Kind::Pool, message)
}

pub(in crate::serve::pool) fn encode_heard_pool(heard: &HeardPool) -> Message {
    long(Kind::HeardPool, heard)
}

pub(in crate::serve::pool) fn decode_heard_pool(message: &Message) -> Option<HeardPool> {
    read_long(Kind::HeardPool, message)
}

pub(in crate::serve::pool) fn encode_survey(survey: &Survey) -> Message {
    long(Kind::Survey, survey)
}

pub(in crate::serve::pool) fn decode_survey(message: &Message) -> Option<Survey> {
    read_long(Kind::Survey, message)
}

pub(in crate::serve::pool) fn encode_surveyed(surveyed: &Surveyed) -> Message {
    long(Kind::Surveyed, surveyed)
}

pub(in crate::serve::pool) fn decode_surveyed(message: &Message) -> Option<Surveyed> {
    read_long(Kind::Surveyed, message)
}

/// Decodes a message as each of these kinds.
pub(super) fn decode_as_anything(message: &Message) {
    reads_as_sent(message, decode_for_home, |(home, said)| {
        encode_for_home(*home, *said)
    });
    reads_as_sent(
        message,
        decode_of_data_server,
        |(server, said)| match said {
            OfDataServer::ToHome(said) => encode_of_data_server(*server, *said),
            OfDataServer::Listing(listing) => encode_listing_of(*server, listing),
        },
    );
    let home = HomeNumber(0);
    let decode = |message: &Message| decode_for_data_server(home, message);
    reads_as_sent(message, decode, |(server, said)| {
        encode_for_data_server(*server, said)
    });
    let homes = BTreeSet::from([home]);
    let decode = |message: &Message| decode_of_home(&homes, message);
    reads_as_sent(message, decode, |(home, said)| encode_of_home(*home, said));
    reads_as_sent(message, decode_homes, encode_homes);
    reads_as_sent(message, decode_pool, encode_pool);
    reads_as_sent(message, decode_heard_pool, encode_heard_pool);
    reads_as_sent(message, decode_survey, encode_survey);
    reads_as_sent(message, decode_surveyed, encode_surveyed);
}

#[cfg(test)]
mod tests {
    use pool::{
        Act, ContentsId, Generation, Intent, IntentNumber, IssueNumber, KeyNumber, PlacementNumber,
    };
    use vfs::ObjectId;

    use super::*;

    fn contents_of(slot: u16) -> ContentsId {
        ContentsId {
            object: ObjectId::from_u64((u64::from(slot) << 48) | 7),
            placement: PlacementNumber(1),
        }
    }

    #[test]
    fn a_home_that_speaks_of_contents_of_another_one_is_not_heard() {
        let (own, other) = (HomeNumber(5), HomeNumber(6));
        let server = DataServerNumber(3);
        let intent = Intent {
            number: IntentNumber(1),
            contents: contents_of(5),
            generation: Generation(2),
            act: Act::Remove,
        };
        let look = ToDataServer::Look {
            issue: IssueNumber(1),
            question: 2,
            contents: contents_of(5),
            stable: false,
        };
        let homes = BTreeSet::from([own, other]);
        for said in [ToDataServer::Take(intent, KeyNumber(1)), look] {
            let sent = encode_for_data_server(server, &said);
            assert_eq!(decode_for_data_server(other, &sent), None);
            let arrived = decode_for_data_server(own, &sent);
            assert_eq!(arrived, Some((server, said.clone())));
            assert_eq!(decode_of_home(&homes, &encode_of_home(other, &said)), None);
            let sent = encode_of_home(own, &said);
            assert_eq!(decode_of_home(&BTreeSet::from([other]), &sent), None);
            assert_eq!(decode_of_home(&homes, &sent), Some((own, said)));
        }
    }

    #[test]
    fn homes_are_told_and_too_many_are_refused() {
        let homes: BTreeSet<_> = (2..=66).map(HomeNumber).collect();
        assert_eq!(decode_homes(&encode_homes(&homes)), Some(homes));
        let too_many = (2..=67).map(HomeNumber).collect();
        assert_eq!(decode_homes(&encode_homes(&too_many)), None);
    }
}
