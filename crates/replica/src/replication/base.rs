//! The copy with which a joining or rejoining replica begins: all rows of one moment, then contents of files.
//!
//! The first member of the view that holds the tree supplies it. Rows of later updates follow in the streams; contents of the files that the receiver
//! asks for are shipped like any other change. A replica whose own copy is outdated or has diverged keeps those contents that are right.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use peer::{Incoming, Lane, Session};
use store::{RowChange, RowSubject, Store};
use tokio::time::Instant;
use vfs::{ObjectId, ReplicaSlot, Result};

use crate::driver::complete;
use crate::driver::local_replica::LocalReplica;
use crate::replication::contents;
use crate::replication::conversing;
use crate::replication::sending;
use crate::replication::sending::StreamError;
use crate::replication::settled;
use crate::replication::taken::{TAKEN, note_taken, taken};
use crate::replication::unfit::Unfit;
use crate::state::arrivals::Inbox;
use crate::state::copies::{Held, Next};
use crate::state::lists::{FILES_AT_ONCE, List};
use crate::state::wire::{self, BasePage, Row, Taken, Wanted};

/// The key of a fact and its value; without a value, the fact is removed.
type Fact = (Vec<u8>, Option<Vec<u8>>);

/// One message carries about this many bytes of rows.
const PAGE_BYTES: usize = 256 << 10;

/// A copy that another replica supplies replaces the one that is being taken only if no page of that came for this time.
const SUPPLIER_PATIENCE: Duration = Duration::from_secs(10);

const FACT: &[u8] = b"copy";

/// How much of the tree a store holds; the founder of a set holds everything.
pub(crate) fn held(store: &Store, founder: bool) -> Result<Held> {
    let facts = store.facts(FACT)?;
    let said = facts.first().and_then(|(_, value)| value.first().copied());
    Ok(match said {
        Some(number) => Held::from_number(number),
        None if founder => Held::Everything,
        None => Held::Nothing,
    })
}

async fn note(replica: &LocalReplica, held: Held) -> Result<()> {
    note_with(replica, held, []).await
}

async fn note_with(
    replica: &LocalReplica,
    held: Held,
    more: impl IntoIterator<Item = Fact>,
) -> Result<()> {
    let held_row = (FACT.to_vec(), Some(vec![held as u8]));
    // From here on the rows are a whole copy, or no copy at all.
    let rows = [held_row, (TAKEN.to_vec(), None)];
    let rows = rows.into_iter().chain(more).collect();
    let ticket = replica.store.put_facts(rows).await?;
    replica.store.wait_stable(ticket).await?;
    replica.state.held.send_replace(held);
    Ok(())
}

/// Sends a new replica all rows that it lacks. When it has taken them it says so, and gets the rest.
pub(crate) async fn supply_rows(
    replica: Arc<LocalReplica>,
    session: Session,
    taken: Option<Taken>,
) {
    let peer = session.peer().slot.0;
    if let Err(error) = send_rows(&replica, &session, taken).await {
        tracing::error!(peer, %error, "a new replica could not be supplied; it asks again when it is back");
    }
    // It may meanwhile have begun with another replica's copy, and may lose that replica.
    replica
        .state
        .conversations
        .supplied_all(session.peer().slot);
}

async fn send_rows(
    replica: &Arc<LocalReplica>,
    session: &Session,
    taken: Option<Taken>,
) -> std::result::Result<(), StreamError> {
    let (to, own) = (session.peer().slot, replica.state.incarnation);
    let known = taken.filter(|taken| taken.incarnation == own);
    let attempt =
        match known.and_then(|taken| replica.state.copies.go_on(to, taken.copy, taken.pages)) {
            Some(attempt) => attempt,
            None => {
                // Read before the rows: what it ended is ended in them.
                let settlements = settled::known(replica)?.unwrap_or_default();
                let rows = replica.store.base().await?;
                replica.state.copies.begin(to, rows, settlements)
            }
        };
    // No peer sees what a crash could still erase here.
    replica.state.lineage.keep().await?;
    let (copy, pages) = (attempt.copy, attempt.pages);
    tracing::info!(peer = to.0, pages, "supplying a replica with the tree");
    let objects = replica.store.statistics().objects;
    replica
        .state
        .conversations
        .supplying(to, objects, attempt.objects);
    let mut place = Taken {
        incarnation: own,
        copy,
        pages,
    };
    let begin = BasePage::Begin(place, attempt.settlements);
    send_page(replica, session, &begin).await?;
    loop {
        match replica.state.copies.next(&attempt, PAGE_BYTES)? {
            Next::Rows { rows, objects } => {
                let rows = rows.into_iter().map(Row::from).collect();
                send_page(replica, session, &BasePage::Rows(place, rows)).await?;
                place.pages += 1;
                replica.state.conversations.supplied(to, objects);
            }
            Next::Rest(positions) => {
                // The last position given out may belong to no record.
                let stable = *replica.store.stable_position().borrow();
                let own = stable.max(replica.trimmed());
                let at_most = |slot| {
                    if slot == replica.slot() {
                        own
                    } else {
                        u64::MAX
                    }
                };
                let positions = positions.iter();
                let positions = positions.map(|(slot, at)| (slot.0, at_most(*slot).min(*at)));
                let positions = positions.collect();
                return send_page(replica, session, &BasePage::Rest(place, positions)).await;
            }
            Next::Replaced => return Ok(()),
        }
    }
}

async fn send_page(
    replica: &LocalReplica,
    session: &Session,
    page: &BasePage,
) -> std::result::Result<(), StreamError> {
    let message = wire::payload(wire::Kind::Base, page);
    let bytes = message.payload.len() as u64;
    session.send(Lane::Metadata, message).await?;
    sending::sent(replica, session.peer().slot, bytes).await;
    Ok(())
}

/// A peer that has taken all rows names the files whose contents it needs.
pub(crate) fn wanted(replica: &LocalReplica, from: ReplicaSlot, mut wanted: Wanted) {
    let exists = |file: ObjectId| replica.store.file_size(file).is_ok();
    let applied = |of| match of == replica.slot() {
        true => u64::MAX,
        false => replica.state.inboxes.acknowledged(of),
    };
    if wanted.copy && may_not_know_yet(&wanted, exists, applied) {
        tracing::debug!(
            peer = from.0,
            "a peer knows files that have not come here yet"
        );
        return replica.state.conversations.refuse(from);
    }
    if wanted.copy && wanted.first {
        replica.state.conversations.begin_list(from);
    }
    // Files that were removed, or never existed, are noted for no peer.
    wanted
        .files
        .retain(|file| replica.store.file_size(*file).is_ok());
    if wanted.copy {
        // Files that were removed since the rows were sent are not sent.
        let size = |file: &ObjectId| Some((*file, replica.store.file_size(*file).ok()?));
        let files = wanted.files.iter().filter_map(size);
        replica.state.conversations.owe(from, files);
    }
    replica.engine.owe_files(from, &wanted.files, wanted.turn);
    replica.engine.notify_of_contents();
    if wanted.copy && wanted.last && replica.state.conversations.named(from) {
        tracing::info!(peer = from.0, "shipping contents");
        conversing::look_at_base(replica, from);
    }
}

/// Whether a file that is asked for may only not be known here yet, instead of being gone: its maker's stream is applied further there (counterexample
/// 103). The rest of the copy would be sent without it, as complete.
fn may_not_know_yet(
    wanted: &Wanted,
    exists: impl Fn(ObjectId) -> bool,
    applied: impl Fn(ReplicaSlot) -> u64,
) -> bool {
    let ahead = |of: ReplicaSlot| {
        let mut places = wanted.places.iter();
        places.any(|(slot, place)| *slot == of.0 && *place > applied(of))
    };
    let mut files = wanted.files.iter();
    files.any(|file| !exists(*file) && ahead(file.slot()))
}

/// Asks the supplier for the contents that this replica, which has all rows, lacks.
pub(crate) fn want(replica: &LocalReplica, supplier: ReplicaSlot) -> Result<()> {
    let files = replica.store.files_to_fetch()?;
    tracing::info!(
        peer = supplier.0,
        files = files.len(),
        "asking for contents"
    );
    replica
        .state
        .metrics
        .to_fetch
        .store(files.len() as u64, Ordering::Relaxed);
    let applied = replica.store.applied(supplier)?;
    ask_for_copy(replica, supplier, applied, &files);
    Ok(())
}

/// Asks a member for what this replica lacks of its data: the rows that say so came with the copy, and the member does not know them.
pub(crate) fn ask_for_lacking(replica: &LocalReplica, of: ReplicaSlot) {
    // A store that has failed ends the server elsewhere.
    let lacking = replica.store.incomplete_files(of).unwrap_or_default();
    let files: Vec<ObjectId> = lacking.into_iter().map(|(file, ..)| file).collect();
    conversing::want(replica, of, &files);
}

/// Asks a peer for the contents of files, as the rest of a copy.
fn ask_for_copy(replica: &LocalReplica, peer: ReplicaSlot, applied: u64, files: &[ObjectId]) {
    let count = files.len().div_ceil(FILES_AT_ONCE).max(1);
    let turn = replica.state.given_way.turn();
    let streams = replica.state.inboxes.followed().into_iter();
    let place = |of: ReplicaSlot| (of.0, replica.state.inboxes.acknowledged(of));
    // Its own updates up to there are what the copy has of them.
    let own = (replica.slot().0, replica.trimmed());
    let places: Vec<(u16, u64)> = streams.map(place).chain([own]).collect();
    let parts = (0..count).map(|part| {
        let first = part * FILES_AT_ONCE;
        let end = files.len().min(first + FILES_AT_ONCE);
        let wanted = Wanted {
            copy: true,
            applied,
            files: files[first..end].to_vec(),
            first: part == 0,
            last: part + 1 == count,
            named: 0,
            turn,
            places: places.clone(),
        };
        wire::body(wire::Kind::Wanted, &wanted)
    });
    conversing::send_list(replica, peer, List::Copy, parts.collect());
}

/// Notes durably that another replica's copy must replace this one, and the reason, if that matters later. After that this replica has to restart.
pub(crate) async fn give_up_copy(replica: &LocalReplica, why: Option<Fact>) -> Result<()> {
    replica.state.complete.store(false, Ordering::Release);
    let facts = why.into_iter().chain([complete::no_more()]);
    note_with(replica, Held::Nothing, facts).await
}

/// This copy has diverged from the others: this replica leaves the view, and gets a whole copy once all replicas have what was made here.
pub(crate) async fn take_copy_anew(replica: &Arc<LocalReplica>, why: &str) {
    let noted = async {
        replica.state.complete.store(false, Ordering::Release);
        let rows = vec![(COPY_ANEW.to_vec(), Some(Vec::new())), complete::no_more()];
        let ticket = replica.store.put_facts(rows).await?;
        replica.store.wait_stable(ticket).await
    };
    if let Err(error) = noted.await {
        return tracing::error!(%error, "that a whole copy is needed cannot be noted");
    }
    replica.state.needs_copy.store(true, Ordering::Release);
    replica.exclude(replica.slot(), why).await;
}

/// The fact that says that this copy differs from the others.
pub(crate) const COPY_ANEW: &[u8] = b"copy-anew";

/// Takes a page of the copy, if it belongs to the copy that is being taken. Other suppliers may also have been asked for a copy.
pub(crate) async fn take(
    replica: &Arc<LocalReplica>,
    inbox: &Inbox,
    incoming: &Incoming,
) -> std::result::Result<(), Unfit> {
    let page: BasePage = wire::decode(&incoming.message.payload)?;
    // No page of another supplier's copy is taken between the check and the write.
    let mut supplier = replica.state.copying.lock().await;
    let held = *replica.state.held.borrow();
    let current = supplier.filter(|(slot, _)| replica.state.outbound.is_in_session(*slot));
    let current = current.map(|(slot, at)| (slot, at.elapsed()));
    if ends_another(&page, inbox.from, current)
        || !is_awaited(&page, held, taken(replica, inbox.from))
    {
        tracing::debug!(peer = inbox.from.0, "a page of another copy");
        return Ok(());
    }
    *supplier = Some((inbox.from, Instant::now()));
    take_page(replica, inbox, page).await?;
    // It may have taken long.
    *supplier = Some((inbox.from, Instant::now()));
    Ok(())
}

async fn take_page(replica: &Arc<LocalReplica>, inbox: &Inbox, page: BasePage) -> Result<()> {
    match page {
        BasePage::Begin(begin, settlements) => {
            let pages = begin.pages;
            tracing::info!(peer = inbox.from.0, pages, "receiving the tree");
            if pages == 0 {
                // Removed before the rows to which it refers.
                replica
                    .store
                    .put_facts(vec![(TAKEN.to_vec(), None)])
                    .await?;
                replica.store.begin_resync().await?;
                settled::note(replica, settlements).await?;
            }
            note_taken(replica, inbox.from, begin).await
        }
        BasePage::Rows(place, rows) => {
            let rows = rows.into_iter().map(RowChange::from);
            // A witness lacks all contents, and no operation waits for those.
            let rows = rows.filter(|row| {
                !replica.state.is_witness
                    || !matches!(row.subject(), Some(RowSubject::Incomplete(_)))
            });
            replica.store.install_base(rows.collect()).await?;
            let pages = place.pages + 1;
            note_taken(replica, inbox.from, Taken { pages, ..place }).await
        }
        BasePage::Rest(_, positions) => {
            let own = positions.iter().find(|(slot, _)| *slot == replica.slot().0);
            if let Some((_, position)) = own {
                replica.note_trimmed(*position).await?;
            }
            let positions = positions
                .into_iter()
                .map(|(slot, position)| (ReplicaSlot(slot), position));
            replica.store.finish_base(positions.collect()).await?;
            rows_are_here(replica).await
        }
        BasePage::Complete => {
            // The supplier owes nothing more of the files that are left: they were cut, or removed.
            let files = replica.store.files_to_fetch()?;
            replica.store.note_fetched(&files).await?;
            note(replica, Held::Everything).await?;
            tracing::info!("the tree is complete; clients are answered from now on");
            let inboxes = replica.state.inboxes.all();
            for inbox in inboxes {
                conversing::say_hello(replica, &inbox, false);
            }
            replica.engine.notify();
            Ok(())
        }
    }
}

/// Whether this page of a supplier's copy would end the copy that another one supplies. The last page of that came this long ago.
fn ends_another(
    page: &BasePage,
    from: ReplicaSlot,
    current: Option<(ReplicaSlot, Duration)>,
) -> bool {
    let begins = matches!(page, BasePage::Begin(begin, _) if begin.pages == 0);
    begins && current.is_some_and(|(slot, since)| slot != from && since < SUPPLIER_PATIENCE)
}

/// Whether a replica takes this page, given what it holds and how much of that supplier's copy it has taken.
fn is_awaited(page: &BasePage, held: Held, taken: Option<Taken>) -> bool {
    match page {
        BasePage::Begin(begin, _) if begin.pages == 0 => held == Held::Nothing,
        // Rows from this place on follow the rows here, or repeat some of them.
        BasePage::Begin(begin, _) => {
            let same = |taken: Taken| {
                (taken.incarnation, taken.copy) == (begin.incarnation, begin.copy)
                    && begin.pages <= taken.pages
            };
            held == Held::Nothing && taken.is_some_and(same)
        }
        BasePage::Rows(place, _) | BasePage::Rest(place, _) => {
            held == Held::Nothing && taken == Some(*place)
        }
        BasePage::Complete => held == Held::Rows,
    }
}

async fn rows_are_here(replica: &Arc<LocalReplica>) -> Result<()> {
    let inboxes = replica.state.inboxes.all();
    let mut pieces = Vec::new();
    // Before anybody is told that rows are here: with an older place a peer would say that it does not keep what is lacking.
    for inbox in &inboxes {
        let applied = replica.store.applied(inbox.from)?;
        if inbox.applied() > applied {
            replica.lease.leave("its copy was replaced by an older one");
            return Ok(());
        }
        // It is stable. If the maker is lost, it does not ask for the position, but the other survivors compare it.
        inbox.note_acknowledged(applied);
        pieces.push(inbox.reached(applied));
    }
    if replica.state.is_witness {
        // A witness does not ask for contents.
        let files = replica.store.files_to_fetch()?;
        replica.store.note_fetched(&files).await?;
        note(replica, Held::Everything).await?;
        tracing::info!("the witness knows the tree");
    } else {
        note(replica, Held::Rows).await?;
    }
    replica.begin_awareness();
    replica.note_applied_streams()?;
    replica.engine.tree_replaced();
    for (inbox, pieces) in inboxes.into_iter().zip(pieces) {
        ask_for_lacking(replica, inbox.from);
        for piece in pieces {
            contents::put_in_place(replica, &inbox, piece);
        }
        conversing::say_hello(replica, &inbox, false);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(copy: u64, pages: u64) -> Taken {
        Taken {
            incarnation: 1,
            copy,
            pages,
        }
    }

    /// A new server took its copy from one member; then a member with a smaller number came back, was asked as well, and also supplied a copy.
    #[test]
    fn pages_of_two_copies_are_not_mixed() {
        let rows = |copy, pages| BasePage::Rows(place(copy, pages), Vec::new());
        let rest = |copy, pages| BasePage::Rest(place(copy, pages), Vec::new());
        let taken = Some(place(7, 3));
        let is_taken = |page, taken| is_awaited(&page, Held::Nothing, taken);
        assert!(is_taken(rows(7, 3), taken));
        assert!(!is_taken(rows(7, 2), taken), "it was taken before");
        assert!(!is_taken(rows(7, 4), taken), "one is missing before it");
        assert!(!is_taken(rows(6, 3), taken), "of an earlier copy");
        assert!(!is_taken(rows(7, 3), None), "another one's was begun since");
        assert!(is_taken(rest(7, 3), taken));
        assert!(!is_taken(rest(7, 4), taken), "not all rows are there");
        assert!(!is_taken(rest(7, 3), None));
    }

    /// Two members that do not hear each other supplied the same replica, and each copy that began ended the other one.
    #[test]
    fn counterexample_99_a_copy_does_not_end_one_that_goes_on() {
        let begin = |pages| BasePage::Begin(place(7, pages), 0);
        let (first, second) = (ReplicaSlot(1), ReplicaSlot(2));
        let lately = Some((first, Duration::from_secs(1)));
        assert!(ends_another(&begin(0), second, lately));
        assert!(!ends_another(&begin(0), first, lately), "it begins again");
        assert!(!ends_another(&begin(3), second, lately), "it goes on");
        let silent = Some((first, SUPPLIER_PATIENCE));
        assert!(!ends_another(&begin(0), second, silent));
        assert!(!ends_another(&begin(0), second, None));
    }

    /// A member that had not heard yet of a file's creation was asked for the contents of a copy. It took the file for a removed one.
    #[test]
    fn counterexample_103_a_file_that_is_not_known_yet_is_not_taken_for_one_that_is_gone() {
        let [known, unknown] = [1, 2].map(|number| ObjectId::new(ReplicaSlot(3), number).unwrap());
        let wanted = |files: &[ObjectId], place| Wanted {
            copy: true,
            applied: 0,
            files: files.to_vec(),
            first: true,
            last: true,
            named: 0,
            turn: 0,
            places: vec![(3, place)],
        };
        let waits = |wanted: Wanted| may_not_know_yet(&wanted, |file| file == known, |_| 7);
        assert!(waits(wanted(&[known, unknown], 8)));
        assert!(!waits(wanted(&[known, unknown], 7)), "it is gone");
        assert!(!waits(wanted(&[known], 8)));
    }

    #[test]
    fn a_copy_begins_only_where_none_is() {
        let begin = |pages| BasePage::Begin(place(7, pages), 0);
        assert!(is_awaited(&begin(0), Held::Nothing, Some(place(6, 9))));
        assert!(is_awaited(&begin(2), Held::Nothing, Some(place(7, 3))));
        assert!(!is_awaited(&begin(4), Held::Nothing, Some(place(7, 3))));
        assert!(!is_awaited(&begin(2), Held::Nothing, None));
        for held in [Held::Rows, Held::Everything] {
            assert!(!is_awaited(&begin(0), held, None));
            assert!(!is_awaited(&begin(2), held, Some(place(7, 3))));
        }
        assert!(is_awaited(&BasePage::Complete, Held::Rows, None));
        assert!(!is_awaited(&BasePage::Complete, Held::Nothing, None));
    }
}
