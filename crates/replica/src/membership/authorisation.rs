//! Authorisation: the one place that decides whether a message of another server is accepted.
//!
//! A certificate proves the sender's slot. The list of members and the agreed state say what that slot is. Everything is judged before its body
//! is decoded. `docs/protocol.md` has the same table for people; the test `walk` checks that table with real connections.
//!
//! This replica knows the sender's view only as far as it has followed the decisions. So no message that is sent once depends on it, only
//! requests, which are sent again. Servers that keep data and no rows do not exist yet. They will be another kind of sender and receiver; until
//! then nothing is accepted from them.
//!
//! What must never enter: the meaning of bodies, and decisions about views in a request of the crate `view`, which judges them by the sender's
//! slot.

use bytes::Bytes;
use peer::{Refusal, Sender, TurnedAway};
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::state::members::{Hearer, Speaker};
use crate::state::wire::{self, Grounds, Kind};

/// Why something is refused, for people.
pub(crate) type Reason = &'static str;

const REMOVED: Reason =
    "it was removed from the set; to return, let it join again with a new invitation";
const UNKNOWN: Reason = "no such member is known here yet; one that joined a moment ago is let in as soon as the list of members has come";
const RECEIVER_REMOVED: Reason =
    "the server that was asked was removed from the set itself; ask another member";
const FROM_WITNESS: Reason =
    "a witness, which keeps no contents and serves nobody, may not say this";
const TO_WITNESS: Reason =
    "a witness, which keeps no contents and serves nobody, has no use for this";
const SENDER_OUTSIDE: Reason =
    "a server that takes no part in the view serves nobody, and may not ask this";
const RECEIVER_OUTSIDE: Reason = "the server that was asked takes no part in the view";
const MAKER_IS_HERE: Reason = "whose updates they are takes part, and sends them itself";
const NO_KIND: Reason = "there is no such kind of message";

/// Whether the two may have a session at all.
///
/// # Errors
/// Why not.
pub(crate) fn may_meet(speaker: Speaker, hearer: Hearer) -> Result<(), Reason> {
    match (speaker, hearer) {
        (_, Hearer::Removed) => Err(RECEIVER_REMOVED),
        (Speaker::Removed, _) => Err(REMOVED),
        (Speaker::Stranger, _) => Err(UNKNOWN),
        (Speaker::InView | Speaker::Outside | Speaker::Witness, _) => Ok(()),
    }
}

/// Whether a message or a request is accepted. A refused one is never decoded: a message is dropped and counted, a request is answered with the
/// reason.
///
/// # Errors
/// Why not.
pub(crate) fn may_say(speaker: Speaker, kind: Kind, hearer: Hearer) -> Result<(), Reason> {
    may_meet(speaker, hearer)?;
    match kind {
        // Votes, what they are cast on, and what members follow: from every member.
        Kind::Control
        | Kind::Greeting
        | Kind::Applied
        | Kind::Members
        | Kind::LeaseRequest
        | Kind::LeaseGrant
        | Kind::Joined
        | Kind::CaughtUp
        | Kind::View
        | Kind::Relayed
        | Kind::Remainder
        // The keeper of the authority hands it over; the set's files check that the sender is the keeper.
        | Kind::Authority => Ok(()),
        // Updates and rows come from replicas that make them and keep the tree; a witness accepts them.
        Kind::Records | Kind::Base | Kind::TooFar => from_keeper(speaker),
        // Contents, and messages about them.
        Kind::Piece
        | Kind::PieceDone
        | Kind::Incomplete
        | Kind::Completed
        | Kind::Noted
        // Files that clients of either side have open.
        | Kind::HeldOpen
        | Kind::Wanted => from_keeper(speaker).and_then(|()| to_keeper(hearer)),
        // Requests between replicas that serve clients.
        Kind::Forward | Kind::Clients | Kind::Scrub => {
            from_keeper(speaker)?;
            to_keeper(hearer)?;
            match (speaker, hearer) {
                (Speaker::Outside, _) => Err(SENDER_OUTSIDE),
                (_, Hearer::Outside) => Err(RECEIVER_OUTSIDE),
                _ => Ok(()),
            }
        }
    }
}

/// Whether a message of replication control is accepted. A witness grants controls, and has none.
///
/// # Errors
/// Why not.
pub(crate) fn may_control(speaker: Speaker, message: &control::Message) -> Result<(), Reason> {
    use control::Message::{Abort, Propose, Release};
    match message {
        Propose { .. } | Abort { .. } | Release { .. } => from_keeper(speaker),
        _ => Ok(()),
    }
}

/// Whether a relayed message is accepted: not while its maker is in the receiver's view and was heard there lately, because it then sends its
/// updates itself.
///
/// # Errors
/// Why not.
pub(crate) fn may_be_relayed(maker: Speaker, is_heard: bool) -> Result<(), Reason> {
    match (maker, is_heard) {
        (Speaker::InView, true) => Err(MAKER_IS_HERE),
        _ => Ok(()),
    }
}

/// Only replicas that keep contents may say this.
fn from_keeper(speaker: Speaker) -> Result<(), Reason> {
    match speaker {
        Speaker::Witness => Err(FROM_WITNESS),
        _ => Ok(()),
    }
}

/// Only replicas that keep contents can use this.
fn to_keeper(hearer: Hearer) -> Result<(), Reason> {
    match hearer {
        Hearer::Witness => Err(TO_WITNESS),
        _ => Ok(()),
    }
}

/// Whether another replica may have a session with this one.
///
/// # Errors
/// What it is told, and whether it should soon try again.
pub(crate) fn admit_session(replica: &LocalReplica, peer: Sender) -> Result<(), TurnedAway> {
    let from = peer.slot;
    if let Some(what) = replica
        .state
        .peers
        .with(peer.slot, |known| known.nonsense.refuses(peer.incarnation))
    {
        return Err(refusal_of_nonsense(replica, from, &what));
    }
    let speaker = replica.speaker(from);
    let Err(reason) = may_meet(speaker, replica.hearer()) else {
        return Ok(());
    };
    let Refusal(reason) = refusal(replica, from, reason);
    let evidence = match speaker {
        Speaker::Removed => wire::encode(&Grounds::Removed(replica.state.members.list())).into(),
        _ => Bytes::new(),
    };
    Err(TurnedAway {
        again: speaker == Speaker::Stranger,
        reason,
        evidence,
    })
}

/// Whether this replica accepts a message or request of this kind from another replica.
///
/// # Errors
/// The reason, for the sender.
pub(crate) fn admit_message(
    replica: &LocalReplica,
    from: ReplicaSlot,
    number: u32,
) -> Result<(), Refusal> {
    let kind = Kind::of(number).ok_or(NO_KIND);
    let admitted = kind.and_then(|kind| may_say(replica.speaker(from), kind, replica.hearer()));
    admitted.map_err(|reason| refusal(replica, from, reason))
}

/// Whether this replica now accepts relayed messages of a replica's stream.
///
/// # Errors
/// Why not.
pub(crate) fn admit_relayed(replica: &LocalReplica, of: ReplicaSlot) -> Result<(), Reason> {
    let news = replica.state.peers.news();
    let said = news.get(&of).and_then(|news| news.said.as_ref());
    let is_heard = said.is_some_and(|(_, at)| at.elapsed() <= replica.state.settings.suspicion);
    may_be_relayed(replica.speaker(of), is_heard)
}

/// It would send the same bytes again.
fn refusal_of_nonsense(replica: &LocalReplica, from: ReplicaSlot, what: &str) -> TurnedAway {
    let (sender, receiver) = (from.0, replica.slot().0);
    TurnedAway {
        again: false,
        reason: format!(
            "replica {receiver} does not listen to this start of replica {sender}, which sent what makes no sense ({what}); see that both run the same version of the program, and start it anew; if that does not help, replace its copy, there, as `meridian set rejoin --help` says"
        ),
        evidence: Bytes::new(),
    }
}

fn refusal(replica: &LocalReplica, from: ReplicaSlot, reason: Reason) -> Refusal {
    let (sender, receiver) = (from.0, replica.slot().0);
    Refusal(format!(
        "replica {receiver} refuses this of replica {sender}: {reason}"
    ))
}

#[cfg(test)]
mod walk;

#[cfg(test)]
mod tests {
    use super::*;

    const SPEAKERS: [Speaker; 5] = [
        Speaker::InView,
        Speaker::Outside,
        Speaker::Witness,
        Speaker::Removed,
        Speaker::Stranger,
    ];
    const HEARERS: [Hearer; 4] = [
        Hearer::InView,
        Hearer::Outside,
        Hearer::Witness,
        Hearer::Removed,
    ];

    #[test]
    fn numbers_name_one_kind_each() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(kind.number()), Some(kind));
        }
        assert_eq!(Kind::of(0), None);
    }

    #[test]
    fn who_may_not_be_met_may_say_nothing() {
        for (speaker, hearer) in SPEAKERS
            .iter()
            .flat_map(|speaker| HEARERS.iter().map(move |hearer| (*speaker, *hearer)))
        {
            let says_something = Kind::ALL
                .iter()
                .any(|kind| may_say(speaker, *kind, hearer).is_ok());
            let met = may_meet(speaker, hearer).is_ok();
            assert_eq!(says_something, met, "{speaker:?} to {hearer:?}");
        }
    }

    #[test]
    fn a_witness_answers_proposals_and_makes_none() {
        use control::Message::{Abort, Acknowledge, Disown, Ended, Propose, Refuse, Release};
        let name = control::ControlName {
            holder: ReplicaSlot(1),
            incarnation: control::Incarnation(1),
            number: 1,
        };
        let proposal = control::Proposal {
            name,
            claims: Vec::new(),
            downgradable: false,
            behind: Vec::new(),
        };
        let (replaces, floor, next) = (None, 0, None);
        let own = [
            Propose {
                proposal,
                replaces,
                floor,
            },
            Abort { name, floor },
            Release { name, next, floor },
        ];
        let (turn, obstacles) = (1, Vec::new());
        let answers = [
            Acknowledge { name },
            Refuse {
                name,
                turn,
                obstacles,
            },
            Ended { name },
            Disown { name },
        ];
        for message in &own {
            assert_eq!(may_control(Speaker::Witness, message), Err(FROM_WITNESS));
            assert_eq!(may_control(Speaker::InView, message), Ok(()));
            assert_eq!(may_control(Speaker::Outside, message), Ok(()));
        }
        for message in &answers {
            assert_eq!(may_control(Speaker::Witness, message), Ok(()));
        }
    }

    #[test]
    fn only_what_is_asked_again_depends_on_the_view() {
        for kind in Kind::ALL {
            let depends = HEARERS[..3].iter().any(|hearer| {
                may_say(Speaker::InView, kind, *hearer) != may_say(Speaker::Outside, kind, *hearer)
            });
            let is_request = matches!(kind, Kind::Forward | Kind::Clients | Kind::Scrub);
            assert_eq!(depends, is_request, "{kind:?}");
        }
    }
}
