//! A slow receiver: memory stays bounded at both ends, and other lanes do not notice.

use std::time::Duration;

use super::replica::{Replica, TestSet, quick};
use crate::{Lane, Message, SendError, Settings};

const WINDOW: u64 = 4 << 20;
const PAYLOAD: usize = 64 << 10;
const COUNT: usize = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_receiver_bounds_memory_and_leaves_other_lanes_alone() {
    let set = TestSet::of(2).await;
    let narrow = Settings {
        data_lanes: 1,
        data_window_bytes: WINDOW,
        compression: false,
        ..quick()
    };
    let first = Replica::start(set.identity(1), 1, narrow.clone()).await;
    let second = Replica::start(set.identity(2), 1, narrow).await;
    let held_back = first.recorder.data_permits.forget_permits(1 << 30);
    let to_first = second.connect(1, &first.address);
    let session = to_first.ready().await;
    let sending = session.clone();
    let sender = tokio::spawn(async move {
        for kind in 0..COUNT as u32 {
            let message = Message::new(kind, "").with_payload(vec![1; PAYLOAD]);
            sending
                .send(Lane::Data, message)
                .await
                .expect("the session lasts");
        }
    });
    // The window is full at the receiver, and as much waits at the sender.
    let one = Message::OVERHEAD_BYTES + PAYLOAD as u64;
    // One message may still be on its way from the one to the other; then there is space for another.
    let mut looks = 0;
    while looks < 10 {
        let held = first.endpoint.status()[0].held_bytes;
        let queued = to_first.status().queued_bytes;
        assert!(held <= WINDOW, "{held} bytes at the receiver");
        assert!(queued <= WINDOW, "{queued} bytes at the sender");
        let full = held + one > WINDOW && queued + one > WINDOW;
        looks = if full { looks + 1 } else { 0 };
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(!sender.is_finished());
    let more = Message::new(0, "").with_payload(vec![1; PAYLOAD]);
    let full = session.try_send(Lane::Data, more);
    assert_eq!(full, Err(SendError::Full(Lane::Data)));

    for kind in 0..100 {
        let lane = [Lane::Control, Lane::Metadata][kind as usize % 2];
        session
            .send(lane, Message::new(kind, "urgent"))
            .await
            .expect("sends");
    }
    first.recorder.until_messages(100).await;
    assert!(first.recorder.kinds(Lane::Data).is_empty());

    first.recorder.data_permits.add_permits(held_back);
    sender.await.expect("everything found space");
    first.recorder.until_messages(100 + COUNT).await;
    assert_eq!(
        first.recorder.kinds(Lane::Data),
        (0..COUNT as u32).collect::<Vec<_>>()
    );
}
