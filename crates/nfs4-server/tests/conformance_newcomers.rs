//! Clients that come from another server with the same scope: what they may reclaim, and what is refused
//! (RFC 8881, sections 8.4.2.1, 11.10 and 11.11).
//!
//! The servers of a test have one tree, with one table of locks, as if it were kept at several sites.

use std::sync::Arc;
use std::time::Duration;

use crate::fixture::operations::*;
use crate::fixture::sessions::*;
use crate::fixture::state::*;
use crate::fixture::{Client, Fixture, Plan, Successful, last};
use nfs4::{
    ArgOp4, Attr, Attributes4, Bitmap4, LockArgs, NfsFh4, NfsLockType4, NfsStat4, OpenArgs,
    OpenClaim4, OpenDelegationType4, ResOp4, StableHow4, Stateid4, seq4_status, share,
};
use nfs4_server::{Location, Service};
use vfs::FileSystem;

/// A client of a server that has not said RECLAIM_COMPLETE.
async fn arrive(fixture: &Fixture, service: &Arc<Service>, owner: &str) -> Client {
    service.housekeep().await;
    let connection = fixture.connection();
    service.connection_opened(connection.clone());
    let client = Client::stranger(service.clone(), connection);
    let known = client.introduce(introduction(owner)).await;
    let request = session_request(known.clientid, known.sequenceid);
    let mut client = client.in_session(client.request_session(request).await.sessionid);
    client.id = known.clientid;
    client
}

/// The same, when it has nothing to reclaim.
async fn settle(fixture: &Fixture, service: &Arc<Service>, owner: &str) -> Client {
    let client = arrive(fixture, service, owner).await;
    client.compound(vec![reclaim_complete()]).await.ok();
    client
}

fn previous() -> OpenArgs {
    OpenArgs {
        claim: OpenClaim4::Previous(OpenDelegationType4::None),
        ..open_args("opener", share::ACCESS_BOTH)
    }
}

async fn reclaim_open(client: &Client, handle: &NfsFh4) -> Stateid4 {
    let reply = client.on(handle, [ArgOp4::Open(previous())]).await;
    last!(reply, Open).stateid
}

fn lock_again(open: Stateid4) -> LockArgs {
    LockArgs {
        reclaim: true,
        ..first_lock(open, "locker", 0, 10)
    }
}

/// Two servers, and a file that a client of the first has open and locked from byte 0 to 9.
struct Scene {
    fixture: Fixture,
    first: Arc<Service>,
    second: Arc<Service>,
    holder: Client,
    handle: NfsFh4,
    open: Stateid4,
}

async fn scene() -> Scene {
    let fixture = Fixture::new();
    let (first, second) = (fixture.among_others(1), fixture.among_others(2));
    let holder = settle(&fixture, &first, "holder").await;
    let (handle, open) = holder.open_new("file").await;
    holder
        .lock_on(&handle, first_lock(open, "locker", 0, 10))
        .await;
    Scene {
        fixture,
        first,
        second,
        holder,
        handle,
        open,
    }
}

impl Scene {
    /// Whether another client of the second server is kept from the first byte.
    async fn is_locked(&self) -> bool {
        let other = self.fixture.connection().id().0.to_string();
        let other = settle(&self.fixture, &self.second, &other).await;
        let test = lockt("o", NfsLockType4::Write, 0, 1);
        match other.on(&self.handle, [test]).await.status {
            NfsStat4::Ok => false,
            NfsStat4::Denied => true,
            status => panic!("{status:?}"),
        }
    }

    fn tree(&self) -> &dyn FileSystem {
        &*self.first.namespace().exports()[0].file_system
    }
}

/// What became of an operation on a file, and what SEQUENCE said of the client's state.
async fn tried(client: &Client, handle: &NfsFh4, operation: ArgOp4) -> (NfsStat4, u32) {
    let reply = client
        .compound_with_sequence(vec![putfh(handle), operation])
        .await;
    match &reply.results[0] {
        ResOp4::Sequence(Ok(sequence)) => (reply.status, sequence.status_flags),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_the_first_server_handed_out_means_nothing_at_the_second() {
    let scene = scene().await;
    let other = settle(&scene.fixture, &scene.second, "other").await;
    assert_ne!(
        (other.id, other.session),
        (scene.holder.id, scene.holder.session)
    );
    let stranger = Client::stranger(scene.second.clone(), scene.fixture.connection());
    let bare = ArgOp4::Sequence(sequence(scene.holder.session, 2));
    let lost = stranger.without_session(vec![bare]).await;
    assert_eq!(lost.status, NfsStat4::BadSession);
    let stale = create_session(session_request(scene.holder.id, 2));
    let lost = stranger.without_session(vec![stale]).await;
    assert_eq!(lost.status, NfsStat4::StaleClientid);
}

#[tokio::test]
async fn what_was_held_is_reclaimed_while_others_are_kept_out() {
    let scene = scene().await;
    let (fixture, handle) = (&scene.fixture, &scene.handle);
    let rival = settle(fixture, &scene.second, "rival").await;
    let (_, of_rival) = rival
        .open_at("/export/file", open_args("opener", share::ACCESS_BOTH))
        .await;
    let rivals_try = || ArgOp4::Lock(first_lock(of_rival, "rival", 9, 1));
    let early = rival.status_on(handle, [rivals_try()]).await;
    assert_eq!(early, NfsStat4::Denied, "before the holder is back");

    let holder = arrive(fixture, &scene.second, "holder").await;
    let new = ArgOp4::Open(make_args("opener", "new"));
    assert_eq!(holder.status_at("/export", [new]).await, NfsStat4::Grace);
    let open = reclaim_open(&holder, handle).await;
    holder.lock_on(handle, lock_again(open)).await;
    holder.compound(vec![reclaim_complete()]).await.ok();

    let late = rival.status_on(handle, [rivals_try()]).await;
    assert_eq!(late, NfsStat4::Denied, "after it is back");
    let data = xdr::Bytes::from_static(b"x");
    let goes_on = write(open, 0, StableHow4::FileSync, data);
    holder.on(handle, [goes_on]).await.ok();
    let out_of_time = holder.status_on(handle, [ArgOp4::Open(previous())]).await;
    assert_eq!(out_of_time, NfsStat4::NoGrace);
    let elsewhere = ArgOp4::Lock(first_lock(of_rival, "rival", 10, 1));
    rival.on(handle, [elsewhere]).await.ok();
}

#[tokio::test]
async fn what_was_denied_is_reclaimed_while_others_are_kept_out() {
    let fixture = Fixture::new();
    let (first, second) = (fixture.among_others(1), fixture.among_others(2));
    let denying = |claim| OpenArgs {
        share_deny: share::DENY_WRITE,
        claim,
        ..open_args("opener", share::ACCESS_READ)
    };
    let holder = settle(&fixture, &first, "holder").await;
    holder.make_file("/export", "file").await;
    let fresh = denying(OpenClaim4::Fh);
    let (handle, _) = holder.open_at("/export/file", fresh.clone()).await;

    let rival = settle(&fixture, &second, "rival").await;
    let writing = || ArgOp4::Open(open_args("rival", share::ACCESS_WRITE));
    let early = rival.status_on(&handle, [writing()]).await;
    assert_eq!(early, NfsStat4::ShareDenied, "before the holder is back");
    // Who does not deny by what it held is no exception.
    let liar = arrive(&fixture, &second, "liar").await;
    let of_liar = OpenArgs {
        share_access: share::ACCESS_WRITE,
        ..previous()
    };
    let refused = liar.status_on(&handle, [ArgOp4::Open(of_liar)]).await;
    assert_eq!(refused, NfsStat4::ReclaimConflict);

    let holder = arrive(&fixture, &second, "holder").await;
    let again = denying(OpenClaim4::Previous(OpenDelegationType4::None));
    let reply = holder.on(&handle, [ArgOp4::Open(again)]).await;
    let open = last!(reply, Open).stateid;
    holder.compound(vec![reclaim_complete()]).await.ok();
    let late = rival.status_on(&handle, [writing()]).await;
    assert_eq!(late, NfsStat4::ShareDenied, "after it is back");
    holder.on(&handle, [close(open)]).await.ok();
    rival.on(&handle, [writing()]).await.ok();
}

#[tokio::test]
async fn a_server_on_its_own_takes_no_newcomers() {
    let scene = scene().await;
    let alone = scene.fixture.restarted(&[]);
    let holder = arrive(&scene.fixture, &alone, "holder").await;
    let refused = holder
        .status_on(&scene.handle, [ArgOp4::Open(previous())])
        .await;
    assert_eq!(refused, NfsStat4::NoGrace);
}

#[tokio::test]
async fn a_lock_that_was_not_held_is_not_reclaimed() {
    let scene = scene().await;
    let liar = arrive(&scene.fixture, &scene.second, "liar").await;
    let open = reclaim_open(&liar, &scene.handle).await;
    for (offset, expected) in [(5, NfsStat4::ReclaimConflict), (10, NfsStat4::ReclaimBad)] {
        let claim = LockArgs {
            reclaim: true,
            ..first_lock(open, "locker", offset, 10)
        };
        let refused = liar.status_on(&scene.handle, [ArgOp4::Lock(claim)]).await;
        assert_eq!(refused, expected, "from byte {offset}");
    }
}

/// It was granted to whoever asked, though others could have had the file open since.
#[tokio::test]
async fn an_open_that_did_not_keep_others_out_does_not_do_so_by_a_reclaim() {
    let scene = scene().await;
    let claim = || OpenArgs {
        share_deny: share::DENY_WRITE,
        claim: OpenClaim4::Previous(OpenDelegationType4::None),
        ..open_args("denier", share::ACCESS_READ)
    };
    let free = scene.holder.open_new("free").await.0;
    let liar = arrive(&scene.fixture, &scene.second, "liar").await;
    let refused = liar.status_on(&free, [ArgOp4::Open(claim())]).await;
    assert_eq!(refused, NfsStat4::ReclaimBad);
    let denier = settle(&scene.fixture, &scene.first, "denier").await;
    let denying = OpenArgs {
        share_deny: share::DENY_WRITE,
        ..open_args("denier", share::ACCESS_READ)
    };
    denier.make_file("/export", "denied").await;
    let handle = denier.handle("/export/denied").await;
    let before = denier.on(&handle, [ArgOp4::Open(denying)]).await;
    before.ok();
    let moved = arrive(&scene.fixture, &scene.second, "denier").await;
    moved.on(&handle, [ArgOp4::Open(claim())]).await.ok();
}

#[tokio::test]
async fn who_was_given_up_reclaims_nothing() {
    let scene = scene().await;
    let holdings = scene.tree().holdings();
    let clients = holdings.clients();
    assert_eq!(clients.len(), 1);
    assert!(scene.first.absent(&clients).is_empty(), "it is there");
    assert_eq!(scene.second.absent(&clients), clients);
    assert!(scene.is_locked().await);
    scene.tree().give_up(&holdings.of(&clients)).await.unwrap();
    assert!(!scene.is_locked().await);

    let holder = arrive(&scene.fixture, &scene.second, "holder").await;
    let refused = holder
        .status_on(&scene.handle, [ArgOp4::Open(previous())])
        .await;
    assert_eq!(refused, NfsStat4::NoGrace);
    holder.compound(vec![reclaim_complete()]).await.ok();
    // It knows now that it has lost all, and begins anew.
    let (_, open) = holder
        .open_at("/export/file", open_args("opener", share::ACCESS_BOTH))
        .await;
    holder
        .lock_on(&scene.handle, first_lock(open, "locker", 0, 10))
        .await;
}

#[tokio::test]
async fn a_server_that_was_out_of_touch_forgets_its_clients_and_keeps_their_locks() {
    let scene = scene().await;
    scene.first.forget_clients().await;
    let lost = scene.holder.compound_with_sequence(vec![getfh()]).await;
    assert_eq!(lost.status, NfsStat4::BadSession);
    assert!(scene.is_locked().await);
    let holder = arrive(&scene.fixture, &scene.first, "holder").await;
    let open = reclaim_open(&holder, &scene.handle).await;
    holder.lock_on(&scene.handle, lock_again(open)).await;
}

#[tokio::test]
async fn who_comes_as_if_nothing_had_been_lost_is_asked_to_reclaim() {
    let scene = scene().await;
    let (handle, second) = (&scene.handle, &scene.second);
    let holder = settle(&scene.fixture, second, "holder").await;
    let data = xdr::Bytes::from_static(b"x");
    let with_old_open = || write(scene.open, 0, StableHow4::FileSync, data.clone());
    let asked = tried(&holder, handle, with_old_open()).await;
    assert_eq!(asked, (NfsStat4::Delay, 0));
    let again = tried(&holder, handle, with_old_open()).await;
    let needed = seq4_status::RESTART_RECLAIM_NEEDED;
    assert_eq!(again, (NfsStat4::Delay, needed));

    let open = reclaim_open(&holder, handle).await;
    holder.lock_on(handle, lock_again(open)).await;
    holder.compound(vec![reclaim_complete()]).await.ok();
    let with_new_open = write(open, 0, StableHow4::FileSync, data.clone());
    let now = tried(&holder, handle, with_new_open).await;
    assert_eq!(now, (NfsStat4::Ok, 0));
    // What this server handed out and took back is not another server's.
    holder.on(handle, [close(open)]).await.ok();
    let closed = holder.status_on(handle, [close(open)]).await;
    assert_eq!(closed, NfsStat4::BadStateid);
}

#[tokio::test]
async fn a_client_that_insists_on_an_old_stateid_hears_in_the_end_that_it_is_bad() {
    let scene = scene().await;
    let holder = settle(&scene.fixture, &scene.second, "holder").await;
    for _ in 0..100 {
        let status = holder.status_on(&scene.handle, [close(scene.open)]).await;
        if status == NfsStat4::BadStateid {
            return;
        }
        assert_eq!(status, NfsStat4::Delay);
        holder.compound(vec![reclaim_complete()]).await.ok();
    }
    panic!("it is asked for ever");
}

/// What GETATTR says of where an export is.
async fn locations(client: &Client, handle: &NfsFh4) -> Attributes4 {
    let wanted = [Attr::FsLocations, Attr::Fsid, Attr::Size];
    let reply = client.on(handle, [getattr(Bitmap4::of(&wanted))]).await;
    Attributes4::decode(&last!(reply, Getattr).obj_attributes)
        .expect("the attributes can be decoded")
}

/// Linux connects to the server to which a mount moves from an ordinary port. Where that is not believed the mount is lost.
#[tokio::test]
async fn clients_that_are_believed_from_privileged_ports_only_cannot_follow_a_tree() {
    for (secure, stays) in [(true, true), (false, false)] {
        let mut plan = Plan::open("/export");
        plan.rules[0].secure = secure;
        let fixture = Fixture::with(vec![plan]);
        let tree = fixture.service.namespace().exports()[0]
            .file_system
            .properties()
            .fs_id;
        assert_eq!(fixture.service.cannot_follow(tree), None, "nobody is there");
        let _client = fixture.client().await;
        assert_eq!(fixture.service.cannot_follow(tree).is_some(), stays);
    }
}

#[tokio::test]
async fn a_tree_that_moves_says_where_it_is_and_nothing_else() {
    let scene = scene().await;
    let (holder, handle, first) = (&scene.holder, &scene.handle, &scene.first);
    let here = locations(holder, handle).await;
    assert!(here.fs_locations.unwrap().locations.is_empty());
    assert!(!first.drained(), "nothing moves");
    let top = holder.handle("/").await;
    let above = locations(holder, &top).await.fs_locations.unwrap();
    assert!(above.locations.is_empty());

    let addresses = vec!["192.0.2.7".to_owned()];
    let there = vec![Location { addresses }];
    let tree = scene.tree().properties().fs_id;
    first.begin_drain(tree, there, Duration::from_secs(3600));
    let bare = holder.compound_with_sequence(Vec::new()).await;
    match &bare.results[0] {
        ResOp4::Sequence(Ok(sequence)) => {
            assert_eq!(sequence.status_flags, seq4_status::LEASE_MOVED);
        }
        other => panic!("{other:?}"),
    }
    let data = xdr::Bytes::from_static(b"x");
    let (moved, mut flags) = (NfsStat4::Moved, seq4_status::LEASE_MOVED);
    for operation in [
        write(scene.open, 0, StableHow4::FileSync, data),
        close(scene.open),
        getfh(),
        getattr(Bitmap4::of(&[Attr::Size])),
        ArgOp4::Lock(first_lock(scene.open, "locker", 20, 1)),
    ] {
        let refused = tried(holder, handle, operation.clone()).await;
        assert_eq!(refused, (moved, flags), "{operation:?}");
        // It has been told, and is about to ask where the tree is.
        flags = 0;
    }
    assert_eq!(holder.status_at("/", [getfh()]).await, NfsStat4::Ok);
    assert_eq!(holder.status_at("/export/file", []).await, NfsStat4::Moved);
    // The directory above has no other tree below it, so a client that has mounted it moves too.
    let asked = holder.status_on(&top, [getfh()]).await;
    assert_eq!(asked, NfsStat4::Moved);
    let asked = holder.status_on(&top, [lookup("export")]).await;
    assert_eq!(asked, NfsStat4::Moved);
    let moved = locations(holder, &top).await.fs_locations.unwrap();
    assert_eq!(moved.locations[0].server, ["192.0.2.7".into()]);
    assert_eq!(
        (moved.fs_root.0.len(), moved.locations[0].rootpath.0.len()),
        (0, 0)
    );

    let moved = locations(holder, handle).await;
    assert_eq!(moved.size, None);
    assert!(moved.fsid.is_some());
    let moved = moved.fs_locations.unwrap();
    assert_eq!(moved.locations.len(), 1);
    assert_eq!(moved.locations[0].server, ["192.0.2.7".into()]);
    assert_eq!(moved.locations[0].rootpath, moved.fs_root);
    assert_eq!(moved.fs_root.0, ["export".into()]);
}

#[tokio::test]
async fn a_client_that_has_moved_takes_its_leave_and_its_locks_stand() {
    let scene = scene().await;
    let (holder, first) = (&scene.holder, &scene.first);
    let tree = scene.tree().properties().fs_id;
    first.begin_drain(tree, Vec::new(), Duration::from_secs(3600));
    locations(holder, &scene.handle).await;
    assert!(!first.drained());
    let destroyed = holder
        .without_session(vec![destroy_session(holder.session)])
        .await;
    destroyed.ok();
    assert!(first.drained());
    let destroyed = holder
        .without_session(vec![destroy_clientid(holder.id)])
        .await;
    destroyed.ok();
    first.housekeep().await;
    assert_eq!(first.counts().opens, 0);
    assert!(scene.is_locked().await);
    let at_second = settle(&scene.fixture, &scene.second, "holder").await;
    let asked = at_second
        .status_on(&scene.handle, [close(scene.open)])
        .await;
    assert_eq!(asked, NfsStat4::Delay);
    let open = reclaim_open(&at_second, &scene.handle).await;
    at_second.lock_on(&scene.handle, lock_again(open)).await;
}

#[tokio::test]
async fn patience_with_those_who_stay_ends() {
    let scene = scene().await;
    let tree = scene.tree().properties().fs_id;
    scene.first.begin_drain(tree, Vec::new(), Duration::ZERO);
    assert!(scene.first.drained());
}
