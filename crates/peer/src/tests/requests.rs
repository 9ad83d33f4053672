//! Requests: their replies, and every way in which there is none.

use std::time::Duration;

use tokio::time::Instant;

use super::proxy::Proxy;
use super::replica::{NEVER_ANSWERED, REFUSED, Replica, TOO_LARGE, TestSet, quick};
use crate::{Incarnation, Lane, Message, RequestError, SendError, Settings};

fn later() -> Instant {
    Instant::now() + Duration::from_secs(300)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_reply_finds_its_request_though_connections_are_cut() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 1, quick()).await;
    let second = Replica::start(set.identity(2), 1, quick()).await;
    let proxy = Proxy::start(first.address.clone(), 11, 60_000).await;
    let session = second.connect(1, &proxy.address).ready().await;
    let mut asked = tokio::task::JoinSet::new();
    for kind in 0..500u32 {
        let session = session.clone();
        asked.spawn(async move {
            let lane = [Lane::Control, Lane::Metadata, Lane::Data][kind as usize % 3];
            let message = Message::new(kind, "body").with_payload(kind.to_be_bytes().repeat(200));
            loop {
                match session.request(lane, message.clone(), later()).await {
                    // The requests begin all at once, more than are served at once.
                    Err(RequestError::Busy) => tokio::task::yield_now().await,
                    reply => break assert_eq!(reply, Ok(message)),
                }
            }
        });
    }
    while let Some(done) = asked.join_next().await {
        done.expect("answered with an echo");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_the_peer_refuses_says_why() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 1, quick()).await;
    let second = Replica::start(set.identity(2), 1, quick()).await;
    let session = second.connect(1, &first.address).ready().await;
    let refused = session
        .request(Lane::Control, Message::new(REFUSED, ""), later())
        .await;
    let Err(RequestError::Refused(refusal)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(refusal.0, "not today");
    let large = session
        .request(Lane::Control, Message::new(TOO_LARGE, ""), later())
        .await;
    let Err(RequestError::Refused(refusal)) = large else {
        panic!("{large:?}");
    };
    assert!(refusal.0.contains("too large"), "{}", refusal.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_peer_leaves_the_outcome_unknown() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 3, quick()).await;
    let second = Replica::start(set.identity(2), 1, quick()).await;
    let session = second.connect(1, &first.address).ready().await;
    let asked = tokio::spawn(async move {
        let message = Message::new(NEVER_ANSWERED, "");
        session.request(Lane::Metadata, message, later()).await
    });
    let address = first.address.clone();
    drop(first);
    let _again = Replica::start_at(&address, set.identity(1), 4, quick(), None).await;
    let outcome = asked.await.expect("no panic");
    // It may not have been sent at all before the restart.
    let incarnation = Incarnation(3);
    assert!(
        outcome == Err(RequestError::OutcomeUnknown(incarnation))
            || outcome == Err(RequestError::NotSent(SendError::Ended(incarnation))),
        "{outcome:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_ends_the_waiting_and_the_session_goes_on() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 1, quick()).await;
    let second = Replica::start(set.identity(2), 1, quick()).await;
    let session = second.connect(1, &first.address).ready().await;
    let soon = Instant::now() + Duration::from_millis(20);
    let message = Message::new(NEVER_ANSWERED, "");
    let outcome = session.request(Lane::Control, message, soon).await;
    assert_eq!(outcome, Err(RequestError::Deadline));
    let echo = Message::new(1, "still there");
    let reply = session.request(Lane::Control, echo.clone(), later()).await;
    assert_eq!(reply, Ok(echo));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_requests_than_are_served_are_told_busy_and_messages_pass_them() {
    let set = TestSet::of(2).await;
    let few = Settings {
        requests_served_max: 2,
        ..quick()
    };
    let first = Replica::start(set.identity(1), 1, few).await;
    let second = Replica::start(set.identity(2), 1, quick()).await;
    let session = second.connect(1, &first.address).ready().await;
    for _ in 0..2 {
        let session = session.clone();
        tokio::spawn(async move {
            let message = Message::new(NEVER_ANSWERED, "");
            // The question below may be served at the moment when this one arrives.
            let busy = Err(RequestError::Busy);
            while session
                .request(Lane::Control, message.clone(), later())
                .await
                == busy
            {}
        });
    }
    loop {
        let soon = Instant::now() + Duration::from_millis(100);
        let outcome = session
            .request(Lane::Control, Message::new(1, ""), soon)
            .await;
        if outcome == Err(RequestError::Busy) {
            break;
        }
    }
    session
        .send(Lane::Control, Message::new(2, ""))
        .await
        .expect("sends");
    first.recorder.until_messages(1).await;
}

#[tokio::test]
async fn what_a_lane_does_not_carry_is_refused_before_it_is_sent() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 1, quick()).await;
    let second = Replica::start(set.identity(2), 1, quick()).await;
    let peer = second.connect(1, &first.address);
    assert!(matches!(peer.session(), Err(SendError::NoSession)));
    let session = peer.ready().await;
    let long = vec![0; Lane::Control.max_payload_bytes() + 1];
    let message = Message::new(1, "").with_payload(long);
    let outcome = session.send(Lane::Control, message.clone()).await;
    assert!(matches!(outcome, Err(SendError::TooLarge { .. })));
    assert!(matches!(
        session.try_send(Lane::Control, message),
        Err(SendError::TooLarge { .. })
    ));
}
