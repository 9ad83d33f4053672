//! A tree whose operations panic, or wait: what a client hears of it, and what others do not.

use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;
use nfs4_client::{Options, ops};
use nfs4_server::{AccessMode, AccessRule, NfsStat4, Squash};
use store::{NewStore, Store, StoreOptions};
use tokio::sync::Semaphore;
use vfs::*;

use super::*;

/// A directory in which a lookup does as the name says. Nothing but it is looked at.
struct Panicking {
    near: Store,
    /// How often a name was looked up.
    lookups: AtomicUsize,
    /// One permit lets the lookup of a slow name end.
    slow: Semaphore,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_panics_is_answered_once_and_others_of_its_connection_go_on() {
    let files = tempfile::tempdir().unwrap();
    let tree = Panicking::new(&files);
    let fixture = serve_trees(vec![export(tree.clone())], LIMITS);
    let client = nfs4_client::Client::connect(Options::at(fixture.address))
        .await
        .unwrap();
    let root = client.mount("/export").await.unwrap();
    let slow = tokio::spawn({
        let (client, root) = (client.clone(), root.clone());
        async move { client.lookup(&root, "slow").await }
    });
    tree.until_looked_up(1).await;

    let connection = client.session().connection(0).await.unwrap();
    let credentials = &client.session().options().credentials;
    for (number, name) in [(2, "panics at once"), (3, "panics later")] {
        let mut slot = client.session().take_slot().await.unwrap();
        let request = |last| {
            let sequence = nfs4::ArgOp4::Sequence(slot.sequence_args(true));
            vec![sequence, ops::putfh(&root), last]
        };
        let asked = request(ops::lookup(name));
        let reply = connection.compound(credentials, asked.clone()).await;
        let reply = reply.unwrap();
        let statuses: Vec<NfsStat4> = reply.results.iter().map(nfs4::ResOp4::status).collect();
        let expected = [NfsStat4::Ok, NfsStat4::Ok, NfsStat4::ServerFault];
        assert_eq!(
            (statuses.as_slice(), reply.status),
            (&expected[..], expected[2])
        );
        // The reply was kept: nothing panics a second time.
        let again = connection.compound(credentials, asked).await.unwrap();
        assert_eq!(again, reply);
        assert_eq!(tree.lookups.load(Ordering::SeqCst), number);
        slot.advance();
        let next = vec![
            nfs4::ArgOp4::Sequence(slot.sequence_args(true)),
            ops::putfh(&root),
            ops::lookup("nothing"),
        ];
        let next = connection.compound(credentials, next).await.unwrap();
        assert_eq!(next.status, NfsStat4::NoEnt, "the slot is free");
        tree.lookups.store(number, Ordering::SeqCst);
        slot.advance();
    }

    tree.slow.add_permits(1);
    let slow = slow.await.unwrap().unwrap_err();
    assert_eq!(slow.status(), Some(NfsStat4::NoEnt), "{slow}");
    let accepted = &fixture.transport.traffic().accepted;
    assert_eq!(
        accepted.load(Ordering::Relaxed),
        1,
        "no connection was lost"
    );
}

/// The task of its connection goes on with a request that waits, as long as nothing else comes. It must not end with that task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_waits_outlives_its_connection() {
    let files = tempfile::tempdir().unwrap();
    let tree = Panicking::new(&files);
    let fixture = serve_trees(vec![export(tree.clone())], LIMITS);
    let client = nfs4_client::Client::connect(Options::at(fixture.address))
        .await
        .unwrap();
    let root = client.mount("/export").await.unwrap();
    let session = client.session();
    let connection = session.connection(0).await.unwrap();
    let slot = session.take_slot().await.unwrap();
    let asked = vec![
        nfs4::ArgOp4::Sequence(slot.sequence_args(true)),
        ops::putfh(&root),
        ops::lookup("slow"),
    ];
    let asking = tokio::spawn({
        let (connection, session) = (connection.clone(), session.clone());
        async move {
            let credentials = &session.options().credentials;
            connection.compound(credentials, asked).await
        }
    });
    tree.until_looked_up(1).await;
    connection.sever();
    assert!(asking.await.unwrap().is_err());
    // Mostly the server has noticed by then.
    tokio::time::sleep(Duration::from_millis(50)).await;
    tree.slow.add_permits(1);
    let taken = async {
        while tree.slow.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), taken).await;
    assert!(ended.is_ok(), "the request was given up");
}

fn export(tree: Arc<Panicking>) -> Export {
    let everybody = AccessRule {
        clients: "*".parse().unwrap(),
        mode: AccessMode::ReadWrite,
        squash: Squash::None,
        anonymous_user: 65534,
        anonymous_group: 65534,
        secure: false,
    };
    Export::new("/export".parse().unwrap(), tree, vec![everybody])
}

impl Panicking {
    fn new(files: &TempDir) -> Arc<Panicking> {
        let options = StoreOptions::new(files.path().join("tree"));
        Arc::new(Panicking {
            near: Store::create(&options, &NewStore::default()).unwrap(),
            lookups: AtomicUsize::new(0),
            slow: Semaphore::new(0),
        })
    }

    async fn until_looked_up(&self, count: usize) {
        while self.lookups.load(Ordering::SeqCst) < count {
            tokio::task::yield_now().await;
        }
    }
}

/// A tree: some operations, and those that nobody asks for.
macro_rules! panicking {
    ({ $($asked:tt)* } { $($name:ident($($argument:ty),*) -> $answer:ty;)* }) => {
        #[async_trait]
        impl FileSystem for Panicking {
            $($asked)*
            $(async fn $name(&self, $(_: $argument),*) -> Result<$answer> {
                unreachable!()
            })*
        }
    };
}

panicking! {
    {
        fn properties(&self) -> &Properties {
            self.near.properties()
        }

        async fn attributes(&self, id: ObjectId) -> Result<Attributes> {
            self.near.attributes(id).await
        }

        async fn lookup(
            &self,
            who: &vfs::Credentials,
            id: ObjectId,
            name: &Name,
        ) -> Result<Attributes> {
            self.lookups.fetch_add(1, Ordering::SeqCst);
            match name.as_bytes() {
                b"panics at once" => panic!("at once"),
                b"panics later" => {
                    tokio::task::yield_now().await;
                    panic!("later");
                }
                b"slow" => self.slow.acquire().await.unwrap().forget(),
                _ => {}
            }
            self.near.lookup(who, id, name).await
        }
    }
    {
        space() -> Space;
        set_attributes(AccessCheck<'_>, ObjectId, &SetAttributes) -> Attributes;
        parent(&vfs::Credentials, ObjectId) -> Attributes;
        read_directory(&vfs::Credentials, ObjectId, Cookie, usize) -> DirectoryPage;
        create(&vfs::Credentials, ObjectId, &Name, NewObject, &SetAttributes) -> Created;
        remove(&vfs::Credentials, ObjectId, &Name) -> DirectoryChange;
        rename(&vfs::Credentials, (ObjectId, &Name), (ObjectId, &Name)) -> (DirectoryChange, DirectoryChange);
        link(&vfs::Credentials, ObjectId, ObjectId, &Name) -> DirectoryChange;
        read_link(&vfs::Credentials, ObjectId) -> Bytes;
        open(AccessCheck<'_>, ObjectId, &OpenOwner, Share) -> Attributes;
        downgrade(ObjectId, &OpenOwner, Share) -> ();
        close(ObjectId, &OpenOwner) -> ();
        lock(ObjectId, &LockOwner, ByteRange, LockKind) -> ();
        test_lock(ObjectId, &LockOwner, ByteRange, LockKind) -> Option<LockConflict>;
        unlock(ObjectId, &LockOwner, ByteRange) -> ();
        holds_lock(ObjectId, &LockOwner) -> bool;
        read(AccessCheck<'_>, ObjectId, u64, u32) -> ReadData;
        write(AccessCheck<'_>, ObjectId, u64, Bytes, Stability) -> Written;
        commit(ObjectId, u64, u32) -> Commitment;
        seek(AccessCheck<'_>, ObjectId, u64, SeekTarget) -> Option<u64>;
        allocate(AccessCheck<'_>, ObjectId, Extent) -> ();
        deallocate(AccessCheck<'_>, ObjectId, Extent) -> ();
        xattr(&vfs::Credentials, ObjectId, &XattrName) -> Bytes;
        set_xattr(&vfs::Credentials, ObjectId, &XattrName, Bytes, XattrMode) -> DirectoryChange;
        remove_xattr(&vfs::Credentials, ObjectId, &XattrName) -> DirectoryChange;
        xattrs(&vfs::Credentials, ObjectId, u64, usize) -> XattrPage;
        end_reclaim() -> ();
        sync() -> ();
    }
}
