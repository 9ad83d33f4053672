//! Tests of the embedded store as the store uses it: scans, snapshots, long rows, lost sectors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

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

/// Copies a database as a power failure would leave it, with one sector of the journal lost. Returns
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
        // No value contains zeros, so that every lost sector is a loss.
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

/// Every file below a directory, with its bytes and its modification time.
fn everything(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut files = BTreeMap::new();
    for found in std::fs::read_dir(folder).unwrap() {
        let path = found.unwrap().path();
        if path.is_dir() {
            files.extend(everything(&path));
        } else {
            let changed = path.metadata().unwrap().modified().unwrap();
            files.insert(path.clone(), (std::fs::read(&path).unwrap(), changed));
        }
    }
    files
}

fn put_numbers(metadata: &Metadata, numbers: std::ops::Range<u8>) {
    for number in numbers {
        let mut batch = metadata.batch();
        batch.put(Table::Objects, &[number; 8], &[number + 1; 90]);
        batch.put(Table::Links, &[number; 24], b"");
        batch.commit().unwrap();
    }
}

fn damage_of<T>(opened: Result<T, OpenError>) -> Damage {
    match opened {
        Err(OpenError::Damaged(damage)) => damage,
        Err(OpenError::Failed(error)) => panic!("{error}"),
        Ok(_) => panic!("it opens"),
    }
}

/// The embedded store cuts a journal at the first thing that it cannot read. It took a flipped bit in the middle of stable
/// data for a torn end, and silently removed everything after it.
#[test]
fn what_was_stable_and_cannot_be_read_is_refused_and_nothing_is_changed() {
    let directory = tempfile::tempdir().unwrap();
    let metadata = Metadata::open(directory.path(), 1 << 20, true).unwrap();
    put_numbers(&metadata, 0..20);
    metadata.persist().unwrap();
    for sector in 0.. {
        let copy = tempfile::tempdir().unwrap();
        if lose_sector(directory.path(), copy.path(), sector) {
            assert!(sector > 6, "the journal is longer than that");
            break;
        }
        let before = everything(copy.path());
        let damage = damage_of(Metadata::open(copy.path(), 1 << 20, true));
        assert!(damage.path.ends_with("0.jnl"), "{damage:?}");
        assert!(damage.what.contains("operation"), "{damage:?}");
        damage_of(Metadata::open_unchanged(copy.path(), 1 << 20));
        assert_eq!(everything(copy.path()), before, "sector {sector}");

        let shelf = copy.path().join("shelf");
        let lost = Metadata::give_up_damaged(copy.path(), &shelf).unwrap();
        assert_eq!(lost.len(), 1, "{lost:?}");
        let kept = Metadata::open(copy.path(), 1 << 20, true).unwrap();
        let row = |number: u8| kept.row(Table::Objects, &[number; 8]).unwrap().is_some();
        let first_lost = (0..20).find(|number| !row(*number)).unwrap();
        assert!(
            (first_lost..20).all(|number| !row(number)),
            "it is no prefix"
        );
        put_numbers(&kept, 40..42);
        kept.persist().unwrap();
        drop(kept);
        drop(Metadata::open(copy.path(), 1 << 20, true).unwrap());
        assert!(
            shelf.join("0.jnl.0").exists(),
            "the damaged journal is kept"
        );
    }
}

/// Data that was not stable may be torn. Any remains of it after a power failure do not prevent opening.
#[test]
fn what_was_never_stable_may_be_torn() {
    let directory = tempfile::tempdir().unwrap();
    let metadata = Metadata::open(directory.path(), 1 << 20, true).unwrap();
    put_numbers(&metadata, 0..5);
    metadata.persist().unwrap();
    let journal = directory.path().join("0.jnl");
    let end = examination::read_journal_bytes(&journal).unwrap().len();
    put_numbers(&metadata, 5..20);
    for sector in (end / 512 + 1).. {
        let copy = tempfile::tempdir().unwrap();
        if lose_sector(directory.path(), copy.path(), sector) {
            assert!(sector > end / 512 + 3, "the journal is longer than that");
            break;
        }
        let torn = Metadata::open(copy.path(), 1 << 20, true).unwrap();
        let row = |number: u8| torn.row(Table::Objects, &[number; 8]).unwrap().is_some();
        assert!((0..5).all(row), "sector {sector}");
    }
}

#[test]
fn journals_that_are_gone_or_older_are_missed() {
    let directory = tempfile::tempdir().unwrap();
    let metadata = Metadata::open(directory.path(), 1 << 20, true).unwrap();
    let journal = directory.path().join("0.jnl");
    put_numbers(&metadata, 0..5);
    metadata.persist().unwrap();
    let older = std::fs::read(&journal).unwrap();
    put_numbers(&metadata, 5..10);
    metadata.persist().unwrap();
    drop(metadata);
    let whole = std::fs::read(&journal).unwrap();
    std::fs::write(&journal, older).unwrap();
    let damage = damage_of(Metadata::open(directory.path(), 1 << 20, true));
    assert!(
        damage.what.contains("all up to 10 were stable"),
        "{damage:?}"
    );
    std::fs::write(&journal, b"").unwrap();
    damage_of(Metadata::open_unchanged(directory.path(), 1 << 20));
    std::fs::remove_file(&journal).unwrap();
    let damage = damage_of(Metadata::open(directory.path(), 1 << 20, true));
    assert!(damage.what.contains("no journal"), "{damage:?}");
    // One journal in the place of another.
    std::fs::write(directory.path().join("1.jnl"), &whole).unwrap();
    std::fs::write(&journal, &whole).unwrap();
    let damage = damage_of(Metadata::open(directory.path(), 1 << 20, true));
    assert!(damage.what.contains("out of order"), "{damage:?}");
    std::fs::remove_file(directory.path().join("1.jnl")).unwrap();
    drop(Metadata::open(directory.path(), 1 << 20, true).unwrap());
}

/// The only journal was emptied, removed, or damaged from its first byte on: the rows were refused, without a remedy.
#[test]
fn a_journal_that_is_lost_as_a_whole_can_be_given_up() {
    for damage in ["emptied", "removed", "damaged at its beginning"] {
        let directory = tempfile::tempdir().unwrap();
        let metadata = Metadata::open(directory.path(), 1 << 20, true).unwrap();
        put_numbers(&metadata, 0..5);
        metadata.persist().unwrap();
        drop(metadata);
        let journal = directory.path().join("0.jnl");
        match damage {
            "emptied" => std::fs::write(&journal, b"").unwrap(),
            "removed" => std::fs::remove_file(&journal).unwrap(),
            _ => {
                let mut bytes = std::fs::read(&journal).unwrap();
                bytes[0] ^= 4;
                std::fs::write(&journal, bytes).unwrap();
            }
        }
        let found = damage_of(Metadata::open(directory.path(), 1 << 20, true));
        assert!(found.can_be_given_up(), "{damage}: {found:?}");
        let shelf = directory.path().join("shelf");
        let lost = Metadata::give_up_damaged(directory.path(), &shelf).unwrap();
        assert_eq!(lost.len(), 1, "{damage}: {lost:?}");
        let kept = Metadata::open(directory.path(), 1 << 20, true).unwrap();
        put_numbers(&kept, 10..12);
        kept.persist().unwrap();
        drop(kept);
        let kept = Metadata::open(directory.path(), 1 << 20, true).unwrap();
        let row = |number: u8| kept.row(Table::Objects, &[number; 8]).unwrap().is_some();
        assert!(!row(0) && row(11), "{damage}");
    }
}

/// A power failure that tore the beginning of a new journal was refused as damage, because the note of what was
/// stable named that journal before it held anything.
#[test]
fn what_is_torn_at_the_beginning_of_a_new_journal_is_no_damage() {
    let directory = tempfile::tempdir().unwrap();
    let metadata = Metadata::open(directory.path(), 1 << 20, true).unwrap();
    put_numbers(&metadata, 0..5);
    for keyspace in [&metadata.objects, &metadata.entries, &metadata.others] {
        keyspace.rotate_memtable_and_wait().unwrap();
    }
    metadata.persist().unwrap();
    drop(metadata);
    // As the embedded store does once all rows are in tables.
    std::fs::remove_file(directory.path().join("0.jnl")).unwrap();
    std::fs::write(directory.path().join("1.jnl"), b"").unwrap();
    let metadata = Metadata::open(directory.path(), 1 << 20, true).unwrap();
    metadata.persist().unwrap();
    put_numbers(&metadata, 5..9);
    let copy = tempfile::tempdir().unwrap();
    assert!(!lose_sector(directory.path(), copy.path(), 0));
    let torn = Metadata::open(copy.path(), 1 << 20, true).unwrap();
    let row = |number: u8| torn.row(Table::Objects, &[number; 8]).unwrap().is_some();
    assert!((0..5).all(row) && !row(5));
    // Once the batch is stable, the same is damage.
    metadata.persist().unwrap();
    let copy = tempfile::tempdir().unwrap();
    assert!(!lose_sector(directory.path(), copy.path(), 0));
    damage_of(Metadata::open(copy.path(), 1 << 20, true));
}

/// Without `current` the embedded store removes a whole keyspace, and it trusts a list of tables without verifying its checksum.
#[test]
fn a_damaged_list_of_tables_is_refused() {
    for (file, damage) in [
        ("current", None),
        ("v0", None),
        ("v0", Some(9)),
        ("current", Some(3)),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let metadata = Metadata::open(directory.path(), 1 << 20, true).unwrap();
        put_numbers(&metadata, 0..5);
        metadata.persist().unwrap();
        drop(metadata);
        let path = directory.path().join("keyspaces/2").join(file);
        match damage {
            None => std::fs::remove_file(&path).unwrap(),
            Some(at) => {
                let mut bytes = std::fs::read(&path).unwrap();
                bytes[at] ^= 1;
                std::fs::write(&path, bytes).unwrap();
            }
        }
        let before = everything(directory.path());
        damage_of(Metadata::open(directory.path(), 1 << 20, true));
        assert_eq!(everything(directory.path()), before, "{file}");
    }
}

/// Pins the format that [`framing`] reads to the one that this version of the embedded store writes.
#[test]
fn the_journal_is_read_as_the_embedded_store_writes_it() {
    let directory = tempfile::tempdir().unwrap();
    let metadata = Metadata::open(directory.path(), 1 << 20, true).unwrap();
    put_numbers(&metadata, 0..3);
    let mut batch = metadata.batch();
    batch.remove(Table::Objects, &[1; 8]);
    batch.commit().unwrap();
    metadata.persist().unwrap();
    let bytes = examination::read_journal_bytes(&directory.path().join("0.jnl")).unwrap();
    let (mut at, mut numbers) = (0, Vec::new());
    while at < bytes.len() {
        let batch = framing::batch(&bytes[at..], &number_key()).expect("another format");
        numbers.extend(batch.number);
        at += batch.length;
    }
    assert_eq!(numbers, [1, 2, 3, 4]);
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
