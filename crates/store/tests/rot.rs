//! A faulty disk: files of a store are damaged on purpose, each kind of file in each kind of way. The result
//! is either correct, or refused with a remedy; answered data is never missing silently.
//!
//! `STORE_ROT_SEED` chooses other damage. Without `STORE_ROT_ROUNDS` each journal is damaged in each way, and some files of every other
//! kind in one way each; with it, every file is damaged in each way, this many times.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::fixture::pair::Pair;
use crate::fixture::random::Random;
use crate::fixture::{Fixture, name, root, symlink};
use bytes::Bytes;
use store::{CommitMode, NewStore, Store, StoreError, StoreOptions};
use vfs::{AccessCheck, Error, FileSystem, ObjectId, Stability, XattrMode, XattrName};

const ROOT: ObjectId = ObjectId::ROOT;
const FILES: u32 = 24;
const LARGE: usize = 60_000;

/// The answered state: every name in the root, its content and its attribute.
type Answered = BTreeMap<String, (Bytes, Option<Bytes>)>;

/// The damage of a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    ZeroSector,
    FlipBit,
    Cut,
    Remove,
    Swap,
}

const DAMAGES: [Damage; 5] = [
    Damage::ZeroSector,
    Damage::FlipBit,
    Damage::Cut,
    Damage::Remove,
    Damage::Swap,
];

fn content(number: u32) -> Bytes {
    (0..9000u32)
        .map(|at| (at * 7 + number) as u8 | 1)
        .collect::<Vec<_>>()
        .into()
}

/// Fills a store so that rows are in tables and in its journal; returns the content.
async fn used(fixture: &Fixture) -> Answered {
    let (store, who) = (fixture.store(), root());
    store.end_reclaim().await.unwrap();
    let mut answered = Answered::new();
    for number in 0..FILES {
        let text = format!("f{number}");
        let id = fixture.file(ROOT, &text).await;
        let bytes = content(number);
        let access = AccessCheck::Credentials(&who);
        let written = store.write(access, id, 0, bytes.clone(), Stability::File);
        written.await.unwrap();
        answered.insert(text, (bytes, None));
    }
    // More than a write buffer holds, so that there are tables.
    for number in 0..190 {
        let text = format!("f{}", number % FILES);
        let id = fixture.find(ROOT, &text).await.unwrap();
        let value = Bytes::from(vec![number as u8 + 1; LARGE]);
        let key = XattrName::new(b"user.large".to_vec()).unwrap();
        let set = store.set_xattr(&who, id, &key, value.clone(), XattrMode::Any);
        set.await.unwrap();
        answered.get_mut(&text).unwrap().1 = Some(value);
    }
    for number in (0..FILES).step_by(5) {
        fixture.remove(ROOT, &format!("f{number}")).await.unwrap();
        answered.remove(&format!("f{number}"));
        fixture
            .make(ROOT, &format!("l{number}"), symlink("where"))
            .await
            .unwrap();
        answered.insert(format!("l{number}"), (Bytes::new(), None));
    }
    store.sync().await.unwrap();
    answered
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else {
            found.push(path);
        }
    }
    found.sort();
}

/// Copies a store; files that are never written in place are linked.
fn copy(from: &Path, to: &Path) {
    let mut files = Vec::new();
    files_below(from, &mut files);
    for file in files {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        if file.parent().unwrap().ends_with("tables") {
            fs::hard_link(&file, &target).unwrap();
        } else {
            fs::copy(&file, &target).unwrap();
        }
    }
}

/// Damages a file; returns whether that changed the file.
fn inflict(damage: Damage, path: &Path, random: &mut Random) -> bool {
    let before = fs::read(path).unwrap();
    let mut bytes = before.clone();
    match damage {
        Damage::ZeroSector => {
            let start = random.place(bytes.len().div_ceil(512)) * 512;
            let end = bytes.len().min(start + 512);
            bytes[start..end].fill(0);
        }
        Damage::FlipBit if !bytes.is_empty() => {
            let at = random.place(bytes.len());
            bytes[at] ^= 1 << random.place(8);
        }
        Damage::FlipBit => {}
        Damage::Cut => bytes.truncate(random.place(bytes.len())),
        Damage::Remove => {
            fs::remove_file(path).unwrap();
            return true;
        }
        Damage::Swap => {
            let beside = fs::read_dir(path.parent().unwrap()).unwrap();
            let mut siblings: Vec<_> = beside.map(|found| found.unwrap().path()).collect();
            siblings.retain(|sibling| sibling != path && sibling.is_file());
            siblings.sort();
            if siblings.is_empty() {
                return false;
            }
            let other = &siblings[random.place(siblings.len())];
            let theirs = fs::read(other).unwrap();
            fs::remove_file(other).unwrap();
            fs::write(other, &before).unwrap();
            bytes = theirs;
        }
    }
    // A linked file belongs to the original, too.
    fs::remove_file(path).unwrap();
    fs::write(path, &bytes).unwrap();
    bytes != before
}

/// Whether a refusal contains a remedy.
fn has_remedy(error: &StoreError) -> bool {
    let text = error.to_string();
    [
        "backup",
        "restore",
        "check",
        "another member",
        "replace the disk",
    ]
    .iter()
    .any(|remedy| text.contains(remedy))
}

/// Reads everything. Returns how often something was refused.
async fn compare(store: &Store, answered: &Answered, case: &str) -> u32 {
    let who = root();
    let mut refused = 0;
    for number in 0..FILES {
        for text in [format!("f{number}"), format!("l{number}")] {
            let found = match store.lookup(&who, ROOT, &name(&text)).await {
                Err(Error::Io(_)) => {
                    refused += 1;
                    continue;
                }
                found => found,
            };
            let Some((bytes, large)) = answered.get(&text) else {
                assert!(found.is_err(), "{case}: {text} is back");
                continue;
            };
            let found = found.unwrap_or_else(|error| panic!("{case}: {text} is lost: {error}"));
            if !bytes.is_empty() {
                refused += compare_file(store, found.id, (bytes, large.as_ref()), case).await;
            }
        }
    }
    refused
}

async fn compare_file(
    store: &Store,
    id: ObjectId,
    (bytes, large): (&Bytes, Option<&Bytes>),
    case: &str,
) -> u32 {
    let who = root();
    let mut refused = 0;
    match store
        .read(AccessCheck::Credentials(&who), id, 0, 1 << 20)
        .await
    {
        Err(Error::Io(_)) => refused += 1,
        read => assert_eq!(read.unwrap().bytes, bytes, "{case}: other bytes"),
    }
    let key = XattrName::new(b"user.large".to_vec()).unwrap();
    match store.xattr(&who, id, &key).await {
        Err(Error::Io(_)) => refused += 1,
        value => assert_eq!(value.ok().as_ref(), large, "{case}: other attribute"),
    }
    refused
}

/// Damages one file of a copy and checks the result. Returns whether anything was refused.
async fn suffer(from: &Path, file: &Path, damage: Damage, answered: &Answered, seed: u64) -> bool {
    let place = tempfile::tempdir().unwrap();
    copy(from, place.path());
    let path = place.path().join(file);
    if !inflict(damage, &path, &mut Random(seed)) {
        return false;
    }
    let case = format!("{damage:?} of {} with seed {seed}", file.display());
    let mut before = Vec::new();
    files_below(place.path(), &mut before);
    let before: Vec<_> = before
        .iter()
        .map(|path| (path, fs::read(path).unwrap()))
        .collect();
    let checked = Store::check(place.path(), false);
    for (path, bytes) in &before {
        assert_eq!(
            fs::read(path).unwrap(),
            *bytes,
            "{case}: {path:?} was changed by the check"
        );
    }
    if let Err(error) = checked {
        assert!(has_remedy(&error), "{case}: {error}");
    }
    match Store::open(&StoreOptions::new(place.path())) {
        Ok(store) => {
            store.end_reclaim().await.unwrap_or(());
            compare(&store, answered, &case).await > 0
        }
        Err(error) => {
            assert!(has_remedy(&error), "{case}: {error}");
            true
        }
    }
}

fn number_from(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(default, |text| text.parse().unwrap())
}

/// Which files of a store are damaged, and how often.
#[derive(Clone, Copy)]
struct Sweep {
    seed: u64,
    /// 0 for the short form.
    rounds: u64,
    /// In the short form only this many files of each kind are damaged.
    sample: usize,
}

/// The kind of a file of a store, by its path.
fn kind_of(file: &Path) -> String {
    let folder = file.iter().next().filter(|_| file.iter().count() > 1);
    let extension = file.extension().unwrap_or_default();
    match folder {
        Some(folder)
            if file
                .parent()
                .is_some_and(|parent| parent.ends_with("tables")) =>
        {
            format!("{folder:?} tables")
        }
        Some(folder) => format!("{folder:?} {extension:?}"),
        None => format!("{file:?}"),
    }
}

/// Some files of each kind.
fn sampled(files: Vec<PathBuf>, sample: usize, random: &mut Random) -> Vec<PathBuf> {
    let mut kinds: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in files {
        kinds.entry(kind_of(&file)).or_default().push(file);
    }
    let mut chosen = Vec::new();
    for mut files in kinds.into_values() {
        for _ in 0..sample.min(files.len()) {
            chosen.push(files.swap_remove(random.place(files.len())));
        }
    }
    chosen
}

impl Sweep {
    fn new(sample: usize) -> Sweep {
        let seed = number_from("STORE_ROT_SEED", 20);
        let rounds = number_from("STORE_ROT_ROUNDS", 0);
        println!("STORE_ROT_SEED={seed} STORE_ROT_ROUNDS={rounds}");
        Sweep {
            seed,
            rounds,
            sample,
        }
    }

    /// Damages the files of a store that is not open, one after the other. Returns how often something was refused.
    async fn over(self, options: &StoreOptions, answered: &Answered) -> u32 {
        // Open it once more, so that its journal has no space allocated in advance, which would have to be copied.
        drop(Store::open(options).unwrap());
        let from = &options.directory;
        let mut files = Vec::new();
        files_below(from, &mut files);
        assert!(
            files
                .iter()
                .any(|file| file.parent().unwrap().ends_with("tables"))
        );
        let files = files.iter();
        let files = files.map(|file| file.strip_prefix(from).unwrap().to_owned());
        let mut random = Random(self.seed);
        let files = match self.rounds {
            0 => sampled(files.collect(), self.sample, &mut random),
            _ => files.collect(),
        };
        let (mut cases, mut refused) = (0, 0);
        for (number, file) in files.iter().enumerate() {
            let is_journal = file.extension().is_some_and(|extension| extension == "jnl");
            let (times, damages) = match (self.rounds, is_journal) {
                (0, true) => (1, &DAMAGES[..]),
                (0, false) => (1, &DAMAGES[number % DAMAGES.len()..][..1]),
                (rounds, true) => (3 * rounds, &DAMAGES[..]),
                (rounds, false) => (rounds, &DAMAGES[..]),
            };
            for _ in 0..times {
                for damage in damages {
                    let seed = random.place(usize::MAX) as u64;
                    cases += 1;
                    refused += u32::from(suffer(from, file, *damage, answered, seed).await);
                }
            }
        }
        println!("{cases} cases in {} files, {refused} refused", files.len());
        refused
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_damaged_nothing_is_less_without_a_word() {
    let mut fixture = Fixture::new();
    let answered = used(&fixture).await;
    fixture.close();
    let refused = Sweep::new(3).over(&fixture.options, &answered).await;
    assert!(refused > 5, "hardly anything was noticed");
}

/// The same at the replica that made the changes, which has records of them, and at one that follows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_damaged_of_a_copy_nothing_is_less_without_a_word() {
    let mut pair = Pair::new().await;
    let answered = used(&pair.leader).await;
    pair.follow().await;
    for text in answered.keys().filter(|text| text.starts_with('f')) {
        let id = pair.leader.find(ROOT, text).await.unwrap();
        pair.ship(id).await;
    }
    pair.follower.store().sync().await.unwrap();
    for fixture in [&mut pair.leader, &mut pair.follower] {
        fixture.close();
        let refused = Sweep::new(1).over(&fixture.options, &answered).await;
        assert!(refused > 2, "hardly anything was noticed");
    }
}

/// A check without repair works on a read-only store, and finds the same as a check with repair.
#[tokio::test]
async fn a_check_changes_no_file() {
    for mode in [CommitMode::Sync, CommitMode::Async] {
        let mut fixture = Fixture::with(|options| options.commit = mode);
        let id = fixture.file(ROOT, "f").await;
        fixture.write(id, 0, b"some").await.unwrap();
        let left = fixture.crashed_copy();
        fixture.close();
        for directory in [&left.directory, &fixture.options.directory] {
            let mut files = Vec::new();
            files_below(directory, &mut files);
            let look = || {
                let look = |path: &PathBuf| {
                    let changed = fs::metadata(path).unwrap().modified().unwrap();
                    (path.clone(), fs::read(path).unwrap(), changed)
                };
                files.iter().map(look).collect::<Vec<_>>()
            };
            let before = look();
            assert!(Store::check(directory, false).unwrap().sound);
            assert!(look() == before, "a file was changed");
            let mut after = Vec::new();
            files_below(directory, &mut after);
            assert_eq!(after, files, "a file came or went");
        }
    }
}

/// The only journal is gone: only the tables are left, and opening them was refused, too.
#[tokio::test]
async fn without_any_journal_what_is_in_tables_can_be_had() {
    let mut fixture = Fixture::new();
    for number in 0..20 {
        fixture.file(ROOT, &format!("f{number}")).await;
    }
    let last = fixture.file(ROOT, "last").await;
    fixture.close();
    fs::write(fixture.options.directory.join("meta/0.jnl"), b"").unwrap();
    let directory = &fixture.options.directory;
    let error = Store::open(&fixture.options).err().unwrap();
    assert!(error.to_string().contains("--accept-loss"), "{error}");
    assert_eq!(Store::give_up_damaged(directory).unwrap().len(), 1);
    let report = Store::check(directory, true).unwrap();
    assert!(report.sound, "{report}");
    let store = Store::open(&fixture.options).unwrap();
    store.end_reclaim().await.unwrap();
    let set = vfs::SetAttributes::default();
    let (who, text) = (root(), name("new"));
    let made = store.create(&who, ROOT, &text, crate::fixture::file(), &set);
    let made = made.await.unwrap().attributes.id;
    // No earlier handle leads to another file now.
    assert!(made > last, "{made} {last}");
}

/// Data files may be newer than rows whose end was given up: that is not damage by the disk.
#[tokio::test]
async fn data_that_is_newer_than_what_is_left_can_be_read() {
    let mut fixture = Fixture::new();
    let id = fixture.file(ROOT, "f").await;
    fixture.write(id, 0, &[1; 20_000]).await.unwrap();
    fixture.store().sync().await.unwrap();
    let journal = fixture.options.directory.join("meta/0.jnl");
    let end = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let before = end(&fs::read(&journal).unwrap());
    fixture.write(id, 0, &[2; 20_000]).await.unwrap();
    fixture.store().sync().await.unwrap();
    fixture.close();
    let mut bytes = fs::read(&journal).unwrap();
    bytes[before + 10] ^= 1;
    fs::write(&journal, &bytes).unwrap();
    let directory = &fixture.options.directory;
    assert_eq!(Store::give_up_damaged(directory).unwrap().len(), 1);
    assert!(Store::check(directory, true).unwrap().sound);
    let store = Store::open(&fixture.options).unwrap();
    let who = root();
    let read = store.read(AccessCheck::Open(&who), id, 0, 20_000).await;
    assert_eq!(read.unwrap().bytes, [2; 20_000][..]);
}

/// Without another copy, the remaining data can be used, but only on explicit request.
#[tokio::test]
async fn what_is_left_can_be_had_at_a_price() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions::new(directory.path().join("store"));
    let store = Store::create(&options, &NewStore::default()).unwrap();
    store.end_reclaim().await.unwrap();
    let who = root();
    for number in 0..60 {
        let (text, set) = (name(&format!("d{number}")), vfs::SetAttributes::default());
        let made = store.create(&who, ROOT, &text, crate::fixture::directory(), &set);
        made.await.unwrap();
    }
    drop(store);
    let journal = options.directory.join("meta/0.jnl");
    let mut bytes = fs::read(&journal).unwrap();
    let middle = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 2;
    bytes[middle] ^= 16;
    fs::write(&journal, &bytes).unwrap();
    let Err(StoreError::Rotten { path, what, .. }) = Store::open(&options) else {
        panic!("it opens");
    };
    assert_eq!(path, journal);
    assert!(what.contains("were stable"), "{what}");
    let error = Store::check(&options.directory, true).unwrap_err();
    assert!(error.to_string().contains("--accept-loss"), "{error}");

    let lost = Store::give_up_damaged(&options.directory).unwrap();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(Store::check(&options.directory, true).unwrap().sound);
    assert!(
        Store::give_up_damaged(&options.directory)
            .unwrap()
            .is_empty()
    );
    let store = Store::open(&options).unwrap();
    let mut there = 0;
    for number in 0..60 {
        let found = store.lookup(&who, ROOT, &name(&format!("d{number}"))).await;
        there += u32::from(found.is_ok());
    }
    assert!((10..60).contains(&there), "{there} of 60");
}
