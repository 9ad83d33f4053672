//! Messages arrive exactly once and in order, whatever happens to connections.

use std::time::Duration;

use fastrand::Rng;

use super::proxy::Proxy;
use super::replica::{NOT_ADMITTED, Replica, Seen, TestSet, quick};
use crate::{Incarnation, Lane, Message, SendError, Session};

/// Sends numbered messages on every kind of lane, as fast as there is space.
async fn send_numbered(session: Session, seed: u64, count: u32) {
    let lanes = [Lane::Control, Lane::Metadata, Lane::Data];
    let tasks = lanes.map(|lane| {
        let session = session.clone();
        tokio::spawn(async move {
            let mut random = Rng::with_seed(seed);
            let count = if lane == Lane::Data { count / 8 } else { count };
            for kind in 0..count {
                let size = match lane {
                    Lane::Data => random.u64(..40_000),
                    _ => random.u64(..300),
                };
                let message = numbered(kind, size as usize);
                session
                    .send(lane, message)
                    .await
                    .expect("the session lasts");
            }
        })
    });
    for task in tasks {
        task.await.expect("sends");
    }
}

/// Half of the payloads compress.
fn numbered(kind: u32, size: usize) -> Message {
    let mut random = Rng::with_seed(kind.into());
    let payload: Vec<u8> = match kind % 2 {
        0 => vec![kind as u8; size],
        _ => (0..size).map(|_| random.u8(..)).collect(),
    };
    Message::new(kind, kind.to_be_bytes().to_vec()).with_payload(payload)
}

/// Every number once, in order where order is promised, with the contents that were sent.
fn check_numbered(replica: &Replica, count: u32) {
    let whole: Vec<u32> = (0..count).collect();
    assert_eq!(replica.recorder.kinds(Lane::Control), whole);
    assert_eq!(replica.recorder.kinds(Lane::Metadata), whole);
    let mut data = replica.recorder.kinds(Lane::Data);
    data.sort_unstable();
    assert_eq!(data, (0..count / 8).collect::<Vec<_>>());
    for seen in replica.recorder.seen.lock().expect("no panic").iter() {
        if let Seen::Message(_, _, message) = seen {
            assert_eq!(*message, numbered(message.kind, message.payload.len()));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_arrive_once_and_in_order_over_connections_that_are_cut_at_random_bytes() {
    let set = TestSet::of(2).await;
    for seed in 1..=4 {
        let count = 3000;
        let first = Replica::start(set.identity(1), seed, quick()).await;
        let second = Replica::start(set.identity(2), seed, quick()).await;
        let proxy = Proxy::start(first.address.clone(), seed, 120_000).await;
        let to_first = second.connect(1, &proxy.address);
        let to_second = first.called_by(2).await;
        let total = (2 * count + count / 8) as usize;
        tokio::join!(
            send_numbered(to_first.ready().await, seed, count),
            send_numbered(to_second.ready().await, seed + 100, count),
            first.recorder.until_messages(total),
            second.recorder.until_messages(total),
        );
        check_numbered(&first, count);
        check_numbered(&second, count);
        let cuts = proxy.cuts.load(std::sync::atomic::Ordering::Relaxed);
        let again = to_first.status().retransmitted + to_second.status().retransmitted;
        assert!(
            cuts > 20 && again > 0,
            "seed {seed}: only {cuts} cuts, {again} sent again"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_ends_the_session_in_order_and_begins_a_new_one() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 7, quick()).await;
    let second = Replica::start(set.identity(2), 1, quick()).await;
    let to_first = second.connect(1, &first.address);
    let old = to_first.ready().await;
    old.send(Lane::Control, Message::new(1, "before"))
        .await
        .expect("sends");
    first.recorder.until_messages(1).await;

    let address = first.address.clone();
    drop(first);
    let again = Replica::start_at(&address, set.identity(1), 8, quick(), None).await;
    old.0.ended().await;
    let ended = old.send(Lane::Control, Message::new(2, "lost")).await;
    assert_eq!(ended, Err(SendError::Ended(Incarnation(7))));
    let new = to_first.ready().await;
    assert_eq!(new.peer().incarnation, Incarnation(8));
    new.send(Lane::Control, Message::new(3, "after"))
        .await
        .expect("sends");
    again.recorder.until_messages(1).await;
    assert_eq!(again.recorder.kinds(Lane::Control), [3]);

    second.recorder.until(|seen| seen.len() >= 3).await;
    let seen = second.recorder.seen.lock().expect("no panic").clone();
    let (before, after) = (old.peer(), new.peer());
    assert_eq!(
        seen,
        [Seen::Began(before), Seen::Ended(before), Seen::Began(after)]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_queued_while_there_is_no_connection_arrives_afterwards() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 1, quick()).await;
    let second = Replica::start(set.identity(2), 1, quick()).await;
    // With this limit of bytes hardly any connection survives its handshake, until the proxy is calm.
    let proxy = Proxy::start(first.address.clone(), 3, 6_000).await;
    let to_first = second.connect(1, &proxy.address);
    let session = to_first.ready().await;
    for kind in 0..200 {
        let message = Message::new(kind, vec![7; 1000]);
        session
            .try_send(Lane::Control, message)
            .expect("there is space");
    }
    proxy.be_calm();
    first.recorder.until_messages(200).await;
    assert_eq!(
        first.recorder.kinds(Lane::Control),
        (0..200).collect::<Vec<_>>()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_refused_where_the_owner_says_so() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 1, quick()).await;
    let second = Replica::start(set.identity(2), 1, quick()).await;
    let session = second.connect(1, &first.address).ready().await;
    session
        .send(Lane::Control, Message::new(NOT_ADMITTED, "no"))
        .await
        .expect("sends");
    let limit = tokio::time::Instant::now() + Duration::from_secs(20);
    let asked = session.request(Lane::Control, Message::new(NOT_ADMITTED, "no"), limit);
    let refused = asked.await.expect_err("refused").to_string();
    assert!(refused.contains("not of this kind"), "{refused}");
    session
        .send(Lane::Control, Message::new(2, "yes"))
        .await
        .expect("sends");
    first.recorder.until_messages(1).await;
    assert_eq!(first.recorder.kinds(Lane::Control), [2]);
    assert_eq!(first.endpoint.status()[0].refused, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compressible_data_takes_few_bytes_and_arrives_whole() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 1, quick()).await;
    let second = Replica::start(set.identity(2), 1, quick()).await;
    let to_first = second.connect(1, &first.address);
    let session = to_first.ready().await;
    let payload = b"the same line again and again\n".repeat(30_000);
    for kind in 0..20 {
        let message = Message::new(kind, "").with_payload(payload.clone());
        session.send(Lane::Data, message).await.expect("sends");
    }
    first.recorder.until_messages(20).await;
    let whole = |seen: &Seen| match seen {
        Seen::Message(_, _, message) => message.payload == payload,
        _ => true,
    };
    assert!(
        first
            .recorder
            .seen
            .lock()
            .expect("no panic")
            .iter()
            .all(whole)
    );
    let sent = to_first.status().sent_bytes;
    assert!(
        sent < payload.len() as u64,
        "{sent} bytes for 20 times {}",
        payload.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_tells_lanes_round_trip_and_the_smaller_wish_for_data_lanes() {
    let set = TestSet::of(2).await;
    let few = crate::Settings {
        data_lanes: 2,
        keepalive: Duration::from_millis(20),
        ..quick()
    };
    let first = Replica::start(set.identity(1), 1, few).await;
    let second = Replica::start(set.identity(2), 1, quick()).await;
    let to_first = second.connect(1, &first.address);
    loop {
        let status = to_first.status();
        if status.lanes_connected == 4 && status.rtt.is_some() {
            assert_eq!((status.lanes, status.last_error), (4, None));
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
