//! The copy that a joining replica begins with: all rows of one moment, then the contents of all files.
//!
//! The member with the smallest slot supplies it. Rows of later updates follow in the streams, contents are
//! shipped like any other change; the joining replica answers clients once it has everything.

use std::collections::BTreeSet;
use std::sync::Arc;

use control::Position;
use peer::{Incoming, Lane, Session};
use store::Store;
use vfs::{ObjectId, ReplicaSlot, Result};

use crate::arrivals::Inbox;
use crate::sessions;
use crate::shared::Shared;
use crate::streams::{self, StreamError, malformed};
use crate::wire::{self, BasePage};

/// About so many bytes of rows travel in one message.
const PAGE_BYTES: usize = 256 << 10;
/// So many files are looked up at a time.
const FILES_AT_ONCE: usize = 1024;

const FACT: &[u8] = b"copy";

/// How much of the tree this replica holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    /// Nothing but the root.
    Nothing,
    /// All rows, but not all contents.
    Rows,
    /// All of it.
    Everything,
}

impl Held {
    /// From its number in a greeting; what is not known counts as nothing.
    pub(crate) fn from_number(number: u8) -> Held {
        match number {
            1 => Held::Rows,
            2 => Held::Everything,
            _ => Held::Nothing,
        }
    }
}

/// How much of the tree a store holds; the founder of a set has all there is.
pub(crate) fn held(store: &Store, founder: bool) -> Result<Held> {
    let facts = store.facts(FACT)?;
    let said = facts.first().and_then(|(_, value)| value.first().copied());
    Ok(match said {
        _ if founder => Held::Everything,
        Some(number) => Held::from_number(number),
        None => Held::Nothing,
    })
}

async fn note(shared: &Shared, held: Held) -> Result<()> {
    let rows = vec![(FACT.to_vec(), Some(vec![held as u8]))];
    let ticket = shared.store.put_facts(rows).await?;
    shared.store.wait_stable(ticket).await?;
    shared.held.send_replace(held);
    Ok(())
}

/// Supplies a peer that holds `has` with the rest, and then with everything that changes.
pub(crate) async fn send(shared: Arc<Shared>, session: Session, has: Held, applied: u64) {
    let peer = session.peer().slot;
    let outcome = match has {
        Held::Nothing => send_rows(&shared, &session).await,
        _ => Ok(applied),
    };
    let outcome = match outcome {
        Ok(position) => owe_contents(&shared, peer, position).map(|()| position),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(position) => sessions::start_sending(&shared, session, position),
        Err(error) => {
            tracing::error!(peer = peer.0, %error, "a new replica could not be supplied; it asks again when it restarts");
        }
    }
}

/// Sends all rows; returns our position in them.
async fn send_rows(
    shared: &Arc<Shared>,
    session: &Session,
) -> std::result::Result<u64, StreamError> {
    let peer = session.peer().slot;
    tracing::info!(peer = peer.0, "supplying a new replica with the tree");
    let mut scan = shared.store.base().await?;
    let own = shared.slot();
    let positions: Vec<(u16, u64)> = scan
        .positions
        .iter()
        .map(|(slot, position)| (slot.0, *position))
        .collect();
    let position = positions.iter().find(|(slot, _)| *slot == own.0);
    let position = position.map_or(0, |(_, position)| *position);
    let begin = wire::payload(wire::BASE, &BasePage::Begin);
    session.send(Lane::Metadata, begin).await?;
    loop {
        let rows = scan.next_page(PAGE_BYTES)?;
        if rows.is_empty() {
            break;
        }
        let page = BasePage::Rows(rows.into_iter().map(streams::row).collect());
        let message = wire::payload(wire::BASE, &page);
        session.send(Lane::Metadata, message).await?;
    }
    let rest = wire::payload(wire::BASE, &BasePage::Rest(positions));
    session.send(Lane::Metadata, rest).await?;
    Ok(position)
}

/// Notes that the peer lacks the contents of all files.
fn owe_contents(
    shared: &Arc<Shared>,
    peer: ReplicaSlot,
    position: u64,
) -> std::result::Result<(), StreamError> {
    let mut owed = BTreeSet::new();
    let mut after: Option<ObjectId> = None;
    loop {
        let files = shared.store.files(after, FILES_AT_ONCE)?;
        let Some((last, _)) = files.last() else {
            break;
        };
        after = Some(*last);
        let with_content = files.iter().filter(|(_, size)| *size > 0);
        owed.extend(with_content.map(|(file, _)| *file));
    }
    tracing::info!(peer = peer.0, files = owed.len(), "shipping contents");
    shared.engine.turn(|turn| {
        let now = turn.now;
        if let Some(backlog) = turn.ledger.unshipped.peer(peer) {
            for file in &owed {
                backlog.changed(now, *file, 0..u64::MAX, Position(position));
            }
        }
    });
    shared.conversations.owe_base(peer, owed);
    sessions::look_at_base(shared, peer);
    Ok(())
}

/// Takes a page of the copy in.
pub(crate) async fn take(shared: &Arc<Shared>, inbox: &Inbox, incoming: &Incoming) -> Result<()> {
    let page: BasePage = wire::decode(&incoming.message.payload).map_err(malformed)?;
    match page {
        BasePage::Begin => {
            tracing::info!(peer = inbox.from.0, "receiving the tree");
            shared.store.begin_base().await
        }
        BasePage::Rows(rows) => {
            let rows = rows.into_iter().map(streams::change).collect();
            shared.store.install_base(rows).await
        }
        BasePage::Rest(positions) => {
            let positions = positions
                .into_iter()
                .map(|(slot, position)| (ReplicaSlot(slot), position));
            shared.store.finish_base(positions.collect()).await?;
            rows_are_here(shared).await
        }
        BasePage::Complete => {
            note(shared, Held::Everything).await?;
            tracing::info!("the tree is complete; clients are answered from now on");
            Ok(())
        }
    }
}

async fn rows_are_here(shared: &Arc<Shared>) -> Result<()> {
    note(shared, Held::Rows).await?;
    shared.engine.turn(|turn| {
        turn.core.handle_tree_replaced(turn.now, &turn.tree);
        turn.stirred = true;
    });
    let inboxes: Vec<Arc<Inbox>> = shared.inboxes().values().cloned().collect();
    for inbox in inboxes {
        let applied = shared.store.applied(inbox.from)?;
        for piece in inbox.reached(applied) {
            crate::contents::put_in_place(shared, &inbox, piece);
        }
        sessions::say_hello(shared, &inbox, false);
    }
    Ok(())
}
