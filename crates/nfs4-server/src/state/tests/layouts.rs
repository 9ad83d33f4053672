//! Layouts: what their stateids are worth, and what ends them (RFC 8881, sections 12.5.3 and 12.5.5).

use nfs4::{LayoutIomode4, Stateid4};
use vfs::Share;

use super::*;
use crate::layouts::LayoutAccess;
use crate::state::stateid::Seqid;

const READ: Share = Share {
    read: true,
    write: false,
    deny_read: false,
    deny_write: false,
};
const BOTH: Share = Share {
    write: true,
    ..READ
};

/// A client that has a file open.
struct Holder {
    table: Table,
    client: ClientId,
    open: Stateid4,
}

impl Holder {
    fn with(share: Share) -> Holder {
        let mut table = Table::new();
        let (client, _) = table.client("a");
        let open = table.state.record_open(client, b"o", file(1), share);
        let open = open.unwrap().stateid;
        Holder {
            table,
            client,
            open,
        }
    }

    fn begin(&mut self, by: Stateid4, access: LayoutAccess) -> Result<LayoutHolder, NfsStat4> {
        let state = &mut self.table.state;
        state.begin_layout(self.client, &by, file(1), access)
    }

    /// A layout that the home gives at once.
    fn get(&mut self, by: Stateid4, access: LayoutAccess) -> Result<Stateid4, NfsStat4> {
        let holder = self.begin(by, access)?;
        self.table.state.record_layout(holder, access)
    }

    fn give_back(
        &mut self,
        by: Stateid4,
        iomode: LayoutIomode4,
    ) -> Result<(Option<Stateid4>, Option<Release>), NfsStat4> {
        let state = &mut self.table.state;
        state.return_layout(self.client, &by, file(1), (iomode, true))
    }

    fn recall(&mut self, layout: Stateid4) -> Option<Stateid4> {
        let holder = holder_of(layout);
        let (client, key, stateid) = self.table.state.recall_layout(holder)?;
        assert_eq!((client, key), (self.client, file(1)));
        Some(stateid)
    }
}

fn holder_of(layout: Stateid4) -> LayoutHolder {
    let mut number = [0; 8];
    number[2..].copy_from_slice(&layout.other[6..]);
    LayoutHolder(u64::from_be_bytes(number))
}

fn ended(layout: Stateid4, end: LayoutEnd) -> Release {
    Release::Layout(file(1), holder_of(layout), end)
}

fn with_seqid(stateid: Stateid4, seqid: u32) -> Stateid4 {
    Stateid4 { seqid, ..stateid }
}

#[test]
fn all_layouts_of_a_file_are_one_state_whose_number_grows() {
    let mut holder = Holder::with(BOTH);
    let open = holder.open;
    let first = holder.get(open, LayoutAccess::Read).unwrap();
    let second = holder.get(first, LayoutAccess::ReadWrite).unwrap();
    // Two may be under way with the same number.
    let third = holder.get(first, LayoutAccess::Read).unwrap();
    let fourth = holder.get(open, LayoutAccess::Read).unwrap();
    let numbers = [first, second, third, fourth].map(|stateid| stateid.seqid);
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert!(
        [second, third, fourth]
            .iter()
            .all(|one| one.other == first.other)
    );
    for wrong in [0, 5, u32::MAX] {
        let refused = holder.get(with_seqid(first, wrong), LayoutAccess::Read);
        assert_eq!(refused, Err(NfsStat4::BadStateid), "{wrong}");
    }
    for special in [
        Stateid4::ANONYMOUS,
        Stateid4::READ_BYPASS,
        Stateid4::INVALID,
    ] {
        let refused = holder.get(special, LayoutAccess::Read);
        assert_eq!(refused, Err(NfsStat4::BadStateid));
    }
    // A layout is no right to read and write at the metadata server (RFC 8881, section 13.9.1).
    let state = &holder.table.state;
    let used = state.resolve_for_io(holder.client, &fourth, file(1), StateidUse::Read);
    assert_eq!(used, Err(NfsStat4::BadStateid));
    assert_eq!(state.test_stateid(holder.client, &fourth), NfsStat4::Ok);
    let freed = state.freeable_lock(holder.client, &fourth);
    assert_eq!(freed, Err(NfsStat4::LocksHeld));
}

#[test]
fn a_layout_allows_no_more_than_the_opens() {
    let mut holder = Holder::with(READ);
    let open = holder.open;
    let refused = holder.get(open, LayoutAccess::ReadWrite);
    assert_eq!(refused, Err(NfsStat4::OpenMode));
    let layout = holder.get(open, LayoutAccess::Read).unwrap();
    let refused = holder.get(layout, LayoutAccess::ReadWrite);
    assert_eq!(refused, Err(NfsStat4::OpenMode));
    let state = &mut holder.table.state;
    let refused = state.committed_layout(holder.client, &layout, file(1));
    assert_eq!(refused, Err(NfsStat4::BadIoMode));
    let (stranger, _) = holder.table.client("b");
    let state = &mut holder.table.state;
    for by in [open, layout] {
        let refused = state.begin_layout(stranger, &by, file(1), LayoutAccess::Read);
        assert_eq!(refused, Err(NfsStat4::BadStateid));
        let elsewhere = state.begin_layout(holder.client, &by, file(2), LayoutAccess::Read);
        assert_eq!(elsewhere, Err(NfsStat4::BadStateid));
    }
}

#[test]
fn a_recall_has_the_next_number_and_keeps_it_when_it_is_repeated() {
    let mut holder = Holder::with(BOTH);
    let open = holder.open;
    let pending = holder.begin(open, LayoutAccess::Read).unwrap();
    // The client cannot know of it yet.
    assert_eq!(holder.table.state.recall_layout(pending), None);
    let layout = holder
        .table
        .state
        .record_layout(pending, LayoutAccess::Read);
    let layout = layout.unwrap();
    let recall = holder.recall(layout).unwrap();
    assert_eq!(recall, with_seqid(layout, 2));
    assert_eq!(holder.recall(layout), Some(recall));
    // The client has seen the recall, or not.
    for seen in [recall, layout] {
        let state = &holder.table.state;
        let known = state.committed_layout(holder.client, &seen, file(1));
        assert_eq!(known, Err(NfsStat4::BadIoMode));
    }
    let (kept, end) = holder.give_back(layout, LayoutIomode4::Any).unwrap();
    assert_eq!(
        (kept, end),
        (None, Some(ended(layout, LayoutEnd::Returned)))
    );
    assert_eq!(holder.recall(layout), None);
    let late = holder.give_back(recall, LayoutIomode4::Any);
    assert_eq!(late, Err(NfsStat4::BadStateid));
}

#[test]
fn a_client_that_knows_of_no_layout_has_none() {
    let mut holder = Holder::with(BOTH);
    let open = holder.open;
    let layout = holder.get(open, LayoutAccess::ReadWrite).unwrap();
    let holder_number = holder_of(layout);
    assert_eq!(holder.table.state.layout_is_unknown(holder_number), None);
    holder.recall(layout).unwrap();
    // A reply is on its way that the client may not have seen when it answered.
    holder.begin(open, LayoutAccess::Read).unwrap();
    assert_eq!(holder.table.state.layout_is_unknown(holder_number), None);
    assert_eq!(holder.table.state.abandon_layout(holder_number), None);
    let end = holder.table.state.layout_is_unknown(holder_number);
    assert_eq!(end, Some(ended(layout, LayoutEnd::Returned)));
}

#[test]
fn what_the_client_has_not_seen_is_not_given_back() {
    let mut holder = Holder::with(BOTH);
    let open = holder.open;
    let first = holder.get(open, LayoutAccess::Read).unwrap();
    let second = holder.get(first, LayoutAccess::ReadWrite).unwrap();
    let refused = holder.give_back(first, LayoutIomode4::Any);
    assert_eq!(refused, Err(NfsStat4::OldStateid));
    let (kept, end) = holder.give_back(second, LayoutIomode4::ReadWrite).unwrap();
    assert_eq!((kept, end), (Some(with_seqid(first, 3)), None));
    let commits = (holder.table.state).committed_layout(holder.client, &kept.unwrap(), file(1));
    assert_eq!(commits, Err(NfsStat4::BadIoMode));
    let (kept, end) = holder
        .give_back(kept.unwrap(), LayoutIomode4::Read)
        .unwrap();
    assert_eq!((kept, end), (None, Some(ended(first, LayoutEnd::Returned))));
    let commits = (holder.table.state).committed_layout(holder.client, &second, file(1));
    assert_eq!(commits, Err(NfsStat4::BadLayout));
}

#[test]
fn what_is_given_back_while_more_is_asked_for_ends_both() {
    let mut holder = Holder::with(BOTH);
    let open = holder.open;
    let first = holder.get(open, LayoutAccess::Read).unwrap();
    let pending = holder.begin(first, LayoutAccess::ReadWrite).unwrap();
    let (kept, end) = holder.give_back(first, LayoutIomode4::Any).unwrap();
    assert!(kept.is_none() && end.is_some());
    let late = (holder.table.state).record_layout(pending, LayoutAccess::ReadWrite);
    assert_eq!(late, Err(NfsStat4::ReturnConflict));
    let again = holder.get(open, LayoutAccess::Read).unwrap();
    assert_ne!(again.other, first.other);
    assert_eq!(again.seqid, 1);
}

#[test]
fn layouts_end_with_the_last_open_and_lose_what_it_allowed() {
    let mut holder = Holder::with(BOTH);
    let (client, open) = (holder.client, holder.open);
    let state = &mut holder.table.state;
    let reader = state.record_open(client, b"p", file(1), READ).unwrap();
    let layout = holder.get(open, LayoutAccess::ReadWrite).unwrap();
    let state = &mut holder.table.state;
    let reader = state.open_file(client, &reader.stateid, file(1)).unwrap();
    let writer = state.open_file(client, &open, file(1)).unwrap();
    assert_eq!(state.layout_without(&reader, None), None);
    assert_eq!(state.layout_without(&writer, Some(BOTH)), None);
    // Nobody may be given the right to keep writers out before the client cannot write any more.
    let end = state.layout_without(&writer, Some(READ));
    assert_eq!(end, Some(ended(layout, LayoutEnd::Lost)));
    state.record_downgrade(&writer, READ).unwrap();
    let newest = with_seqid(open, 2);
    let layout = holder.get(newest, LayoutAccess::Read).unwrap();
    let state = &mut holder.table.state;
    assert_eq!(state.layout_without(&writer, None), None);
    state.remove_open(&writer);
    let end = state.layout_without(&reader, None);
    assert_eq!(end, Some(ended(layout, LayoutEnd::Returned)));
    state.remove_open(&reader);
    assert_eq!(state.counts().memory.states, 0);
}

#[test]
fn who_goes_loses_layouts_before_anything_else_is_let_go() {
    let mut holder = Holder::with(BOTH);
    let open = holder.open;
    let layout = holder.get(open, LayoutAccess::ReadWrite).unwrap();
    let refused = holder.table.state.destroy_client(holder.client, false);
    assert_eq!(refused, Err(NfsStat4::ClientidBusy));
    let (_, departure) = holder.table.state.evict(holder.client);
    let departure = departure.unwrap();
    let state = &mut holder.table.state;
    let record = state.next_releases(&departure).unwrap();
    assert!(matches!(&record[..], [Release::Record(_)]));
    let layouts = state.next_releases(&departure).unwrap();
    assert_eq!(layouts, [ended(layout, LayoutEnd::Lost)]);
    let opens = state.next_releases(&departure).unwrap();
    assert!(matches!(&opens[..], [Release::Open(..)]));
    assert_eq!(state.next_releases(&departure), None);
    assert_eq!(state.counts().memory.states, 0);
}

#[test]
fn a_client_gives_back_all_layouts_of_a_tree_or_all_it_has() {
    let mut holder = Holder::with(BOTH);
    let (client, open) = (holder.client, holder.open);
    let first = holder.get(open, LayoutAccess::Read).unwrap();
    let elsewhere = FileKey { tree: 1, ..file(2) };
    let state = &mut holder.table.state;
    let open = state.record_open(client, b"o", elsewhere, READ).unwrap();
    let other = state
        .begin_layout(client, &open.stateid, elsewhere, LayoutAccess::Read)
        .unwrap();
    state.record_layout(other, LayoutAccess::Read).unwrap();
    let nothing = state.return_layouts(client, Some(0), LayoutIomode4::ReadWrite);
    assert_eq!(nothing, []);
    let of_tree = state.return_layouts(client, Some(0), LayoutIomode4::Any);
    assert_eq!(of_tree, [ended(first, LayoutEnd::Returned)]);
    let rest = state.return_layouts(client, None, LayoutIomode4::Any);
    assert_eq!(
        rest,
        [Release::Layout(elsewhere, other, LayoutEnd::Returned)]
    );
}

#[test]
fn a_client_hears_once_of_a_device_that_it_asked_about() {
    let mut table = Table::new();
    let (client, _) = table.client("a");
    let (other, _) = table.client("b");
    let device = crate::layouts::DeviceId([1; 16]);
    assert!(table.state.watch_device(client, device, true));
    assert!(!table.state.watch_device(other, device, false));
    assert_eq!(table.state.device_gone(device), [client]);
    assert_eq!(table.state.device_gone(device), []);
    for number in 0..=u8::MAX {
        let device = crate::layouts::DeviceId([number; 16]);
        assert!(table.state.watch_device(client, device, true), "{number}");
    }
    let one_more = crate::layouts::DeviceId([1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert!(!table.state.watch_device(client, one_more, true));
}

#[test]
fn the_numbers_of_a_layout_start_again_at_one() {
    let mut holder = Holder::with(BOTH);
    let open = holder.open;
    let first = holder.get(open, LayoutAccess::ReadWrite).unwrap();
    let layout = holder.table.state.layouts.all.get_mut(&holder_of(first).0);
    layout.unwrap().seqid = Seqid(u64::from(u32::MAX) - 1);
    let get = |holder: &mut Holder, by| holder.get(by, LayoutAccess::ReadWrite);
    let last = get(&mut holder, open).unwrap();
    assert_eq!(last.seqid, u32::MAX);
    // Two that were asked for with the number before.
    let (anew, second) = (get(&mut holder, last), get(&mut holder, last));
    let (anew, second) = (anew.unwrap(), second.unwrap());
    assert_eq!((anew.seqid, second.seqid), (1, 2));
    for wrong in [0, 3] {
        let told = get(&mut holder, with_seqid(second, wrong));
        assert_eq!(told, Err(NfsStat4::BadStateid), "{wrong}");
    }
    let recalled = holder.recall(second).unwrap();
    assert_eq!(recalled.seqid, 3);
    for early in [last, anew] {
        let told = holder.give_back(early, LayoutIomode4::Any);
        assert_eq!(told, Err(NfsStat4::OldStateid));
    }
    let (kept, end) = holder.give_back(second, LayoutIomode4::Any).unwrap();
    assert_eq!((kept, end), (None, Some(ended(first, LayoutEnd::Returned))));
}
