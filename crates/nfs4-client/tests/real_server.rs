//! The client against a server of other authors: NFS-Ganesha with its VFS back end.
//!
//! What must never enter: judgements of the server. If it may behave in several ways, the
//! test accepts all of them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nfs4::{ArgOp4, Attr, Attributes4, Bitmap4, CreateType4, NfsFh4, NfsLockType4, NfsStat4};
use nfs4_client::{Client, Error, How, LockAnswer, Options, STAT, StableHow4, ops};
use testbed::{Ganesha, Requirements, Site};
use xdr::Bytes;

/// A server with an empty export, removed when it is dropped.
struct Server {
    site: Site,
    ganesha: Ganesha,
}

impl Server {
    /// `None`, with a message on standard error, if the machine cannot run one.
    fn start(test: &str) -> Option<Self> {
        let wanted = Requirements::site().with_ganesha();
        if !wanted.admit(test).unwrap() {
            return None;
        }
        let site = Site::new().unwrap();
        let export: PathBuf = site.folder().join("export");
        std::fs::create_dir(&export).unwrap();
        let ganesha = Ganesha::start(&site, &export).unwrap();
        Some(Self { site, ganesha })
    }

    fn options(&self) -> Options {
        let (site, address) = (self.site.clone(), self.ganesha.address());
        Options::dialling(move || {
            let stream = site.enter(|| nfs4_client::connect(address));
            stream.map_err(std::io::Error::other)?
        })
    }

    async fn client(&self) -> (Client, NfsFh4) {
        let client = Client::connect(self.options()).await.unwrap();
        let root = client.mount(Ganesha::EXPORT).await.unwrap();
        (client, root)
    }
}

fn status<T: std::fmt::Debug>(result: Result<T, Error>) -> Option<NfsStat4> {
    result.unwrap_err().status()
}

#[tokio::test]
async fn files_and_names() {
    let Some(server) = Server::start("nfs4-client: files and names") else {
        return;
    };
    let (client, root) = server.client().await;

    let folder = client.create_directory(&root, "d", 0o755).await.unwrap();
    let file = client
        .open(&folder, "f", &How::create_new(0o640))
        .await
        .unwrap();
    assert_eq!(
        status(client.open(&folder, "f", &How::create_new(0o640)).await),
        Some(NfsStat4::Exist)
    );
    let content = Bytes::from((0..3_000_000u32).map(|i| i as u8).collect::<Vec<_>>());
    client.write_all(&file, 0, &content).await.unwrap();
    assert_eq!(client.read_to_end(&file).await.unwrap(), content);
    client.close(&file).await.unwrap();

    client.link(&file.handle, &root, "hard").await.unwrap();
    client.symlink(&root, "soft", "d/f").await.unwrap();
    client.rename(&folder, "f", &root, "g").await.unwrap();
    assert_eq!(
        status(client.lookup(&folder, "f").await),
        Some(NfsStat4::NoEnt)
    );
    let soft = client.lookup(&root, "soft").await.unwrap();
    assert_eq!(client.readlink(&soft).await.unwrap(), "d/f");
    let stat = client.stat(&file.handle).await.unwrap();
    assert_eq!(
        (stat.size, stat.numlinks, stat.mode),
        (Some(3_000_000), Some(2), Some(0o640))
    );

    client.remove(&root, "hard").await.unwrap();
    client.remove(&root, "d").await.unwrap();
    let mut names: Vec<String> = client
        .readdir(&root, STAT)
        .await
        .unwrap()
        .iter()
        .map(|entry| entry.name.as_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["g", "soft"]);
    client.leave().await.unwrap();
}

#[tokio::test]
async fn attributes_and_users() {
    let Some(server) = Server::start("nfs4-client: attributes and users") else {
        return;
    };
    let (client, root) = server.client().await;
    let file = client.open(&root, "f", &How::create(0o600)).await.unwrap();
    let wanted = Attributes4 {
        size: Some(5000),
        mode: Some(0o604),
        ..Attributes4::default()
    };
    let set = client
        .setattr(&file.handle, file.stateid, &wanted)
        .await
        .unwrap();
    assert!(set.contains(Attr::Size));
    let stat = client
        .getattr(&file.handle, Bitmap4::of(&[Attr::Size, Attr::Mode]))
        .await
        .unwrap();
    assert_eq!((stat.size, stat.mode), (Some(5000), Some(0o604)));

    let other = client.as_user(1000, 1000, &[1001]);
    let reads_and_writes = nfs4::access::READ | nfs4::access::MODIFY;
    let access = other.access(&file.handle, reads_and_writes).await.unwrap();
    assert_eq!(access.allowed, nfs4::access::READ);
    let how = How::write().by("another owner");
    assert_eq!(
        status(other.open(&root, "f", &how).await),
        Some(NfsStat4::Access)
    );
}

#[tokio::test]
async fn a_directory_is_read_in_pages() {
    let Some(server) = Server::start("nfs4-client: a directory is read in pages") else {
        return;
    };
    let (client, root) = server.client().await;
    let creating = (0..300).map(|number| {
        let (client, root) = (client.clone(), root.clone());
        tokio::spawn(async move {
            let name = format!("entry-{number:03}");
            let file = client.open(&root, &*name, &How::create(0o644)).await?;
            client.close(&file).await
        })
    });
    for created in creating.collect::<Vec<_>>() {
        created.await.unwrap().unwrap();
    }
    let entries = client.readdir(&root, STAT).await.unwrap();
    assert_eq!(entries.len(), 300);

    let (mut cookie, mut verifier, mut seen) = (0, Default::default(), Vec::new());
    loop {
        let page = client
            .readdir_page(&root, cookie, verifier, 4096, Bitmap4::EMPTY)
            .await
            .unwrap();
        verifier = page.verifier;
        cookie = page.entries.last().map_or(cookie, |entry| entry.cookie);
        seen.extend(page.entries.into_iter().map(|entry| entry.name.0));
        if page.is_last {
            break;
        }
    }
    seen.sort();
    let expected: Vec<String> = (0..300).map(|n| format!("entry-{n:03}")).collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn locks_between_two_clients() {
    let Some(server) = Server::start("nfs4-client: locks between two clients") else {
        return;
    };
    let (first, root) = server.client().await;
    let (second, _) = server.client().await;
    let mine = first.open(&root, "f", &How::create(0o644)).await.unwrap();
    let theirs = second.open(&root, "f", &How::write()).await.unwrap();

    let write = NfsLockType4::Write;
    let LockAnswer::Granted(held) = first.lock(&mine, "a", write, 10, 10).await.unwrap() else {
        panic!("nothing is in the way");
    };
    let answer = second.lock(&theirs, "b", write, 15, 10).await.unwrap();
    let LockAnswer::Denied(holder) = answer else {
        panic!("ranges overlap")
    };
    assert_eq!((holder.offset, holder.length), (10, 10));
    let in_the_way = second
        .test_lock(&theirs.handle, "b", write, 0, 11)
        .await
        .unwrap();
    assert!(in_the_way.is_some());
    let held = first.unlock(&held, 15, 5).await.unwrap();
    let granted = second.lock(&theirs, "b", write, 15, 10).await.unwrap();
    assert!(matches!(granted, LockAnswer::Granted(_)));
    let more = first.lock_more(&held, write, 100, 1).await.unwrap();
    assert!(matches!(more, LockAnswer::Granted(_)));
}

/// Exactly once, by the server's reply cache: the same request on the same slot with the
/// same sequence number, even on another connection, is answered and not executed again.
#[tokio::test]
async fn a_repeated_request_is_executed_once() {
    let Some(server) = Server::start("nfs4-client: a repeated request is executed once") else {
        return;
    };
    let options = Options {
        connections: 2,
        ..server.options()
    };
    let client = Client::connect(options).await.unwrap();
    let root = client.mount(Ganesha::EXPORT).await.unwrap();
    let session = client.session();
    let mut slot = session.take_slot().await.unwrap();
    let credentials = session.options().credentials.clone();
    let kind = CreateType4::Dir;
    let request = vec![
        ArgOp4::Sequence(slot.sequence_args(true)),
        ops::putfh(&root),
        ops::create(kind, "once", Attributes4::default().encode(&Bitmap4::EMPTY)),
    ];
    let first = session.connection(0).await.unwrap();
    let second = session.connection(1).await.unwrap();
    let reply = first.compound(&credentials, request.clone()).await.unwrap();
    assert_eq!(reply.status, NfsStat4::Ok);
    let again = second
        .compound(&credentials, request.clone())
        .await
        .unwrap();
    assert_eq!(again, reply);
    slot.advance();
    let mut anew = request;
    anew[0] = ArgOp4::Sequence(slot.sequence_args(true));
    let refused = first.compound(&credentials, anew).await.unwrap();
    assert_eq!(refused.status, NfsStat4::Exist);
}

/// Connections are cut while requests are active. Each request creates a directory and would
/// fail if it were executed twice.
#[tokio::test]
async fn broken_connections_go_unnoticed() {
    const CUTS: usize = 20;
    let Some(server) = Server::start("nfs4-client: broken connections go unnoticed") else {
        return;
    };
    let options = Options {
        connections: 2,
        ..server.options()
    };
    let client = Client::connect(options).await.unwrap();
    let root = client.mount(Ganesha::EXPORT).await.unwrap();
    let cutting = tokio::spawn({
        let session = Arc::clone(client.session());
        async move {
            for cut in 0..CUTS {
                session.connection(cut).await.unwrap().sever();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    });
    let mut created = 0;
    while !cutting.is_finished() {
        let requests: Vec<_> = (created..created + 8)
            .map(|number| {
                let (client, root) = (client.clone(), root.clone());
                let name = number.to_string();
                tokio::spawn(async move { client.create_directory(&root, &*name, 0o755).await })
            })
            .collect();
        created += requests.len();
        for request in requests {
            request.await.unwrap().unwrap();
        }
    }
    cutting.await.unwrap();
    let entries = client.readdir(&root, Bitmap4::EMPTY).await.unwrap();
    assert_eq!(entries.len(), created);
}

#[tokio::test]
async fn data_survives_the_servers_restart() {
    let Some(mut server) = Server::start("nfs4-client: data survives the server's restart") else {
        return;
    };
    let (client, root) = server.client().await;
    let file = client.open(&root, "f", &How::create(0o644)).await.unwrap();
    let data = Bytes::from_static(b"durable");
    let stable = StableHow4::FileSync;
    client.write(&file, 0, data.clone(), stable).await.unwrap();

    let address = server.ganesha.address();
    server.ganesha.service().kill().unwrap();
    server.ganesha.service().restart().unwrap();
    server.ganesha.service().wait_for_nfs(address).unwrap();
    let lost = status(client.getattr(&root, STAT).await);
    assert!(
        matches!(lost, Some(NfsStat4::BadSession | NfsStat4::StaleClientid)),
        "{lost:?}"
    );

    let (client, root) = server.client().await;
    let file = client.open(&root, "f", &How::read()).await.unwrap();
    assert_eq!(client.read_to_end(&file).await.unwrap(), data);
}
