//! Locks and denials whose holders' server is lost or restarted: they stand until they are reclaimed or given up.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fixture::{READ, ROOT, Set, Site, WRITE, eventually};
use vfs::{Error, ObjectId, OpenOwner, Share};

/// What the server in front of a replica knows of its clients.
#[derive(Clone, Default)]
struct Server {
    clients: Arc<Mutex<BTreeSet<Vec<u8>>>>,
    let_go: Arc<Mutex<BTreeSet<Vec<u8>>>>,
}

impl Server {
    fn before(site: &Site, clients: &[&str]) -> Server {
        let server = Server::default();
        let names = clients.iter().map(|name| name.as_bytes().to_vec());
        server.clients.lock().unwrap().extend(names);
        let Server { clients, let_go } = server.clone();
        site.files
            .on_clients_asked(Arc::new(move |names, for_good| {
                let clients = clients.lock().unwrap();
                let absent = names.iter().filter(|name| !clients.contains(&name[..]));
                let absent: Vec<Arc<[u8]>> = absent.cloned().collect();
                if for_good {
                    let mut let_go = let_go.lock().unwrap();
                    let_go.extend(absent.iter().map(|name| name.to_vec()));
                }
                absent
            }));
        server
    }

    fn forget(&self, client: &str) {
        self.clients.lock().unwrap().remove(client.as_bytes());
    }

    fn has_let_go(&self) -> Vec<String> {
        let let_go = self.let_go.lock().unwrap();
        let names = let_go
            .iter()
            .map(|name| String::from_utf8(name.clone()).unwrap());
        names.collect()
    }
}

async fn is_locked(site: &Site, file: ObjectId) -> bool {
    match site.lock(file, "another").await {
        Ok(()) => {
            site.unlock(file, "another").await.unwrap();
            false
        }
        Err(Error::Locked(_)) => true,
        Err(error) => panic!("{error}"),
    }
}

/// A site that has not heard of an unlocking refuses for a moment longer.
async fn until_free(site: &Site, file: ObjectId) {
    let free = async {
        while is_locked(site, file).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let free = tokio::time::timeout(crate::fixture::PATIENCE, free).await;
    assert!(free.is_ok(), "it stays locked");
}

async fn until_left(set: &Set, lost: u16) {
    let replica = set.sites[0].replica.clone();
    eventually("the others go on without the lost replica", || {
        let view = replica.view_status();
        let mut members = view.members.iter();
        members.any(|member| member.slot == lost && !member.active) && replica.ready()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_held_is_given_up_when_it_stays_away_and_only_then() {
    let mut set = Set::failing(3).await;
    let names = ["stays", "moves", "vanishes"];
    let mut files = Vec::new();
    for client in names {
        let file = set.sites[0].save(ROOT, client, b"text").await.unwrap();
        set.sites[0].lock(file, client).await.unwrap();
        files.push(file);
    }
    let denied = set.sites[0].save(ROOT, "denied", b"text").await.unwrap();
    let alone = Share {
        deny_write: true,
        ..READ
    };
    let opener = OpenOwner::new(b"vanishes", b"process");
    let by = crate::fixture::root();
    let opened = crate::fixture::patiently(|| {
        let by = vfs::AccessCheck::Credentials(&by);
        set.sites[0].files.open(by, denied, &opener, alone)
    });
    opened.await.unwrap();
    let _lost_server = Server::before(&set.sites[0], &names);
    let servers = [
        Server::before(&set.sites[1], &["stays", "vanishes"]),
        Server::before(&set.sites[2], &["moves"]),
    ];
    set.rest().await;
    let lost = set.crash(0).await;
    until_left(&set, 1).await;
    assert!(
        is_locked(&set.sites[0], files[2]).await,
        "its client is there"
    );
    servers[0].forget("vanishes");
    let given_up = async {
        while is_locked(&set.sites[1], files[2]).await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        while let Err(error) = set.sites[1].open(denied, "writer", WRITE).await {
            assert_eq!(error, Error::ShareDenied);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let given_up = tokio::time::timeout(3 * crate::fixture::PATIENCE, given_up).await;
    assert!(given_up.is_ok(), "it stands for ever");
    for file in &files[..2] {
        assert!(is_locked(&set.sites[0], *file).await, "its client is there");
    }
    for server in &servers {
        assert_eq!(server.has_let_go(), ["vanishes"]);
    }
    set.revive(0, lost).await;
    set.revive_until_ready(0).await;
    assert!(
        set.sites[0].files.others_went_on(ObjectId::ROOT),
        "it was away meanwhile"
    );
    until_free(&set.sites[0], files[2]).await;
    assert!(is_locked(&set.sites[0], files[0]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_primary_knows_what_clients_of_other_servers_hold() {
    let mut set = Set::of(3).await;
    let file = set.sites[0].save(ROOT, "f", b"text").await.unwrap();
    let denied = set.sites[0].save(ROOT, "denied", b"text").await.unwrap();
    // An open file keeps its control, so the first one decides about it.
    for file in [file, denied] {
        set.sites[0].open(file, "a writer", WRITE).await.unwrap();
        set.sites[0].write(file, 0, b"TEXT").await.unwrap();
    }
    set.sites[1].lock(file, "theirs").await.unwrap();
    let alone = Share {
        deny_read: true,
        ..READ
    };
    set.sites[1].open(denied, "alone", alone).await.unwrap();
    set.restart(0).await;
    let sites = &set.sites;
    eventually("it takes part again", || sites[0].replica.ready()).await;
    for site in sites {
        assert!(is_locked(site, file).await);
        let read = site.open(denied, "reader", READ).await;
        assert_eq!(read.map(|_| ()), Err(Error::ShareDenied));
    }
    sites[1].unlock(file, "theirs").await.unwrap();
    sites[1].close(denied, "alone").await.unwrap();
    for site in sites {
        until_free(site, file).await;
        let opened = async {
            while let Err(error) = site.open(denied, "reader", READ).await {
                assert_eq!(error, Error::ShareDenied);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let opened = tokio::time::timeout(crate::fixture::PATIENCE, opened).await;
        assert!(opened.is_ok(), "it stays denied");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_survive_the_restart_of_all_replicas() {
    let mut set = Set::of(2).await;
    let file = set.sites[0].save(ROOT, "f", b"text").await.unwrap();
    let gone = set.sites[0].save(ROOT, "gone", b"text").await.unwrap();
    set.sites[1].lock(file, "theirs").await.unwrap();
    set.sites[0].lock(gone, "ours").await.unwrap();
    set.sites[0].remove(ROOT, "gone").await.unwrap();
    set.rest().await;
    let first = set.crash(0).await;
    let second = set.crash(0).await;
    set.revive(0, first).await;
    set.revive(1, second).await;
    let sites = &set.sites;
    eventually("all take part again", || {
        sites.iter().all(|site| site.replica.ready())
    })
    .await;
    for site in sites {
        assert!(is_locked(site, file).await);
        let held = vfs::FileSystem::holdings(&*site.store);
        assert_eq!(held.locks.len(), 1, "nothing stands for what is gone");
    }
}
