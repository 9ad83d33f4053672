//! The copy that a joining or returning replica begins with: all rows of one moment, then contents of files.
//!
//! The first member of the view that holds the tree supplies it. Rows of later updates follow in the streams;
//! contents are shipped like any other change, of those files that the receiver asks for. A replica whose
//! own copy is out of date or has diverged keeps what contents it has that are right.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use control::Position;
use peer::{Incoming, Lane, Session};
use store::{RowChange, Store};
use vfs::{ObjectId, ReplicaSlot, Result};

use crate::arrivals::Inbox;
use crate::losses;
use crate::sessions;
use crate::shared::Shared;
use crate::streams::{INCOMPLETE, OBJECTS, StreamError, malformed};
use crate::views;
use crate::wire::{self, BasePage, Row, Wanted};

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
    /// All of it; of a witness, all that it is to have.
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
        Some(number) => Held::from_number(number),
        None if founder => Held::Everything,
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
    let (to, objects) = (session.peer().slot, shared.store.statistics().objects);
    shared.conversations.supplying(to, objects);
    send_page(shared, session, &BasePage::Begin).await?;
    loop {
        let rows = scan.next_page(PAGE_BYTES)?;
        if rows.is_empty() {
            break;
        }
        let objects = rows.iter().filter(|row| row.table == OBJECTS).count();
        let rows = rows.into_iter().map(Row::from).collect();
        send_page(shared, session, &BasePage::Rows(rows)).await?;
        shared.conversations.supplied(to, objects as u64);
    }
    let positions = scan.positions.iter();
    let positions = positions.map(|(slot, position)| (slot.0, *position));
    send_page(shared, session, &BasePage::Rest(positions.collect())).await
}

async fn send_page(
    shared: &Shared,
    session: &Session,
    page: &BasePage,
) -> std::result::Result<(), StreamError> {
    let message = wire::payload(wire::BASE, page);
    let bytes = message.payload.len() as u64;
    session.send(Lane::Metadata, message).await?;
    shared.sent(session.peer().slot, bytes).await;
    Ok(())
}

/// A peer that has taken all rows says of which files it needs the contents.
pub(crate) fn wanted(shared: &Arc<Shared>, from: ReplicaSlot, wanted: Wanted) {
    if wanted.copy {
        // What was removed since the rows were sent is not sent.
        let size = |file: &ObjectId| Some((*file, shared.store.file_size(*file).ok()?));
        let files = wanted.files.iter().filter_map(size);
        shared.conversations.owe(from, files);
    }
    shared.engine.turn(|turn| {
        let (now, follows) = (turn.now, Position(turn.ledger.last_position));
        if let Some(backlog) = turn.ledger.unshipped.peer(from) {
            for file in &wanted.files {
                backlog.changed(now, *file, 0..u64::MAX, follows);
                backlog.owe_file(*file);
            }
        }
    });
    shared.engine.ring_contents();
    if wanted.copy && wanted.last {
        tracing::info!(peer = from.0, "shipping contents");
        shared.conversations.named(from);
        sessions::look_at_base(shared, from);
    }
}

/// Asks the supplier for the contents that this replica, which has all rows, lacks.
pub(crate) fn want(shared: &Shared, supplier: ReplicaSlot) -> Result<()> {
    let files = shared.store.files_to_fetch()?;
    tracing::info!(
        peer = supplier.0,
        files = files.len(),
        "asking for contents"
    );
    shared
        .figures
        .to_fetch
        .store(files.len() as u64, Ordering::Relaxed);
    ask(shared, supplier, true, &files);
    Ok(())
}

/// Asks a member for what this replica lacks of its data: the rows that say so came with the copy, and the member does
/// not know of that.
pub(crate) fn ask_for_lacking(shared: &Shared, of: ReplicaSlot) {
    // A store that has failed ends the server elsewhere.
    let lacking = shared.store.incomplete_files(of).unwrap_or_default();
    let files: Vec<ObjectId> = lacking.into_iter().map(|(file, ..)| file).collect();
    if !files.is_empty() {
        ask(shared, of, false, &files);
    }
}

/// Asks a peer for the contents of files, as the rest of a copy or by themselves.
pub(crate) fn ask(shared: &Shared, peer: ReplicaSlot, copy: bool, files: &[ObjectId]) {
    let count = files.len().div_ceil(FILES_AT_ONCE).max(1);
    for part in 0..count {
        let first = part * FILES_AT_ONCE;
        let end = files.len().min(first + FILES_AT_ONCE);
        let wanted = Wanted {
            copy,
            files: files[first..end].to_vec(),
            last: part + 1 == count,
        };
        let message = wire::body(wire::WANTED, &wanted);
        shared.post.send(peer, Lane::Control, message);
    }
}

/// Notes durably that this replica's copy is to be replaced by another one's; it has to start anew then.
pub(crate) async fn give_up_copy(shared: &Shared) -> Result<()> {
    note(shared, Held::Nothing).await
}

/// Takes a page of the copy in.
pub(crate) async fn take(shared: &Arc<Shared>, inbox: &Inbox, incoming: &Incoming) -> Result<()> {
    let page: BasePage = wire::decode(&incoming.message.payload).map_err(malformed)?;
    match page {
        BasePage::Begin => {
            tracing::info!(peer = inbox.from.0, "receiving the tree");
            shared.store.begin_resync().await?;
            views::note_known(shared).await
        }
        BasePage::Rows(rows) => {
            let rows = rows.into_iter().map(RowChange::from);
            // A witness lacks all contents, and nobody waits for that.
            let rows = rows.filter(|row| !shared.is_witness || row.table != INCOMPLETE);
            shared.store.install_base(rows.collect()).await
        }
        BasePage::Rest(positions) => {
            let own = positions.iter().find(|(slot, _)| *slot == shared.slot().0);
            if let Some((_, position)) = own {
                shared.note_trimmed(*position).await?;
            }
            let positions = positions
                .into_iter()
                .map(|(slot, position)| (ReplicaSlot(slot), position));
            shared.store.finish_base(positions.collect()).await?;
            rows_are_here(shared).await
        }
        BasePage::Complete => {
            note(shared, Held::Everything).await?;
            tracing::info!("the tree is complete; clients are answered from now on");
            shared.engine.stir();
            Ok(())
        }
    }
}

async fn rows_are_here(shared: &Arc<Shared>) -> Result<()> {
    if shared.is_witness {
        // It asks nobody for contents.
        let files = shared.store.files_to_fetch()?;
        shared.store.note_fetched(&files).await?;
        note(shared, Held::Everything).await?;
        tracing::info!("the witness knows the tree");
    } else {
        note(shared, Held::Rows).await?;
    }
    losses::begin_awareness(shared);
    let inboxes: Vec<Arc<Inbox>> = shared.inboxes().values().cloned().collect();
    for inbox in &inboxes {
        if inbox.applied() > shared.store.applied(inbox.from)? {
            shared
                .standing
                .leave("its copy was replaced by an older one");
            return Ok(());
        }
    }
    shared.engine.turn(|turn| {
        turn.core.handle_tree_replaced(turn.now, &turn.tree);
        turn.stirred = true;
    });
    for inbox in inboxes {
        ask_for_lacking(shared, inbox.from);
        let applied = shared.store.applied(inbox.from)?;
        shared
            .engine
            .turn(|turn| turn.ledger.heard.insert(inbox.from, applied));
        for piece in inbox.reached(applied) {
            crate::contents::put_in_place(shared, &inbox, piece);
        }
        sessions::say_hello(shared, &inbox, false);
    }
    Ok(())
}
