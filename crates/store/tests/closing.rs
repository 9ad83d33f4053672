//! Closing a store while an operation is in progress.

use std::future::Future;
use std::task::Poll;

use crate::fixture::{Fixture, name, root};
use bytes::Bytes;
use store::Store;
use vfs::{AccessCheck, FileSystem, ObjectId, Stability};

const ROOT: ObjectId = ObjectId::ROOT;

/// Starts an operation, and leaves it unfinished.
async fn begin(operation: &mut (impl Future + Unpin)) {
    let begun = std::future::poll_fn(|context| {
        Poll::Ready(
            std::pin::Pin::new(&mut *operation)
                .poll(context)
                .is_pending(),
        )
    });
    assert!(begun.await, "the operation is over already");
}

/// The store's threads waited for operations that only the thread that was closing the store could have
/// continued.
#[tokio::test]
async fn a_store_can_be_closed_by_the_only_thread_that_serves_it() {
    let mut store = Fixture::new();
    store.store().end_reclaim().await.unwrap();
    let id = store.file(ROOT, "f").await;
    {
        let who = root();
        let data = Bytes::from(vec![1; 200_000]);
        let access = AccessCheck::Open(&who);
        let mut write = Box::pin(store.store().write(access, id, 0, data, Stability::File));
        begin(&mut write).await;
        tokio::task::yield_now().await;
        let text = name("f");
        let mut removal = Box::pin(store.store().remove(&who, ROOT, &text));
        begin(&mut removal).await;
    }
    // Long enough for the thread that clears away removed files to start waiting for the write.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    store.close();
    let report = Store::check(&store.options.directory, false);
    // The unfinished operation keeps the directory until the runtime ends.
    assert!(report.is_err() || report.unwrap().sound);
}
