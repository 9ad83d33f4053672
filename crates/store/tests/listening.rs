//! A listener is called before and after each change that becomes visible.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::fixture::{Approver, Fixture, with_mode, with_size};
use store::{ChangeListener, Store};
use vfs::{Attributes, FileSystem, ObjectId};

const ROOT: ObjectId = ObjectId::ROOT;

/// Notes its calls, and the state of the first object at that time.
struct Listener {
    store: Store,
    watched: Mutex<Option<ObjectId>>,
    heard: Mutex<BTreeSet<ObjectId>>,
    looks: Mutex<Vec<Option<Attributes>>>,
}

impl Listener {
    fn look(&self) {
        if let Some(id) = *self.watched.lock().unwrap() {
            let looks = at_once(self.store.attributes(id));
            self.looks.lock().unwrap().push(looks.ok());
        }
    }

    fn heard(&self) -> Vec<ObjectId> {
        let heard = std::mem::take(&mut *self.heard.lock().unwrap());
        heard.into_iter().collect()
    }
}

/// The result of a future that need not wait for anything.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

impl ChangeListener for Listener {
    fn changing(&self, objects: &[ObjectId]) {
        self.heard.lock().unwrap().extend(objects);
        self.look();
    }

    fn changed(&self, objects: &[ObjectId]) {
        assert!(!objects.is_empty());
        self.look();
    }
}

fn listening(store: &Fixture) -> Arc<Listener> {
    let listener = Arc::new(Listener {
        store: store.store().with_hook(Arc::new(Approver::default())),
        watched: Mutex::default(),
        heard: Mutex::default(),
        looks: Mutex::default(),
    });
    store.store().on_changes(listener.clone());
    listener
}

#[tokio::test]
async fn every_object_is_named_whose_attributes_or_names_change() {
    let store = Fixture::new();
    let folder = store.directory(ROOT, "d").await;
    let listener = listening(&store);
    let file = store.file(ROOT, "f").await;
    assert_eq!(listener.heard(), [ROOT, file]);
    store.write(file, 0, b"data").await.unwrap();
    assert_eq!(listener.heard(), [file]);
    store.set(file, &with_mode(0o600)).await.unwrap();
    assert_eq!(listener.heard(), [file]);
    store.set(file, &with_size(1)).await.unwrap();
    assert_eq!(listener.heard(), [file]);
    store.link(file, folder, "g").await.unwrap();
    let mut all = vec![folder, file];
    all.sort();
    assert_eq!(listener.heard(), all);
    // The replaced object changes as well as the one that replaces it.
    let other = store.file(folder, "h").await;
    listener.heard();
    store.rename((ROOT, "f"), (folder, "h")).await.unwrap();
    let mut all = vec![ROOT, folder, file, other];
    all.sort();
    assert_eq!(listener.heard(), all);
    store.remove(folder, "g").await.unwrap();
    let mut all = vec![folder, file];
    all.sort();
    assert_eq!(listener.heard(), all);
    // A new access time is not a change.
    store.clock.advance(1_000_000);
    let before = store.attributes(file).await.accessed;
    store.read(file, 0, 10).await.unwrap();
    assert!(store.attributes(file).await.accessed > before);
    assert_eq!(listener.heard(), []);
}

#[tokio::test]
async fn it_hears_before_anybody_can_see_a_change_and_behind_it() {
    let store = Fixture::new();
    let file = store.file(ROOT, "f").await;
    let listener = listening(&store);
    *listener.watched.lock().unwrap() = Some(file);
    let before = store.attributes(file).await;
    let after = store.set(file, &with_mode(0o600)).await.unwrap();
    let looks = std::mem::take(&mut *listener.looks.lock().unwrap());
    assert_eq!(looks, [Some(before), Some(after)]);
    // A refused operation does not call the listener.
    store.rename((ROOT, "none"), (ROOT, "f")).await.unwrap_err();
    assert_eq!(*listener.looks.lock().unwrap(), []);
}
