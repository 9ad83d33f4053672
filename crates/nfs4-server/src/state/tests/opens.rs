//! Stateids of opens and locks.

use nfs4::Stateid4;
use vfs::Share;

use super::*;
use crate::state::stateid::Seqid;

const READ: Share = Share {
    read: true,
    write: false,
    deny_read: false,
    deny_write: false,
};
const WRITE: Share = Share {
    read: false,
    write: true,
    deny_read: false,
    deny_write: false,
};

impl Table {
    /// Opens the first file.
    fn open(&mut self, client: ClientId, owner: &[u8], share: Share) -> Stateid4 {
        let granted = self.state.record_open(client, owner, file(1), share);
        granted.unwrap().stateid
    }
}

#[test]
fn opening_again_adds_to_the_same_state() {
    let mut table = Table::new();
    let (client, _) = table.client("a");
    let first = table.open(client, b"o", READ);
    let second = table.open(client, b"o", WRITE);
    assert_eq!(first.other, second.other);
    assert_eq!((first.seqid, second.seqid), (1, 2));
    let old = table.state.open_file(client, &first, file(1));
    assert_eq!(old.unwrap_err(), NfsStat4::OldStateid);
    let open = table.state.open_file(client, &second, file(1)).unwrap();
    assert!(open.share.read && open.share.write);
    let other_owner = table.open(client, b"p", READ);
    assert_ne!(other_owner.other, first.other);
}

#[test]
fn stateids_are_good_only_for_their_client_and_file() {
    let mut table = Table::new();
    let (client, _) = table.client("a");
    let (stranger, _) = table.client("b");
    let stateid = table.open(client, b"o", READ);
    let use_it = |state: &State, client, stateid: &Stateid4, key| {
        state.resolve_for_io(client, stateid, key, StateidUse::Read)
    };
    let used = use_it(&table.state, client, &stateid, file(1));
    assert!(matches!(used, Ok(Resolved::Open(_))));
    for (client, stateid, key) in [
        (stranger, stateid, file(1)),
        (client, stateid, file(2)),
        (
            client,
            Stateid4 {
                seqid: 2,
                ..stateid
            },
            file(1),
        ),
        (
            client,
            Stateid4 {
                seqid: 1,
                other: [0xab; 12],
            },
            file(1),
        ),
        (client, Stateid4::INVALID, file(1)),
    ] {
        assert_eq!(
            use_it(&table.state, client, &stateid, key),
            Err(NfsStat4::BadStateid)
        );
    }
    let newest = Stateid4 {
        seqid: 0,
        ..stateid
    };
    let used = use_it(&table.state, client, &newest, file(1));
    assert!(matches!(used, Ok(Resolved::Open(_))));
}

#[test]
fn writing_needs_an_open_for_writing() {
    let mut table = Table::new();
    let (client, _) = table.client("a");
    let reader = table.open(client, b"r", READ);
    let writer = table.open(client, b"w", WRITE);
    let resolve = |stateid, wanted| table.state.resolve_for_io(client, stateid, file(1), wanted);
    assert_eq!(resolve(&reader, StateidUse::Write), Err(NfsStat4::OpenMode));
    let used = resolve(&writer, StateidUse::Write);
    assert!(matches!(used, Ok(Resolved::Open(_))));
    assert_eq!(resolve(&writer, StateidUse::Read), Ok(Resolved::WriteOnly));
    assert_eq!(
        resolve(&Stateid4::ANONYMOUS, StateidUse::Write),
        Ok(Resolved::Anonymous)
    );
    assert_eq!(
        resolve(&Stateid4::READ_BYPASS, StateidUse::Read),
        Ok(Resolved::ReadBypass)
    );
}

#[test]
fn a_downgrade_goes_back_to_what_was_opened() {
    let mut table = Table::new();
    let (client, _) = table.client("a");
    table.open(client, b"o", READ);
    let both = table.open(client, b"o", READ.union(WRITE));
    let open = table.state.open_file(client, &both, file(1)).unwrap();
    assert!(table.state.may_downgrade(&open, READ));
    assert!(
        !table.state.may_downgrade(&open, WRITE),
        "writing alone was never opened"
    );
    let stateid = table.state.record_downgrade(&open, READ).unwrap();
    assert_eq!(stateid.seqid, 3);
    let open = table.state.open_file(client, &stateid, file(1)).unwrap();
    assert_eq!(open.share, READ);
    assert!(!table.state.may_downgrade(&open, READ.union(WRITE)));
}

#[test]
fn closing_takes_the_locks_along() {
    let mut table = Table::new();
    let (client, _) = table.client("a");
    let stateid = table.open(client, b"o", WRITE);
    let grant = table
        .state
        .first_lock(client, &stateid, b"l", file(1))
        .unwrap();
    let lock = table.state.record_lock(client, &grant, file(1)).unwrap();
    assert_eq!(table.state.test_stateid(client, &lock), NfsStat4::Ok);
    let open = table.state.open_file(client, &stateid, file(1)).unwrap();
    let releases = table.state.remove_open(&open);
    assert!(matches!(&releases[..], [Release::Locks(..)]));
    assert_eq!(
        table.state.test_stateid(client, &lock),
        NfsStat4::BadStateid
    );
    assert_eq!(
        table.state.test_stateid(client, &stateid),
        NfsStat4::BadStateid
    );
}

#[test]
fn a_lock_owner_has_one_state_a_file() {
    let mut table = Table::new();
    let (client, _) = table.client("a");
    let open = table.open(client, b"o", WRITE);
    let grant = table
        .state
        .first_lock(client, &open, b"l", file(1))
        .unwrap();
    let first = table.state.record_lock(client, &grant, file(1)).unwrap();
    let grant = table
        .state
        .first_lock(client, &open, b"l", file(1))
        .unwrap();
    let again = table.state.record_lock(client, &grant, file(1)).unwrap();
    assert_eq!((first.other, again.seqid), (again.other, 2));
    assert!(table.state.known_lock(client, &again, file(1)).is_ok());
    let old = table.state.known_lock(client, &first, file(1));
    assert_eq!(old.unwrap_err(), NfsStat4::OldStateid);
    assert_eq!(
        table.state.freeable_lock(client, &open),
        Err(NfsStat4::LocksHeld)
    );
    assert!(table.state.freeable_lock(client, &again).is_ok());
}

#[test]
fn owners_cannot_be_confused_by_where_one_string_ends() {
    let mut table = Table::new();
    let (ab, _) = table.client("ab");
    let (a, _) = table.client("a");
    let first = table.state.open_owner(ab, b"c").unwrap();
    let second = table.state.open_owner(a, b"bc").unwrap();
    assert_ne!(first, second);
}

/// Behind 2^32 - 1 comes one: what was before was taken for what is yet to come, so clients were told that the state is gone.
#[test]
fn sequence_numbers_of_stateids_start_again_at_one() {
    let mut table = Table::new();
    let (client, _) = table.client("a");
    let open = |table: &mut Table| table.open(client, b"o", READ);
    let lock = |table: &mut Table, open: &Stateid4| {
        let grant = table.state.first_lock(client, open, b"l", file(1)).unwrap();
        table.state.record_lock(client, &grant, file(1)).unwrap()
    };
    let first = open(&mut table);
    lock(&mut table, &first);
    let before = u64::from(u32::MAX) - 1;
    let state = &mut table.state;
    let opens = state.opens.values_mut().map(|open| &mut open.seqid);
    let locks = state.locks.values_mut().map(|lock| &mut lock.seqid);
    opens
        .chain(locks)
        .for_each(|seqid| *seqid = Seqid(before - 1));
    let opens: Vec<Stateid4> = (0..4).map(|_| open(&mut table)).collect();
    let locks: Vec<Stateid4> = (0..4).map(|_| lock(&mut table, &opens[3])).collect();
    for all in [opens, locks] {
        let numbers: Vec<u32> = all.iter().map(|stateid| stateid.seqid).collect();
        assert_eq!(numbers, [u32::MAX - 1, u32::MAX, 1, 2]);
        let told = |stateid: Stateid4| {
            let used = (table.state).resolve_for_io(client, &stateid, file(1), StateidUse::Read);
            let told = table.state.test_stateid(client, &stateid);
            assert_eq!(used.err().unwrap_or(NfsStat4::Ok), told);
            told
        };
        for old in &all[..3] {
            assert_eq!(told(*old), NfsStat4::OldStateid);
        }
        let with = |seqid| Stateid4 { seqid, ..all[3] };
        assert_eq!(told(with(2)), NfsStat4::Ok);
        assert_eq!(told(with(0)), NfsStat4::Ok);
        assert_eq!(told(with(3)), NfsStat4::BadStateid);
        assert_eq!(told(with(u32::MAX / 2)), NfsStat4::BadStateid);
        assert_eq!(told(with(u32::MAX / 2 + 10)), NfsStat4::OldStateid);
    }
}

/// What is far behind before any number has come again never was.
#[test]
fn a_sequence_number_that_never_was_is_not_old() {
    let mut table = Table::new();
    let (client, _) = table.client("a");
    let open = table.open(client, b"o", READ);
    for seqid in [2, u32::MAX, u32::MAX / 2] {
        let stateid = Stateid4 { seqid, ..open };
        let told = table.state.test_stateid(client, &stateid);
        assert_eq!(told, NfsStat4::BadStateid, "{seqid}");
    }
}
