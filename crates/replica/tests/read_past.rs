//! Clients that read files of a replica's copy past it, and what the other replicas wait for because of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use replica::Readers;
use tokio::sync::watch;
use vfs::ObjectId;

use crate::fixture::{PATIENCE, ROOT, Set, WRITE, eventually};

/// Controls last so long that what is done next is done under them.
const IDLE: Duration = Duration::from_secs(3);

/// What must not happen has this long to happen.
const A_WHILE: Duration = Duration::from_secs(2);

/// Clients that read some files, and go on until the test lets them end.
struct Clients {
    read: Mutex<Vec<ObjectId>>,
    /// They were asked to end.
    are_asked: watch::Sender<bool>,
    may_end: watch::Sender<bool>,
    /// The same of clients that an earlier start let read.
    earlier_may_end: watch::Sender<bool>,
}

impl Clients {
    fn reading(files: &[ObjectId]) -> Arc<Clients> {
        Arc::new(Clients {
            read: Mutex::new(files.to_vec()),
            are_asked: watch::Sender::new(false),
            may_end: watch::Sender::new(false),
            earlier_may_end: watch::Sender::new(true),
        })
    }

    /// Clients of an earlier start alone.
    fn of_an_earlier_start() -> Arc<Clients> {
        let clients = Clients::reading(&[]);
        clients.earlier_may_end.send_replace(false);
        clients
    }

    async fn asked(&self) {
        let asked = tokio::time::timeout(PATIENCE, until(&self.are_asked));
        asked.await.expect("they are asked to end");
    }
}

async fn until(sender: &watch::Sender<bool>) {
    let mut receiver = sender.subscribe();
    receiver.wait_for(|is_so| *is_so).await.unwrap();
}

#[async_trait]
impl Readers for Clients {
    async fn earlier_ended(&self) {
        until(&self.earlier_may_end).await;
    }

    fn files(&self) -> Vec<ObjectId> {
        self.read.lock().unwrap().clone()
    }

    async fn end(&self, file: ObjectId) {
        self.are_asked.send_replace(true);
        until(&self.may_end).await;
        self.read.lock().unwrap().retain(|read| *read != file);
    }
}

impl Set {
    /// Three replicas of which none leaves the view.
    async fn of_three_that_stay() -> Set {
        Set::failing_with(3, |settings| {
            settings.suspicion = 2 * PATIENCE;
            settings.control.deep_control_idle = IDLE;
            settings.control.file_control_idle = IDLE;
            settings.control.directory_control_idle = IDLE;
        })
        .await
    }

    /// Starts the third one anew, past which these read.
    async fn third_is_read_past_by(&mut self, clients: Arc<Clients>) {
        let third = self.crash(2).await;
        self.revive(2, third.read_past_by(clients)).await;
    }
}

/// The first has deep control of a directory, which the third has acknowledged, and moves another one into it. Below that lies a file that
/// clients of the third are reading, who are asked to end.
async fn moved_below_deep_control(clients: &Arc<Clients>) -> (Set, ObjectId) {
    let mut set = Set::of_three_that_stay().await;
    let deep = set.sites[0].directory(ROOT, "deep").await.unwrap();
    let moved = set.sites[0].directory(ROOT, "moved").await.unwrap();
    let file = set.sites[0].save(moved, "file", b"before").await.unwrap();
    set.rest().await;
    clients.read.lock().unwrap().push(file);
    set.third_is_read_past_by(clients.clone()).await;
    set.revive_until_ready(2).await;
    set.rest().await;
    set.sites[0].save(deep, "other", b"text").await.unwrap();
    eventually("the third has acknowledged deep control", || {
        let granted = set.sites[2].replica.status().controls;
        let mut granted = granted.iter();
        granted.any(|control| control.deep && control.holder == 1)
    })
    .await;
    let first = &set.sites[0];
    first
        .rename((ROOT, "moved"), (deep, "moved"))
        .await
        .unwrap();
    clients.asked().await;
    first.open(file, "writer", WRITE).await.unwrap();
    first.write(file, 0, b"second").await.unwrap();
    (set, file)
}

/// The third has the rename, and with it knows that the file is the first one's; its clients do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_moved_below_deep_control_is_read_by_nobody_when_its_close_is_answered() {
    let clients = Clients::reading(&[]);
    let (set, file) = moved_below_deep_control(&clients).await;
    let mut closing = Box::pin(set.sites[0].close(file, "writer"));
    let early = tokio::time::timeout(A_WHILE, &mut closing).await;
    assert!(early.is_err(), "answered while somebody reads what was");
    clients.may_end.send_replace(true);
    closing.await.unwrap();
    assert_eq!(clients.files(), []);
    set.assert_equal().await;
}

/// The third is started anew before its clients have ended, and has the rename then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_applied_in_a_new_start_while_clients_read_by_leave_of_the_one_before() {
    let (mut set, file) = moved_below_deep_control(&Clients::reading(&[])).await;
    let earlier = Clients::of_an_earlier_start();
    set.third_is_read_past_by(earlier.clone()).await;
    let mut closing = Box::pin(set.sites[0].close(file, "writer"));
    let early = tokio::time::timeout(2 * A_WHILE, &mut closing).await;
    assert!(early.is_err(), "answered while somebody may read what was");
    earlier.earlier_may_end.send_replace(true);
    closing.await.unwrap();
    set.revive_until_ready(2).await;
    set.assert_equal().await;
}

/// The third has granted a control, and is started anew before its clients have ended. It acknowledges what it remembers when those can read
/// no more whom the start before let read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_earlier_start_has_granted_is_acknowledged_when_its_clients_have_ended() {
    let mut set = Set::of_three_that_stay().await;
    let file = set.sites[0].save(ROOT, "file", b"before").await.unwrap();
    set.rest().await;
    let clients = Clients::reading(&[file]);
    set.third_is_read_past_by(clients.clone()).await;
    set.revive_until_ready(2).await;
    set.rest().await;
    let first = &set.sites[0];
    first.open(file, "writer", WRITE).await.unwrap();
    first.write(file, 0, b"second").await.unwrap();
    clients.asked().await;
    let files = set.sites[0].files.clone();
    let closing = tokio::spawn(async move {
        let owner = crate::fixture::owner("writer");
        crate::fixture::patiently(|| files.close(file, &owner)).await
    });
    let earlier = Clients::of_an_earlier_start();
    set.third_is_read_past_by(earlier.clone()).await;
    eventually("the first two are in contact with it", || {
        set.sites[..2].iter().all(|site| {
            let peers = site.replica.status().peers;
            peers.iter().all(|peer| peer.connected)
        })
    })
    .await;
    tokio::time::sleep(A_WHILE).await;
    assert!(!closing.is_finished(), "answered while somebody may read");
    earlier.earlier_may_end.send_replace(true);
    closing.await.unwrap().unwrap();
    set.revive_until_ready(2).await;
    set.assert_equal().await;
}
