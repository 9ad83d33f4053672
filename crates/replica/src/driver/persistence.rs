//! Carrying out the core's commands in order: the durable control table, and messages that wait for it.
//!
//! Records that come together share one trip to the disk, and those that nobody waits for share the trips of
//! others. A message that needs none is sent at once.

use std::sync::Arc;
use std::time::Duration;

use control::{ControlName, Mark, Message, Proposal, Record};
use peer::Lane;
use store::{Store, Ticket};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::driver::engine::Step;
use crate::driver::local_replica::LocalReplica;
use crate::driver::remembered::{CONTROLS, SET_ASIDE, load};
use crate::state::read_past::granted_to_another;
use crate::state::wire;

/// At most this many steps share one trip.
const STEPS_AT_ONCE: usize = 4096;

/// Records that nobody waits for are gathered for this long: otherwise a caller that changes
/// something meanwhile would have to wait for the writer's lock for each of them.
const GATHERING: Duration = Duration::from_millis(10);

/// Records that go to the disk together, and what may be said once they are there.
#[derive(Default)]
struct Draft {
    rows: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    outgoing: Vec<Step>,
    /// An operation may wait for it.
    awaited: bool,
    /// Others were granted something.
    grants: bool,
}

/// A draft on its way to the disk.
struct Group {
    /// Its first record, and its last.
    first: Mark,
    last: Mark,
    ticket: Ticket,
    outgoing: Vec<Step>,
    needed: bool,
    /// Others were granted something: who reads what they may change is ended before they hear of it.
    grants: bool,
}

impl Draft {
    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.outgoing.is_empty()
    }

    fn is_needed(&self) -> bool {
        self.awaited || !self.outgoing.is_empty()
    }
}

/// Carries steps out until the replica stops.
pub(crate) async fn carry_out(
    replica: Arc<LocalReplica>,
    mut steps: mpsc::UnboundedReceiver<Step>,
) {
    let (groups, groups_out) = mpsc::unbounded_channel();
    replica.keep_task(tokio::spawn(settle(replica.clone(), groups_out)));
    let mut persisted = Mark(0);
    let mut draft = Draft::default();
    let mut first = Mark(1);
    let mut due = Instant::now();
    let mut waiting = Vec::new();
    loop {
        let gathering = !draft.is_empty();
        let mut complete = false;
        tokio::select! {
            count = steps.recv_many(&mut waiting, STEPS_AT_ONCE) => if count == 0 { return },
            () = tokio::time::sleep_until(due), if gathering => complete = true,
            () = replica.engine.demanded(first), if gathering => draft.awaited = true,
        }
        for step in waiting.drain(..) {
            match step {
                Step::Persist { record, awaited } => {
                    persisted = Mark(persisted.0 + 1);
                    draft.rows.extend(rows(&record));
                    draft.grants |= granted_to_another(&record, replica.slot()).is_some();
                    draft.awaited |= awaited;
                }
                Step::Send { .. } if waits_for_nothing(&replica, &step) => say(&replica, &step),
                Step::Send { .. } => draft.outgoing.push(step),
            }
        }
        if !gathering {
            due = Instant::now() + GATHERING;
        }
        if !complete && !draft.is_needed() {
            continue;
        }
        match commit(&replica, std::mem::take(&mut draft), first, persisted).await {
            // The other task ends only with the replica.
            Ok(group) => drop(groups.send(group)),
            // The store has failed and ends the server; nothing may be said any more.
            Err(error) => return tracing::error!(%error, "the control table cannot be written"),
        }
        first = Mark(persisted.0 + 1);
    }
}

async fn commit(
    replica: &LocalReplica,
    draft: Draft,
    first: Mark,
    last: Mark,
) -> vfs::Result<Group> {
    let (needed, grants) = (draft.is_needed(), draft.grants);
    Ok(Group {
        first,
        last,
        ticket: replica.store.put_facts(draft.rows).await?,
        outgoing: draft.outgoing,
        needed,
        grants,
    })
}

/// Tells of groups that have become stable, in order, and says what waited for them. Nobody may need a
/// group for a while, such as controls announced under one that is stable: then it shares the trip of
/// what is.
async fn settle(replica: Arc<LocalReplica>, mut groups: mpsc::UnboundedReceiver<Group>) {
    // They go by what may be granted to others in the first group.
    replica.earlier_readers_ended().await;
    let mut next = groups.recv().await;
    while let Some(group) = next.take() {
        let stable = if group.needed {
            replica.store.wait_stable(group.ticket).await
        } else {
            tokio::select! {
                stable = replica.store.wait_stable_lazily(group.ticket) => stable,
                () = replica.engine.demanded(group.first) => {
                    replica.store.wait_stable(group.ticket).await
                }
                // Stable tickets cover earlier ones, and this group says nothing.
                Some(later) = groups.recv() => {
                    let (first, grants) = (group.first, group.grants | later.grants);
                    next = Some(Group { first, grants, ..later });
                    continue;
                }
            }
        };
        if let Err(error) = stable {
            return tracing::error!(%error, "the control table is not stable");
        }
        replica.engine.marks_stable(group.last);
        if group.grants {
            replica.end_readers(group.last).await;
        }
        for step in &group.outgoing {
            say(&replica, step);
        }
        next = groups.recv().await;
    }
}

fn say(replica: &LocalReplica, step: &Step) {
    if let Step::Send { to, envelope, .. } = step {
        let message = wire::body(wire::Kind::Control, envelope);
        replica.state.outbound.send(*to, Lane::Control, message);
    }
}

/// Whether a message is said at once. What an earlier start has granted is acknowledged behind no record of this one, and waits all the same for
/// those who read by leave of that start.
fn waits_for_nothing(replica: &LocalReplica, step: &Step) -> bool {
    let Step::Send {
        envelope, after, ..
    } = step
    else {
        return false;
    };
    let acknowledges = matches!(envelope.message, Message::Acknowledge { .. });
    *after == Mark(0) && !(acknowledges && replica.has_readers())
}

type Row = (Vec<u8>, Option<Vec<u8>>);

fn rows(record: &Record) -> Vec<Row> {
    let row = |part, name, control: Option<&Proposal>| (key(part, name), control.map(wire::encode));
    match record {
        Record::Granted(proposal) => vec![row(CONTROLS, proposal.name, Some(proposal))],
        Record::Ended(name) => vec![row(CONTROLS, *name, None)],
        Record::SetAside(proposal) => vec![
            row(CONTROLS, proposal.name, None),
            row(SET_ASIDE, proposal.name, Some(proposal)),
        ],
        Record::Forgotten(name) => vec![row(SET_ASIDE, *name, None)],
    }
}

fn key(part: &[u8], name: ControlName) -> Vec<u8> {
    let mut key = part.to_vec();
    key.extend(name.holder.0.to_be_bytes());
    key.extend(name.incarnation.0.to_be_bytes());
    key.extend(name.number.to_be_bytes());
    key
}

/// Forgets the own controls, and sets aside what was acknowledged of others.
pub(crate) async fn set_aside(store: &Store) -> vfs::Result<()> {
    let own = store.slot();
    let granted = load(store)?.granted.into_iter();
    let rows = granted.flat_map(|control| match control.name.holder == own {
        true => rows(&Record::Ended(control.name)),
        false => rows(&Record::SetAside(control)),
    });
    let rows: Vec<Row> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    let ticket = store.put_facts(rows).await?;
    store.wait_stable(ticket).await
}
