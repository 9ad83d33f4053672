//! The copy that a joining replica begins with: all rows of one moment, then the contents of all files.
//!
//! The member with the smallest slot supplies it. Rows of later updates follow in the streams, contents are
//! shipped like any other change; the joining replica answers clients once it has everything.

use std::collections::BTreeSet;
use std::sync::Arc;

use control::Position;
use peer::{Incoming, Lane, Session};
use store::{RowChange, Store};
use vfs::{ObjectId, ReplicaSlot, Result};

use crate::arrivals::Inbox;
use crate::sessions;
use crate::shared::Shared;
use crate::streams::{StreamError, malformed};
use crate::wire::{self, BasePage, Row};

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

/// Sends a new replica all rows. When it has taken them in it says so, and gets the rest.
pub(crate) async fn supply_rows(shared: Arc<Shared>, session: Session) {
    let peer = session.peer().slot.0;
    tracing::info!(peer, "supplying a new replica with the tree");
    if let Err(error) = send_rows(&shared, &session).await {
        tracing::error!(peer, %error, "a new replica could not be supplied; it asks again when it restarts");
    }
}

async fn send_rows(
    shared: &Arc<Shared>,
    session: &Session,
) -> std::result::Result<(), StreamError> {
    let mut scan = shared.store.base().await?;
    send_page(session, &BasePage::Begin).await?;
    loop {
        let rows = scan.next_page(PAGE_BYTES)?;
        if rows.is_empty() {
            break;
        }
        let rows = rows.into_iter().map(Row::from).collect();
        send_page(session, &BasePage::Rows(rows)).await?;
    }
    let positions = scan.positions.iter();
    let positions = positions.map(|(slot, position)| (slot.0, *position));
    send_page(session, &BasePage::Rest(positions.collect())).await
}

async fn send_page(session: &Session, page: &BasePage) -> std::result::Result<(), StreamError> {
    let message = wire::payload(wire::BASE, page);
    Ok(session.send(Lane::Metadata, message).await?)
}

/// Notes that a peer which has all rows lacks the contents of all files.
pub(crate) fn owe_contents(shared: &Arc<Shared>, peer: ReplicaSlot) {
    let files = match files_with_content(&shared.store) {
        Ok(files) => files,
        // The store has failed, which ends the server.
        Err(error) => return tracing::error!(%error, "the files cannot be listed"),
    };
    tracing::info!(peer = peer.0, files = files.len(), "shipping contents");
    shared.engine.turn(|turn| {
        let (now, follows) = (turn.now, Position(turn.ledger.last_position));
        if let Some(backlog) = turn.ledger.unshipped.peer(peer) {
            for file in &files {
                backlog.changed(now, *file, 0..u64::MAX, follows);
            }
        }
    });
    shared.conversations.owe_base(peer, files);
    shared.engine.ring_contents();
    sessions::look_at_base(shared, peer);
}

fn files_with_content(store: &Store) -> Result<BTreeSet<ObjectId>> {
    let mut found = BTreeSet::new();
    let mut after: Option<ObjectId> = None;
    loop {
        let files = store.files(after, FILES_AT_ONCE)?;
        let Some((last, _)) = files.last() else {
            return Ok(found);
        };
        after = Some(*last);
        let with_content = files.iter().filter(|(_, size)| *size > 0);
        found.extend(with_content.map(|(file, _)| *file));
    }
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
            let rows = rows.into_iter().map(RowChange::from).collect();
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
