//! Changes that call the commit hook: what the hook gets, what a refusal leaves, and which changes do not call it.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::fixture::{Fixture, READ, REFUSED, open_owner, root, user, with_mode, with_size};
use bytes::Bytes;
use store::{Change, CommitHook, Store, Touched, TouchedKind};
use vfs::{
    AccessCheck, Creation, Extent, FileSystem, NewObject, ObjectId, SetAttributes, Stability,
    XattrMode, XattrName,
};

const ROOT: ObjectId = ObjectId::ROOT;

fn touched(id: ObjectId, kind: TouchedKind) -> Touched {
    Touched { id, kind }
}

fn xattr() -> XattrName {
    XattrName::new(&b"x"[..]).unwrap()
}

async fn set_xattr(store: &Fixture, id: ObjectId, value: &'static [u8]) -> vfs::Result<()> {
    let value = Bytes::from_static(value);
    let (who, name) = (root(), xattr());
    let set = store.store();
    let set = set.set_xattr(&who, id, &name, value, XattrMode::Any);
    set.await.map(|_| ())
}

#[tokio::test]
async fn the_commit_hook_learns_the_shape_of_every_change() {
    let store = Fixture::hooked();
    store.store().end_reclaim().await.unwrap();
    let one = |id| touched(id, TouchedKind::File);
    let linked = |id| touched(id, TouchedKind::LinkedFile);
    let folder = store.directory(ROOT, "d").await;
    let id = store.file(ROOT, "f").await;
    store.write(id, 0, b"data").await.unwrap();
    store.link(id, folder, "g").await.unwrap();
    store.set(id, &with_mode(0o600)).await.unwrap();
    set_xattr(&store, id, b"v").await.unwrap();
    let other = store.file(folder, "h").await;
    store.rename((ROOT, "f"), (folder, "h")).await.unwrap();
    store.remove(folder, "g").await.unwrap();
    store.set(id, &with_size(1)).await.unwrap();
    let directory = touched(folder, TouchedKind::Directory);
    let expected = [
        Change::Create {
            parent: ROOT,
            made: directory,
        },
        Change::Create {
            parent: ROOT,
            made: one(id),
        },
        Change::Data(one(id)),
        Change::Link {
            file: one(id),
            parent: folder,
        },
        Change::Object(linked(id)),
        Change::Object(linked(id)),
        Change::Create {
            parent: folder,
            made: one(other),
        },
        Change::Rename {
            from: ROOT,
            to: folder,
            moved: linked(id),
            replaced: Some(one(other)),
        },
        Change::Remove {
            parent: folder,
            removed: linked(id),
        },
        Change::Data(one(id)),
    ];
    assert_eq!(store.approver().take_asked(), expected);
    let records = store.store().updates(0, 100).unwrap();
    let notes: Vec<_> = records.iter().map(|record| record.note.clone()).collect();
    let wanted: Vec<_> = (1..=10)
        .map(|number| Bytes::from(format!("note {number}")))
        .collect();
    assert_eq!(notes, wanted);
}

/// Everything in the tables and data files of a store, except its reserve.
fn everything(directory: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    let mut folders = vec![directory.join("data")];
    while let Some(folder) = folders.pop() {
        for file in std::fs::read_dir(folder).unwrap() {
            let file = file.unwrap();
            match file.file_type().unwrap().is_dir() {
                true => folders.push(file.path()),
                false => drop(found.insert(file.path(), file.metadata().unwrap().len())),
            }
        }
    }
    found
}

#[tokio::test]
async fn what_is_refused_leaves_no_trace() {
    let mut store = Fixture::hooked();
    store.store().end_reclaim().await.unwrap();
    let folder = store.directory(ROOT, "d").await;
    let id = store.file(ROOT, "f").await;
    let stable = Stability::File;
    store
        .write_as(&root(), id, 0, b"some data", stable)
        .await
        .unwrap();
    set_xattr(&store, id, b"v").await.unwrap();
    store.file(ROOT, "g").await;
    store.store().sync().await.unwrap();
    let open = store.file(ROOT, "open").await;
    store.open(open, "owner", READ).await.unwrap();
    let before = (
        store.store().statistics(),
        store.store().updates(0, 100).unwrap(),
    );
    let files = everything(&store.options.directory);
    store.approver().refuse(true);
    let made = store
        .make(folder, "new", NewObject::File(Creation::Guarded))
        .await;
    assert_eq!(made.unwrap_err(), REFUSED);
    for (text, directory) in [("f", ROOT), ("open", ROOT), ("d", ROOT)] {
        assert_eq!(store.remove(directory, text).await, Err(REFUSED), "{text}");
    }
    assert_eq!(store.rename((ROOT, "g"), (ROOT, "f")).await, Err(REFUSED));
    assert_eq!(
        store.rename((ROOT, "g"), (folder, "open")).await,
        Err(REFUSED)
    );
    assert_eq!(store.link(id, folder, "f").await, Err(REFUSED));
    assert_eq!(set_xattr(&store, id, b"w").await, Err(REFUSED));
    assert_eq!(store.set(id, &with_size(2)).await.unwrap_err(), REFUSED);
    assert_eq!(store.set(id, &with_mode(0)).await.unwrap_err(), REFUSED);
    let after = (
        store.store().statistics(),
        store.store().updates(0, 100).unwrap(),
    );
    assert_eq!(
        (after.0.objects, after.0.orphans, after.0.dirty_files),
        (before.0.objects, before.0.orphans, before.0.dirty_files)
    );
    assert_eq!(after.1, before.1);
    assert_eq!(everything(&store.options.directory), files);
    assert_eq!(store.content(id).await, &b"some data"[..]);
    // Nothing was forgotten either: the same things work once they are allowed.
    store.approver().refuse(false);
    store.remove(ROOT, "open").await.unwrap();
    store.rename((ROOT, "g"), (ROOT, "f")).await.unwrap();
    store
        .store()
        .close(open, &open_owner("owner"))
        .await
        .unwrap();
    let directory = store.options.directory.clone();
    store.close();
    let report = Store::check(&directory, false).unwrap();
    assert!(report.sound, "{report}");
}

#[tokio::test]
async fn a_refused_write_is_a_failed_one_and_shows_nothing_behind_the_size() {
    for stability in [Stability::Unstable, Stability::File] {
        let store = Fixture::hooked();
        let id = store.file(ROOT, "f").await;
        store.write(id, 0, b"abc").await.unwrap();
        store.approver().refuse(true);
        let refused = store
            .write_as(&root(), id, 2, b"behind the end", stability)
            .await;
        assert_eq!(refused, Err(REFUSED));
        let who = root();
        let extent = Extent {
            offset: 100,
            length: 4096,
        };
        let reserved = store
            .store()
            .allocate(AccessCheck::Credentials(&who), id, extent)
            .await;
        assert_eq!(reserved, Err(REFUSED));
        assert_eq!(store.attributes(id).await.size, 3);
        store.approver().refuse(false);
        store.set(id, &with_size(6)).await.unwrap();
        assert_eq!(&store.content(id).await[3..], [0, 0, 0]);
    }
}

#[tokio::test]
async fn what_lost_its_last_name_is_gone_for_all_others() {
    let store = Fixture::hooked();
    store.store().end_reclaim().await.unwrap();
    let id = store.file(ROOT, "f").await;
    set_xattr(&store, id, b"v").await.unwrap();
    store.open(id, "owner", READ).await.unwrap();
    store.remove(ROOT, "f").await.unwrap();
    let records = store.store().updates(0, 100).unwrap();
    let gone = records.last().unwrap().changes.iter();
    let gone: Vec<_> = gone
        .filter(|row| row.table == 1 && row.value.is_none())
        .collect();
    assert_eq!(gone.len(), 1);
    store.approver().take_asked();
    store.write(id, 0, b"still here").await.unwrap();
    store.set(id, &with_mode(0o600)).await.unwrap();
    store.set(id, &with_size(5)).await.unwrap();
    set_xattr(&store, id, b"w").await.unwrap();
    store
        .store()
        .remove_xattr(&root(), id, &xattr())
        .await
        .unwrap();
    assert_eq!(store.content(id).await, &b"still"[..]);
    store.store().close(id, &open_owner("owner")).await.unwrap();
    assert_eq!(store.approver().take_asked(), []);
    assert_eq!(store.store().updates(0, 100).unwrap(), records);
    assert_eq!(store.store().statistics().objects, 1);
}

#[tokio::test]
async fn data_that_others_may_not_have_is_marked_until_they_do() {
    let mut store = Fixture::hooked();
    let id = store.file(ROOT, "f").await;
    let empty = store.file(ROOT, "empty").await;
    let set = SetAttributes {
        size: Some(9),
        ..SetAttributes::default()
    };
    let new = NewObject::File(Creation::Guarded);
    let hole = store
        .make_as(&root(), ROOT, "hole", new, &set)
        .await
        .unwrap()
        .attributes
        .id;
    store.write(id, 0, b"data").await.unwrap();
    store.set(empty, &with_mode(0o600)).await.unwrap();
    assert_eq!(store.store().unshipped().unwrap(), [id, hole]);
    store.reopen().await;
    assert_eq!(store.store().unshipped().unwrap(), [id, hole]);
    store
        .store()
        .forget_unshipped(&[id, hole], &mut |asked| asked == id)
        .await
        .unwrap();
    assert_eq!(store.store().unshipped().unwrap(), [hole]);
    store
        .store()
        .forget_unshipped(&[hole], &mut |_| true)
        .await
        .unwrap();
    store.write(id, 0, b"more").await.unwrap();
    store.reopen().await;
    assert_eq!(store.store().unshipped().unwrap(), [id]);
}

#[tokio::test]
async fn records_are_announced_when_they_are_stable_and_can_be_trimmed() {
    let store = Fixture::hooked();
    let mut stable = store.store().stable_position();
    for number in 0..600 {
        store.file(ROOT, &format!("f{number}")).await;
    }
    let records = store.store().updates(0, 1000).unwrap();
    let (middle, last) = (records[299].position, records[599].position);
    stable.wait_for(|position| *position >= last).await.unwrap();
    store.store().trim_updates(middle).await.unwrap();
    assert_eq!(store.store().updates(0, 1000).unwrap(), records[300..]);
}

#[tokio::test]
async fn a_change_of_a_replicated_tree_without_a_hook_fails() {
    let store = Fixture::new();
    store.store().replicate(false);
    let new = NewObject::File(Creation::Guarded);
    assert!(store.make(ROOT, "f", new).await.is_err());
    assert!(store.find(ROOT, "f").await.is_err());
}

/// Notes the calls it gets.
#[derive(Default)]
struct Notebook(Mutex<Vec<&'static str>>);

impl CommitHook for Notebook {
    fn before_data(&self, _: Touched, _: bool) -> vfs::Result<()> {
        self.0.lock().unwrap().push("before data");
        Ok(())
    }

    fn after_data(&self, succeeded: bool) {
        let told = if succeeded { "done" } else { "failed" };
        self.0.lock().unwrap().push(told);
    }

    fn before_commit(
        &self,
        _: &Change,
        commit: &mut dyn FnMut(Option<&[u8]>) -> vfs::Result<u64>,
    ) -> vfs::Result<()> {
        self.0.lock().unwrap().push("commit");
        commit(Some(b"note")).map(|_| ())
    }
}

/// The calls that one operation makes to its own hook.
async fn told<T>(
    store: &Fixture,
    operation: impl AsyncFnOnce(&Store) -> vfs::Result<T>,
) -> Vec<&'static str> {
    let notebook = Arc::new(Notebook::default());
    let hooked = store.store().with_hook(notebook.clone());
    let _ = operation(&hooked).await;
    let told = notebook.0.lock().unwrap();
    told.clone()
}

#[tokio::test]
async fn each_operation_asks_the_hook_that_it_brings() {
    let store = Fixture::hooked();
    store.store().end_reclaim().await.unwrap();
    let id = store.file(ROOT, "f").await;
    store.approver().take_asked();
    let who = root();
    let access = AccessCheck::Credentials(&who);
    let of_data = ["before data", "commit", "done"];
    let write = |stability, bytes: usize| {
        let data = Bytes::from(vec![7; bytes]);
        async move |store: &Store| store.write(access, id, 0, data, stability).await
    };
    assert_eq!(told(&store, write(Stability::Unstable, 9)).await, of_data);
    assert_eq!(told(&store, write(Stability::File, 9)).await, of_data);
    assert_eq!(told(&store, write(Stability::File, 99_999)).await, of_data);
    let cut = with_size(5);
    let cut = async |store: &Store| store.set_attributes(access, id, &cut).await;
    assert_eq!(told(&store, cut).await, of_data);
    let extent = Extent {
        offset: 0,
        length: 4,
    };
    let punch = async |store: &Store| store.deallocate(access, id, extent).await;
    assert_eq!(told(&store, punch).await, of_data);
    let mode = with_mode(0o600);
    let mode = async |store: &Store| store.set_attributes(access, id, &mode).await;
    assert_eq!(told(&store, mode).await, ["commit"]);
    assert_eq!(store.approver().take_asked(), [], "nobody else is asked");
}

#[tokio::test]
async fn the_hook_hears_of_the_end_of_a_failed_change_of_data_and_of_one_that_nobody_waits_for() {
    let store = Fixture::hooked();
    store.store().end_reclaim().await.unwrap();
    let id = store.owned_file("f", 1, 1, 0o400).await;
    let data = Bytes::from_static(b"data");
    let stranger = user(2, 2, &[]);
    let write = async |store: &Store| {
        let access = AccessCheck::Credentials(&stranger);
        let unstable = Stability::Unstable;
        store.write(access, id, 0, data.clone(), unstable).await
    };
    assert_eq!(told(&store, write).await, ["before data", "failed"]);
    let notebook = Arc::new(Notebook::default());
    let hooked = store.store().with_hook(notebook.clone());
    let who = root();
    let access = AccessCheck::Credentials(&who);
    let mut write = hooked.write(access, id, 0, data.clone(), Stability::File);
    // It has begun, and the waiting caller is cancelled.
    let _ = futures_now(&mut write).await;
    drop(write);
    let begun = Instant::now();
    while notebook.0.lock().unwrap().len() < 3 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let told = notebook.0.lock().unwrap().clone();
    assert_eq!(told, ["before data", "commit", "done"]);
    store.remove(ROOT, "f").await.unwrap();
}

/// Polls once.
async fn futures_now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| match Pin::new(&mut *future).poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn the_way_up_is_known_without_any_lock() {
    let store = Fixture::new();
    let folder = store.directory(ROOT, "d").await;
    let id = store.file(folder, "f").await;
    store.link(id, ROOT, "g").await.unwrap();
    store.link(id, folder, "h").await.unwrap();
    let mut parents = store.store().parents(id).unwrap();
    parents.sort_unstable();
    assert_eq!(parents, [ROOT, folder, folder]);
    assert_eq!(store.store().parents(folder).unwrap(), [ROOT]);
    assert_eq!(store.store().parents(ROOT).unwrap(), []);
    assert_eq!(store.store().parents(ObjectId::from_u64(99)).unwrap(), []);
    assert_eq!(store.store().path_of(ROOT).unwrap(), "/");
    let path = store.store().path_of(id).unwrap();
    assert!(["/d/f", "/d/h", "/g"].contains(&path.as_str()), "{path}");
}

/// Hundreds of directories with long names made every path 170 KiB long, and building such a path took long.
#[tokio::test]
async fn of_a_long_path_people_are_shown_the_end() {
    let store = Fixture::new();
    let mut folder = ROOT;
    for _ in 0..40 {
        folder = store.directory(folder, "d").await;
    }
    let file = store.file(folder, "file").await;
    let path = store.store().path_of(file).unwrap();
    assert_eq!(path, format!("/…{}/file", "/d".repeat(31)));
    for number in 0..9 {
        folder = store
            .directory(folder, &format!("{number}").repeat(255))
            .await;
    }
    let file = store.file(folder, "file").await;
    let path = store.store().path_of(file).unwrap();
    let last = [5, 6, 7, 8].map(|number| number.to_string().repeat(255));
    assert_eq!(path, format!("/…/{}/file", last.join("/")));
    let file = store.file(folder, &"\u{1}".repeat(255)).await;
    let path = store.store().path_of(file).unwrap();
    assert_eq!(path, format!("/…/{}", "\\u{1}".repeat(255)));
}

#[tokio::test]
async fn facts_stay_in_order_and_survive() {
    let mut store = Fixture::new();
    let long = vec![0xff; 1000];
    let rows = vec![
        (b"b1".to_vec(), Some(long.clone())),
        (b"a".to_vec(), Some(Vec::new())),
        (b"b0".to_vec(), Some(vec![0xff; 9])),
    ];
    let ticket = store.store().put_facts(rows).await.unwrap();
    store.store().wait_stable(ticket).await.unwrap();
    store.reopen_unsynced();
    let found = store.store().facts(b"b").unwrap();
    let expected = [
        (Bytes::from_static(b"b0"), Bytes::from(vec![0xff; 9])),
        (Bytes::from_static(b"b1"), Bytes::from(long)),
    ];
    assert_eq!(found, expected);
    store
        .store()
        .put_facts(vec![(b"b1".to_vec(), None)])
        .await
        .unwrap();
    assert_eq!(store.store().facts(b"").unwrap().len(), 2);
    assert!(
        store
            .store()
            .put_facts(vec![(Vec::new(), None)])
            .await
            .is_err()
    );
}
