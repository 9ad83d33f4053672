//! Carries out the core's commands in order: the durable control table, and messages that wait for it.
//!
//! Records that come together share one write to the disk; records for which nothing waits share other writes. A message that needs no record is sent
//! at once.

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

/// At most this many steps share one write.
const STEPS_AT_ONCE: usize = 4096;

/// Records for which nothing waits are gathered for this long: otherwise a caller that changes something meanwhile would wait for the writer's lock
/// for each of them.
const GATHERING: Duration = Duration::from_millis(10);

/// Records that go to the disk together, and what may be sent once they are there.
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
    /// Others were granted something: reading of what they may change ends before they are told.
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

/// Carries out steps until the replica stops.
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
            // The store has failed and ends the server; nothing may be sent any more.
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

/// Reports groups that have become stable, in order, and sends what waited for them. A group that nothing needs for a while, such as controls
/// announced under a stable one, shares another group's write.
async fn settle(replica: Arc<LocalReplica>, mut groups: mpsc::UnboundedReceiver<Group>) {
    // The first group may grant to others what those clients read.
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
                // Stable tickets cover earlier ones, and this group sends nothing.
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

/// Whether a message is sent at once. The acknowledgement of a control that an earlier start granted waits for no record of this start, but still
/// waits for the end of reading by permission of that start.
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

/// Forgets the controls of this replica, and sets aside what it acknowledged of others.
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
