//! The embedded store as we use it: scans, pictures of one moment, long rows, lost sectors.

use super::*;

#[test]
fn scans_stay_inside_their_prefix_and_table() {
    let directory = tempfile::tempdir().unwrap();
    let metadata = Metadata::open(directory.path(), 1 << 20, false).unwrap();
    let mut batch = metadata.batch();
    for key in [&[1, 1][..], &[1, 2], &[1, 3], &[2, 1]] {
        batch.put(Table::Links, key, b"");
    }
    batch.put(Table::Xattrs, &[1, 9], b"other table");
    batch.commit().unwrap();
    let view = metadata.view();
    let keys = |prefix: &[u8], from: &[u8]| -> Vec<Vec<u8>> {
        let rows = view.scan(Table::Links, prefix, from);
        rows.map(|row| row.unwrap().key().to_vec()).collect()
    };
    assert_eq!(keys(&[1], &[1, 2]), [[1, 2], [1, 3]]);
    assert_eq!(keys(&[], &[]).len(), 4);
    assert!(keys(&[3], &[]).is_empty());
}

#[test]
fn long_rows_are_whole_again_and_leave_no_pieces() {
    let directory = tempfile::tempdir().unwrap();
    let metadata = Metadata::open(directory.path(), 1 << 20, false).unwrap();
    let pieces = || metadata.view().scan(Table::Pieces, &[], &[]).count();
    let long = |length: usize| -> Vec<u8> { (0..length).map(|at| (at % 251) as u8).collect() };
    for (length, expected) in [
        (400, 0),
        (401, 2),
        (65_000, 163),
        (900, 3),
        (10, 0),
        (5000, 13),
    ] {
        let mut batch = metadata.batch();
        batch.put(Table::Xattrs, b"key", &long(length));
        batch.put(Table::Objects, b"key", &long(5000));
        batch.commit().unwrap();
        assert_eq!(
            &*metadata.row(Table::Xattrs, b"key").unwrap().unwrap(),
            long(length)
        );
        assert_eq!(
            &*metadata.row(Table::Objects, b"key").unwrap().unwrap(),
            long(5000)
        );
        let view = metadata.view();
        let found = view.scan(Table::Xattrs, &[], &[]).next().unwrap().unwrap();
        assert_eq!(
            (found.key(), found.value()),
            (&b"key"[..], &long(length)[..])
        );
        assert_eq!(pieces(), expected + 13, "{length} bytes");
    }
    let mut batch = metadata.batch();
    batch.remove(Table::Xattrs, b"key");
    batch.remove(Table::Objects, b"key");
    batch.commit().unwrap();
    assert_eq!(pieces(), 0);
}

/// Copies a database as a power failure would leave it, with one sector of the journal lost. Says
/// whether the journal ends before that sector.
fn lose_sector(from: &Path, to: &Path, sector: usize) -> bool {
    let mut ended = false;
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let target = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            lose_sector(&file.path(), &target, usize::MAX);
            continue;
        }
        let mut bytes = std::fs::read(file.path()).unwrap();
        if file
            .path()
            .extension()
            .is_some_and(|extension| extension == "jnl")
        {
            let end = bytes
                .iter()
                .rposition(|byte| *byte != 0)
                .map_or(0, |last| last + 1);
            bytes.truncate(end);
            let start = sector.saturating_mul(512);
            ended = start >= end;
            if let Some(lost) = bytes.get_mut(start..end.min(start.saturating_add(512))) {
                lost.fill(0);
            }
            bytes.resize(1 << 20, 0);
        }
        std::fs::write(target, bytes).unwrap();
    }
    ended
}

/// A lost sector inside a long value made fjall refuse to open instead of dropping the tail.
#[test]
fn whatever_sector_of_the_journal_is_lost_a_prefix_of_the_batches_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let metadata = Metadata::open(directory.path(), 1 << 20, true).unwrap();
    let lengths = [3000, 10, 450, 1200, 399, 5000, 90, 2047];
    for (number, length) in (0_u8..).zip(lengths) {
        let mut batch = metadata.batch();
        // No value holds zeros, so that every lost sector is a loss.
        batch.put(Table::Xattrs, &[number; 16], &vec![number + 1; length]);
        batch.put(Table::Objects, &[number; 8], &[number + 1; 90]);
        batch.commit().unwrap();
    }
    for sector in 0.. {
        let copy = tempfile::tempdir().unwrap();
        let ended = lose_sector(directory.path(), copy.path(), sector);
        let torn = Metadata::open(copy.path(), 1 << 20, true).unwrap();
        let mut before = true;
        for (number, length) in (0_u8..).zip(lengths) {
            let long = torn.row(Table::Xattrs, &[number; 16]).unwrap();
            let short = torn.row(Table::Objects, &[number; 8]).unwrap();
            assert_eq!(
                long.is_some(),
                short.is_some(),
                "half of batch {number}, {sector}"
            );
            assert!(
                before || long.is_none(),
                "a hole before batch {number}, {sector}"
            );
            before = long.is_some();
            if let Some(long) = long {
                assert_eq!(&*long, vec![number + 1; length]);
            }
        }
        assert_eq!(before, ended, "sector {sector} of the journal");
        if ended {
            assert!(sector > 20, "the journal is longer than that");
            break;
        }
    }
}

#[test]
fn a_view_does_not_see_later_batches() {
    let directory = tempfile::tempdir().unwrap();
    let metadata = Metadata::open(directory.path(), 1 << 20, false).unwrap();
    let view = metadata.view();
    let mut batch = metadata.batch();
    batch.put(Table::Objects, b"k", b"v");
    batch.commit().unwrap();
    assert!(view.row(Table::Objects, b"k").unwrap().is_none());
    assert_eq!(&*metadata.row(Table::Objects, b"k").unwrap().unwrap(), b"v");
}

#[test]
fn the_successor_of_a_prefix_skips_full_bytes() {
    assert_eq!(successor(&[1, 0xff]), Some(vec![2]));
    assert_eq!(successor(&[0xff]), None);
    assert_eq!(successor(&[]), None);
}
