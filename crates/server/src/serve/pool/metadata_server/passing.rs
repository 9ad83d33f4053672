//! Messages between data servers and joined homes. Both connect only to the first metadata server, which passes their messages on, after
//! all earlier ones or not at all. Lost messages are repeated.
//!
//! What must never enter: what the messages mean.

use std::collections::{BTreeMap, BTreeSet};

use peer::{Lane, Message};
use pool::{DataServerNumber, HomeNumber, Listing};
use vfs::ReplicaSlot;

use super::super::connection;
use super::hearing::Known;
use crate::pools::PoolRole;

impl Known {
    /// Joined metadata servers that were not removed. `None` if the members cannot be read.
    fn joined(&self) -> Option<BTreeSet<ReplicaSlot>> {
        let members = self.place.directory.members().ok()?;
        let joined = super::metadata_servers(&self.place, &members);
        Some(joined.into_iter().collect())
    }

    fn pass(&self, to: ReplicaSlot, message: Message) {
        if let Some(session) = self.homes.session(to) {
            let _ = session.try_send(Lane::Control, message);
        }
    }

    /// Passes on a message for another server. Returns whether it was one.
    pub(super) fn pass_on(&self, from: ReplicaSlot, message: &Message) -> bool {
        let server = DataServerNumber(from.0);
        if let Some((home, said)) = connection::decode_for_home(message) {
            let to = ReplicaSlot(home.0);
            if self.is_present(to, PoolRole::MetadataServer) {
                self.pass(to, connection::encode_of_data_server(server, said));
            }
            return true;
        }
        let home = HomeNumber(from.0);
        if let Some((server, said)) = connection::decode_for_data_server(home, message) {
            let to = ReplicaSlot(server.0);
            if self.is_present(to, PoolRole::DataServer) {
                self.pass(to, connection::encode_of_home(home, &said));
            }
            return true;
        }
        false
    }

    /// Passes on to each home its part of a data server's list. Returns the rest. `None` if the homes are unknown.
    pub(super) fn pass_listing(&self, from: ReplicaSlot, listing: Listing) -> Option<Listing> {
        let (own, others) = by_home(listing, &self.joined()?);
        for (home, listing) in others {
            let server = DataServerNumber(from.0);
            self.pass(home, connection::encode_listing_of(server, &listing));
        }
        Some(own)
    }
}

/// Splits a list by home: the first server's part, and the parts of these homes. Contents of a former member count as the first server's.
fn by_home(
    listing: Listing,
    joined: &BTreeSet<ReplicaSlot>,
) -> (Listing, BTreeMap<ReplicaSlot, Listing>) {
    let (mut own, mut others) = (Listing::default(), BTreeMap::<_, Listing>::new());
    for (contents, generation) in listing.0 {
        let home = contents.object.slot();
        let of = match joined.contains(&home) {
            true => others.entry(home).or_default(),
            false => &mut own,
        };
        of.0.push((contents, generation));
    }
    (own, others)
}

#[cfg(test)]
mod tests {
    use pool::{ContentsId, Generation, PlacementNumber};
    use vfs::ObjectId;

    use super::*;

    #[test]
    fn the_first_server_looks_at_no_contents_of_a_home_that_has_joined() {
        let entry = |slot: u64| {
            let contents = ContentsId {
                object: ObjectId::from_u64((slot << 48) | 9),
                placement: PlacementNumber(1),
            };
            (contents, Generation::FIRST)
        };
        let listing = Listing([1, 5, 6, 5, 1].map(entry).to_vec());
        let joined = BTreeSet::from([5, 7].map(ReplicaSlot));
        let (own, others) = by_home(listing, &joined);
        // Server 6 is no member any more.
        assert_eq!(own, Listing([1, 6, 1].map(entry).to_vec()));
        let of_fifth = Listing([5, 5].map(entry).to_vec());
        assert_eq!(others, BTreeMap::from([(ReplicaSlot(5), of_fifth)]));
    }
}
