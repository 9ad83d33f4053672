//! A message of every kind that changes nothing.

use bytes::Bytes;
use control::{ControlName, Envelope, Epoch};
use peer::Message;
use peer::set::SetDirectory;
use vfs::{ObjectId, ReplicaSlot};

use super::LATER;
use crate::state::lineage::Mac;
use crate::state::rejoins::{Remainder, Stage};
use crate::state::wire::{
    self, Applied, BasePage, CaughtUp, Completed, Greeting, HeldOpen, Incomplete, Joined, Kind,
    LeaseGrant, LeaseRequest, PieceDone, PieceHead, Records, Relayed, Wanted,
};

/// A slot that no member has.
const NOBODY: u16 = 99;

/// A message of a kind that changes nothing, or a request that makes no sense.
pub(super) fn harmless(kind: Kind, files: &SetDirectory) -> Message {
    let file = ObjectId::from_u64(u64::MAX);
    match kind {
        Kind::Control => wire::body(kind, &nothing_is_disowned()),
        Kind::Greeting => wire::body(kind, &greeting(files)),
        Kind::Records => wire::payload(kind, &nothing_through(0)),
        Kind::Applied => {
            let (position, held_open) = (0, 0);
            wire::body(
                kind,
                &Applied {
                    position,
                    held_open,
                },
            )
        }
        Kind::Piece => wire::body(kind, &nothing_of(file)),
        Kind::PieceDone => {
            let (id, failed, no_space, lacking) = (u64::MAX, false, false, 0);
            wire::body(
                kind,
                &PieceDone {
                    id,
                    file,
                    failed,
                    no_space,
                    lacking,
                    apart: false,
                },
            )
        }
        Kind::Members => wire::body(kind, &files.member_list().unwrap()),
        Kind::Base => wire::payload(kind, &BasePage::Complete),
        Kind::LeaseRequest => wire::body(kind, &LeaseRequest::default()),
        Kind::LeaseGrant => wire::body(
            kind,
            &LeaseGrant {
                incarnation: 0,
                asked: 0,
                given: false,
                time_of_day_us: 0,
                shipped: None,
            },
        ),
        Kind::Joined => {
            let (epoch, through) = (0, 0);
            wire::body(kind, &Joined { epoch, through })
        }
        Kind::CaughtUp => wire::body(kind, &CaughtUp { epoch: 0 }),
        Kind::Relayed => {
            let of = NOBODY;
            let (records, signature, certificate) = Default::default();
            wire::payload(
                kind,
                &Relayed {
                    of,
                    records,
                    signature,
                    certificate,
                },
            )
        }
        Kind::Incomplete => wire::payload(
            kind,
            &Incomplete {
                of: NOBODY,
                applied: 0,
                epoch: 0,
                closed: false,
                first: true,
                files: Vec::new(),
                last: true,
            },
        ),
        Kind::Completed | Kind::Noted => wire::payload(kind, &Completed::default()),
        Kind::Wanted => {
            let wanted = Wanted {
                copy: false,
                applied: 0,
                files: Vec::new(),
                first: true,
                last: true,
                named: 0,
                turn: 0,
                places: Vec::new(),
            };
            wire::body(kind, &wanted)
        }
        Kind::Remainder => wire::body(kind, &nothing_remains()),
        Kind::HeldOpen => wire::payload(kind, &HeldOpen::default()),
        Kind::TooFar
        | Kind::Forward
        | Kind::View
        | Kind::Scrub
        | Kind::Clients
        | Kind::Authority => Message::new(kind.number(), ""),
    }
}

fn nothing_is_disowned() -> Envelope {
    let name = ControlName {
        holder: ReplicaSlot(NOBODY),
        incarnation: control::Incarnation(LATER),
        number: 1,
    };
    Envelope {
        epoch: Epoch(0),
        message: control::Message::Disown { name },
    }
}

fn greeting(files: &SetDirectory) -> Greeting {
    Greeting {
        begins: false,
        applied: 0,
        held: 2,
        wished: 0,
        taken: None,
        members: files.member_list().unwrap(),
        certificate: Bytes::new(),
    }
}

pub(super) fn nothing_of(file: ObjectId) -> PieceHead {
    PieceHead {
        id: u64::MAX,
        file,
        version: 0,
        ..PieceHead::invented()
    }
}

fn nothing_remains() -> Remainder {
    Remainder {
        stage: Stage::ByLog,
        objects_done: 0,
        objects_left: 0,
        bytes_done: 0,
        bytes_left: None,
    }
}

/// A stream that has no updates up to a place.
pub(super) fn nothing_through(through: u64) -> Records {
    Records {
        behind: 0,
        records: Vec::new(),
        through,
        settlements: 0,
        epoch: 0,
        mac: Mac::invented(),
    }
}
