//! The status of the pool, for display.
//!
//! What must never enter: decisions about it. Texts may recommend actions.

use peer::set::Member;
use pool::home::{ServerView, Stranger};
use vfs::ReplicaSlot;

use super::{MetadataServer, data_servers, number, present};
use crate::pools::PoolRole;
use crate::status::{PoolServerStatus, PoolStatus};

impl MetadataServer {
    /// The status of the pool.
    pub(in crate::serve::pool) fn status(&self) -> PoolStatus {
        let members = self.place.directory.members().unwrap_or_default();
        let views = self.striped.servers();
        let (in_use, draining) = {
            let keeping = self.keeping();
            (keeping.book.in_use(), keeping.book.draining.clone())
        };
        let servers = data_servers(&self.place, &members).map(|member| {
            let mut views = views.iter();
            let view = views.find(|view| view.number == number(member));
            PoolServerStatus {
                new_files: in_use.contains(&number(member)),
                draining: draining.contains(&number(member)),
                ..self.status_of(member, view)
            }
        });
        let others = present(&self.place, &members, PoolRole::MetadataServer);
        let others = others.map(|member| self.status_of(member, None));
        PoolStatus {
            pool: self.place.pool.to_string(),
            role: "metadata server".to_owned(),
            joined: false,
            number: self.place.slot.0,
            stripe_unit_bytes: self.place.stripe_unit.bytes(),
            servers: others.chain(servers).collect(),
            holding: None,
            moving: self.moving_status(),
            giving_up: self.giving_up(),
            copies: None,
        }
    }

    fn status_of(&self, member: &Member, view: Option<&ServerView>) -> PoolServerStatus {
        let slot = ReplicaSlot(member.slot);
        let connected = self.is_connected(slot);
        let met = self.endpoint.peer(slot).map(|peer| peer.status());
        let stranger = view.and_then(|view| view.stranger);
        // A metadata server serves names while it can ask this server.
        let shows_names = member.metadata_server && connected;
        PoolServerStatus {
            number: member.slot,
            name: member.name.clone(),
            role: match member.metadata_server {
                true => "metadata server".to_owned(),
                false => "data server".to_owned(),
            },
            addresses: member.addresses.clone(),
            connected,
            trouble: match (stranger, self.refused_at(number(member))) {
                (Some(stranger), _) => Some(told(member.slot, stranger)),
                (None, Some(home)) if connected => Some(told_by(home, member.slot)),
                (None, _) => met.and_then(|met| met.last_error).filter(|_| !connected),
            },
            serves: shows_names || view.is_some_and(|view| view.serves),
            new_files: false,
            draining: false,
            home: self.keeping().book.homes.contains(&slot),
            waits: view.map_or(0, |view| view.owes as u64),
            holding: self.holding(slot),
        }
    }
}

/// Why a connected data server does not serve.
pub(super) fn told(number: u16, stranger: Stranger) -> String {
    match stranger {
        Stranger::OtherContents => {
            "it has other contents than before, such as an empty disk; nothing of it is used. Mount the disk that it had, or put its data directory \
             back"
                .to_owned()
        }
        Stranger::OlderCopy => {
            "its contents are an older copy of what it had, or two servers run with copies of one data directory; nothing of it is used, since \
             what was written later would be missing. Put the right data directory back"
                .to_owned()
        }
        Stranger::Doubted => format!(
            "an older copy of its contents was seen before; nothing of it is used. If these are the right ones, and no other server runs with a \
             copy of them, `meridian pool readmit {number}`"
        ),
        Stranger::ContentsOf(other) => format!(
            "its contents are those of data server {}; nothing of it is used. Let it join anew, with an empty data directory",
            other.0
        ),
    }
}

/// The same for a report of a joined home.
fn told_by(home: ReplicaSlot, number: u16) -> String {
    format!(
        "metadata server {} has known other contents of it, or newer ones, and uses nothing of it. Put the right data directory back; if these \
         are the right ones, and no other server runs with a copy of them, `meridian pool readmit {number}`",
        home.0
    )
}
