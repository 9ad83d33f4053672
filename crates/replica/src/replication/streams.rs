//! The ordered streams of updates that others make, and how they are applied here (`sending`: this replica's own stream).
//!
//! The slot of the replica that made the updates names a stream; positions are never used twice, not even after a restart. A record is sent once it
//! is stable at its maker, and applied when the controls it was made under have been granted here.

use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use peer::Lane;
use store::{ForeignUpdate, LinkChange, RowChange, RowSubject, Ticket};
use tokio::sync::mpsc;
use vfs::{Error, ObjectId, ReplicaSlot, Result};

use crate::driver::foreign::{Foreign, Rule};
use crate::driver::local_replica::LocalReplica;
use crate::frontend::durability;
use crate::replication::base;
use crate::replication::contents;
use crate::replication::degraded;
use crate::replication::line::{self, Line};
use crate::replication::settled;
use crate::replication::unfit::Unfit;
use crate::state::arrivals::{Inbox, StreamMessage};
use crate::state::copies::Held;
use crate::state::lineage::Attested;
use crate::state::relays::Signed;
use crate::state::segments::Known;
use crate::state::wire::{self, Applied, Record, Records};

/// Keeps an inbox for the stream of another replica, from whichever replica it comes.
pub(crate) fn follow(replica: &Arc<LocalReplica>, slot: ReplicaSlot) {
    if replica.state.inboxes.get(slot).is_none() {
        let applied = replica.store.applied(slot).unwrap_or_else(|error| {
            tracing::error!(%error, "the position in a stream cannot be read");
            0
        });
        let (inbox, queue) = Inbox::new(slot, applied);
        let inbox = Arc::new(inbox);
        match replica.state.inboxes.lock().entry(slot) {
            Entry::Vacant(place) => drop(place.insert(inbox.clone())),
            // Another task was faster.
            Entry::Occupied(_) => return,
        }
        // By the one task whose inbox it is: another one could put an older place over a newer one.
        replica.engine.note_applied_here([(slot, applied)]);
        let applying = tokio::spawn(apply(replica.clone(), inbox, queue));
        replica.keep_task(applying);
    }
}

/// Applies what one peer sends, in order, until the replica stops.
pub(crate) async fn apply(
    replica: Arc<LocalReplica>,
    inbox: Arc<Inbox>,
    mut queue: mpsc::UnboundedReceiver<(u64, StreamMessage)>,
) {
    let mut line = Line::default();
    while let Some((session, received)) = line.next(&replica, &inbox, &mut queue).await {
        if matches!(received, StreamMessage::End) {
            return;
        }
        match take_in_patiently(&replica, &inbox, session, &received).await {
            Ok(Taken::Whole) => {}
            // Perhaps it counts again by now.
            Ok(Taken::InPart) => line.put_off((session, received)),
            Err(Unfit::Nonsense(what)) => refuse(&replica, &inbox, &received, &what),
            Err(Unfit::NotStored(error)) => {
                // Continuing would leave a hole in the stream.
                let peer = inbox.from.0;
                tracing::error!(peer, %error, "this replica cannot follow a peer any more");
                degraded::degraded(&replica, &error).await;
                return;
            }
        }
    }
}

/// How much of a message was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// All of it, or the rest comes again.
    Whole,
    /// Its maker's stream was closed meanwhile, or the maker given up. The rest waits until it counts: it does not come again in this session.
    InPart,
}

/// Refuses the message. What follows in the same session would leave a hole, and is not applied either.
fn refuse(replica: &LocalReplica, inbox: &Inbox, received: &StreamMessage, what: &str) {
    match received {
        StreamMessage::Own(incoming) => replica.refuse_nonsense(incoming.from, what),
        StreamMessage::Relayed(_) | StreamMessage::End => {
            let is_news = replica
                .state
                .peers
                .with(inbox.from, |peer| peer.nonsense.note_relayed(what));
            if is_news {
                let of = inbox.from.0;
                tracing::error!(of, what, "a lost replica made updates that make no sense");
            }
        }
    }
}

/// Applies a message; tries again while there is no space for it and no replica waits for this one.
async fn take_in_patiently(
    replica: &Arc<LocalReplica>,
    inbox: &Arc<Inbox>,
    session: u64,
    received: &StreamMessage,
) -> std::result::Result<Taken, Unfit> {
    let mut attempts = degraded::Attempts::new();
    let mut tried = false;
    loop {
        match take_in(replica, inbox, session, received).await {
            Ok(taken) => {
                if tried {
                    *replica.state.trouble.lock() = None;
                }
                return Ok(taken);
            }
            Err(Unfit::NotStored(error)) => {
                tried = true;
                if !attempts.again(replica, &error).await {
                    return Err(Unfit::NotStored(error));
                }
            }
            Err(nonsense) => return Err(nonsense),
        }
    }
}

async fn take_in(
    replica: &Arc<LocalReplica>,
    inbox: &Arc<Inbox>,
    session: u64,
    received: &StreamMessage,
) -> std::result::Result<Taken, Unfit> {
    match received {
        StreamMessage::Own(incoming) if incoming.message.kind == wire::Kind::Base.number() => {
            base::take(replica, inbox, incoming).await?;
            Ok(Taken::Whole)
        }
        // Updates would come between the rows of the copy that is to be taken. They come again, behind it (counterexample 91).
        _ if *replica.state.held.borrow() == Held::Nothing => Ok(Taken::Whole),
        StreamMessage::Own(incoming) => {
            let message = &incoming.message;
            let records: Records = wire::decode(&message.payload)?;
            records.check(inbox.from)?;
            if records.behind > inbox.applied() && inbox.session() == session {
                let (behind, applied) = (records.behind, inbox.applied());
                let what =
                    format!("updates behind {behind} came when those up to {applied} were applied");
                return Err(Unfit::Nonsense(what));
            }
            let signed = Signed {
                records: message.payload.clone(),
                signature: message.body.clone(),
            };
            Ok(apply_message(replica, inbox, (session, true), (records, signed)).await?)
        }
        StreamMessage::Relayed(signed) => {
            let records: Records = wire::decode(&signed.records)?;
            if records.behind > inbox.applied() {
                // Something before it was not accepted. All of it comes again.
                return Ok(Taken::Whole);
            }
            Ok(apply_message(replica, inbox, (session, false), (records, signed.clone())).await?)
        }
        StreamMessage::End => Ok(Taken::Whole),
    }
}

/// Applies records that came in a session. First hand: directly from their maker, whose attestation is kept.
async fn apply_message(
    replica: &Arc<LocalReplica>,
    inbox: &Arc<Inbox>,
    (session, first_hand): (u64, bool),
    (records, signed): (Records, Signed),
) -> Result<Taken> {
    let Records {
        records,
        through,
        settlements,
        epoch,
        mac,
        ..
    } = records;
    let known = Known { settlements, epoch };
    let behind = inbox.applied();
    let mut last = None;
    for record in records {
        if record.position <= inbox.applied() {
            continue;
        }
        match apply_record(replica, inbox, (session, first_hand), known, record).await? {
            Attempt::Applied(ticket) => last = Some(ticket),
            // The rest comes again, cut into records from this replica's position on.
            Attempt::Over => return put_down(replica, inbox, last, Taken::Whole).await,
            Attempt::Closed => return put_down(replica, inbox, last, Taken::InPart).await,
        }
    }
    // The stream stays open, and the session the same, until the place is reached.
    let applying = inbox.applying.lock().await;
    let goes_on = inbox.session() == session;
    if goes_on {
        if through > inbox.applied() {
            if first_hand && line::is_closed(replica, inbox.from) {
                drop(applying);
                return put_down(replica, inbox, last, Taken::InPart).await;
            }
            // A position that the others are told must also be in a copy that they take of this one, and must survive a restart.
            last = Some(replica.store.reached(inbox.from, through).await?);
        }
        reached(replica, inbox, through);
        // Updates of others may wait for this place.
        replica.engine.notify();
    }
    drop(applying);
    if let Some(ticket) = last {
        replica.store.wait_stable(ticket).await?;
    }
    if goes_on && first_hand {
        let through = Attested {
            number: through,
            mac,
        };
        replica.state.lineage.note_applied(inbox.from, through);
    }
    if through <= inbox.applied() {
        inbox.keep(behind, through, signed);
    }
    acknowledge(replica, inbox);
    Ok(Taken::Whole)
}

/// Stops in the middle of a message: what was applied of it is stable, and acknowledged.
async fn put_down(
    replica: &LocalReplica,
    inbox: &Inbox,
    last: Option<Ticket>,
    taken: Taken,
) -> Result<Taken> {
    if let Some(ticket) = last {
        replica.store.wait_stable(ticket).await?;
        acknowledge(replica, inbox);
    }
    Ok(taken)
}

/// The result of applying a record.
enum Attempt {
    Applied(Ticket),
    /// The session that brought it is over, or the survivors decided to continue without relayed updates of its maker while it waited.
    Over,
    /// Its maker's stream was closed, or its maker given up.
    Closed,
}

fn reached(replica: &Arc<LocalReplica>, inbox: &Arc<Inbox>, position: u64) {
    for piece in inbox.reached(position) {
        contents::put_in_place(replica, inbox, piece);
    }
}

/// Tells the peer how far its stream is applied here, stably.
pub(crate) fn acknowledge(replica: &LocalReplica, inbox: &Inbox) {
    let applied = || Applied {
        position: inbox.applied(),
        // Read after the position: what is kept because of it is counted by now.
        held_open: replica.store.orphans_version(),
    };
    // A greeting that was made before this goes before it (counterexample 87).
    inbox.tell(applied, |applied| {
        inbox.note_acknowledged(applied.position);
        let message = wire::body(wire::Kind::Applied, &applied);
        replica
            .state
            .outbound
            .send(inbox.from, Lane::Control, message);
    });
    if replica.state.losses.closing.has_begun(inbox.from) {
        // An operation may wait until the others have been told all of it.
        replica.engine.notify();
    }
}

/// Applies a record once its controls have been granted here.
async fn apply_record(
    replica: &Arc<LocalReplica>,
    inbox: &Arc<Inbox>,
    (session, first_hand): (u64, bool),
    known: Known,
    mut record: Record,
) -> Result<Attempt> {
    let update = update_of(replica, inbox.from, &mut record);
    let (objects, sets_attributes) = changed_by(&update);
    let relaxed = durability::relaxed_before(replica, &update.changes).await;
    let foreign = Foreign {
        from: inbox.from,
        epoch: known.epoch,
        record: &record,
        changed: &update.incomplete,
        objects: &objects,
        sets_attributes,
        rule: || match exempt(replica, inbox.from, record.position) {
            true if !settled::may_follow(replica, known.settlements) => Rule::Wait,
            true => Rule::Order,
            false => Rule::Controls,
        },
    };
    let refused = AtomicBool::new(false);
    let before_commit =
        &mut |links: &[LinkChange], commit: &mut dyn FnMut() -> Result<()>| match replica
            .commit_foreign(&foreign, links, commit)?
        {
            true => Ok(()),
            false => {
                refused.store(true, Ordering::Relaxed);
                Err(Error::Delay)
            }
        };
    let _stuck = inbox.note_stuck(record.position);
    loop {
        let is_closed = || first_hand && line::is_closed(replica, inbox.from);
        let is_given_up = || !first_hand && replica.is_given_up(inbox.from);
        let is_over = || inbox.session() != session || is_given_up();
        replica
            .until_applicable(&foreign, || is_over() || is_closed())
            .await;
        let _applying = inbox.applying.lock().await;
        if is_over() {
            return Ok(Attempt::Over);
        }
        if is_closed() {
            return Ok(Attempt::Closed);
        }
        let _undecided = (!relaxed.is_empty()).then(|| replica.state.losses.undecided());
        match replica.store.apply(update.clone(), before_commit).await {
            // The controls of the update have gone meanwhile.
            Err(_) if refused.swap(false, Ordering::Relaxed) => {}
            Err(error) => return Err(error),
            Ok(ticket) => {
                inbox.note_rows(ticket);
                durability::note_protected(replica, &relaxed, inbox.from, update.position).await;
                reached(replica, inbox, update.position);
                return Ok(Attempt::Applied(ticket));
            }
        }
    }
}

/// The update of a record; takes the record's rows and list of files.
fn update_of(replica: &LocalReplica, from: ReplicaSlot, record: &mut Record) -> ForeignUpdate {
    let rows = std::mem::take(&mut record.rows);
    ForeignUpdate {
        from,
        position: record.position,
        changes: rows.into_iter().map(RowChange::from).collect(),
        // A witness does not wait for contents.
        incomplete: match replica.state.is_witness {
            true => Vec::new(),
            false => std::mem::take(&mut record.data),
        },
    }
}

/// The objects whose own rows an update changes, and whether it sets extended attributes.
fn changed_by(update: &ForeignUpdate) -> (Vec<ObjectId>, bool) {
    let subjects = || update.changes.iter().filter_map(RowChange::subject);
    let sets_attributes = subjects().any(|row| matches!(row, RowSubject::Xattr(_)));
    let objects = subjects().filter_map(|row| match row {
        RowSubject::Object(object) => Some(object),
        _ => None,
    });
    (objects.collect(), sets_attributes)
}

/// Whether an update may be applied without its controls: this replica takes no part, or took none when the update was made, or has just been
/// admitted and gets it from others because its maker is lost.
fn exempt(replica: &LocalReplica, from: ReplicaSlot, position: u64) -> bool {
    if !replica.takes_part() {
        return true;
    }
    let is_lost = !replica.lease.view().active.contains(&from);
    if is_lost && !replica.lease.is_up_to_date() {
        return true;
    }
    let arrival = replica.state.arrival.lock();
    let mut exempt = arrival.exempt.iter();
    exempt.any(|(slot, through)| *slot == from && position <= *through)
}
