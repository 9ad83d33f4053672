//! After a restart of the server: who may reclaim what, and what waits meanwhile (RFC 8881, sections 8.4.2,
//! 9.6, 18.51).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::fixture::operations::*;
use crate::fixture::sessions::*;
use crate::fixture::state::*;
use crate::fixture::{Client, Fixture, MemoryRecords, Successful, last, mode, pass};
use nfs4::{
    ArgOp4, LockArgs, NfsFh4, NfsLockType4, NfsStat4, OpenArgs, OpenClaim4, OpenDelegationType4,
    StableHow4, Stateid4, share,
};
use nfs4_server::{Limits, Service};

fn previous(open_owner: &str) -> OpenArgs {
    OpenArgs {
        claim: OpenClaim4::Previous(OpenDelegationType4::None),
        ..open_args(open_owner, share::ACCESS_BOTH)
    }
}

fn new_open() -> OpenArgs {
    make_args("opener", "file")
}

async fn reclaim(client: &Client, handle: &NfsFh4) -> Stateid4 {
    let reply = client.on(handle, [ArgOp4::Open(previous("opener"))]).await;
    last!(reply, Open).stateid
}

/// A file that a client had open and locked when the server restarted.
async fn restart(fixture: &Fixture, owners: &[&str]) -> (Client, NfsFh4, Arc<Service>) {
    fixture.service.housekeep().await;
    let before = arrive(fixture, &fixture.service, "holder").await;
    before.compound(vec![reclaim_complete()]).await.ok();
    let (handle, open) = before.open_new("file").await;
    before
        .lock_on(&handle, first_lock(open, "locker", 0, 10))
        .await;
    (before, handle, fixture.restarted(owners))
}

#[tokio::test]
async fn what_was_handed_out_before_is_unknown() {
    let fixture = Fixture::new();
    let (before, handle, service) = restart(&fixture, &["holder"]).await;
    let after = Client::stranger(service.clone(), fixture.connection());
    let bare = ArgOp4::Sequence(sequence(before.session, 9));
    let lost = after.without_session(vec![bare]).await;
    assert_eq!(lost.status, NfsStat4::BadSession);
    let stale = create_session(session_request(before.id, 2));
    let lost = after.without_session(vec![stale]).await;
    assert_eq!(lost.status, NfsStat4::StaleClientid);
    // Filehandles live on.
    let holder = arrive(&fixture, &service, "holder").await;
    holder.on(&handle, [getfh()]).await.ok();
}

/// Both are the first that a start has granted. Nothing but the session tells a client of the restart (RFC 8881, section 8.2.4): in
/// a session of this start such a stateid is none.
#[tokio::test]
async fn a_stateid_of_an_earlier_start_is_none_of_this_one() {
    let fixture = Fixture::new();
    fixture.service.housekeep().await;
    let before = arrive(&fixture, &fixture.service, "holder").await;
    before.compound(vec![reclaim_complete()]).await.ok();
    let (handle, earlier) = before.open_new("file").await;
    let service = fixture.restarted(&["holder"]);
    let holder = arrive(&fixture, &service, "holder").await;
    let now = reclaim(&holder, &handle).await;
    assert_ne!(earlier.other, now.other);
    assert_ne!((before.id, before.session), (holder.id, holder.session));
    let by = |stateid| {
        let data = xdr::Bytes::from_static(b"x");
        write(stateid, 0, StableHow4::FileSync, data)
    };
    let status = holder.status_on(&handle, [by(earlier)]).await;
    assert_eq!(status, NfsStat4::BadStateid);
    let mut later = now;
    later.seqid += 1;
    let status = holder.status_on(&handle, [by(later)]).await;
    assert_eq!(status, NfsStat4::BadStateid);
    holder.on(&handle, [by(now)]).await.ok();
}

#[tokio::test]
async fn what_was_held_is_reclaimed_and_nothing_new_is_granted() {
    let fixture = Fixture::new();
    let (_, handle, service) = restart(&fixture, &["holder", "late"]).await;
    let holder = arrive(&fixture, &service, "holder").await;
    let early = holder
        .status_at("/export", [ArgOp4::Open(new_open())])
        .await;
    assert_eq!(early, NfsStat4::Grace);
    let open = reclaim(&holder, &handle).await;
    let again = LockArgs {
        reclaim: true,
        ..first_lock(open, "locker", 0, 10)
    };
    let lock = holder.lock_on(&handle, again).await;
    let new_lock = ArgOp4::Lock(next_lock(lock, 50, 1));
    assert_eq!(holder.status_on(&handle, [new_lock]).await, NfsStat4::Grace);
    let data = xdr::Bytes::from_static(b"x");
    let without_open = write(Stateid4::ANONYMOUS, 0, StableHow4::FileSync, data.clone());
    assert_eq!(
        holder.status_on(&handle, [without_open]).await,
        NfsStat4::Grace
    );
    let with_open = write(open, 0, StableHow4::FileSync, data);
    holder.on(&handle, [with_open]).await.ok();

    holder.compound(vec![reclaim_complete()]).await.ok();
    let late_reclaim = holder
        .status_on(&handle, [ArgOp4::Open(previous("second"))])
        .await;
    assert_eq!(late_reclaim, NfsStat4::NoGrace);
    let twice = holder.compound(vec![reclaim_complete()]).await;
    assert_eq!(twice.status, NfsStat4::CompleteAlready);
    let new = holder
        .status_at("/export", [ArgOp4::Open(new_open())])
        .await;
    assert_eq!(new, NfsStat4::Grace, "another client has not come back yet");
}

#[tokio::test]
async fn grace_ends_when_the_last_of_those_that_held_something_is_back() {
    let fixture = Fixture::new();
    let (_, handle, service) = restart(&fixture, &["holder", "late"]).await;
    let holder = arrive(&fixture, &service, "holder").await;
    reclaim(&holder, &handle).await;
    holder.compound(vec![reclaim_complete()]).await.ok();
    service.housekeep().await;
    assert!(service.in_grace());
    let late = arrive(&fixture, &service, "late").await;
    late.compound(vec![reclaim_complete()]).await.ok();
    service.housekeep().await;
    assert!(!service.in_grace());
    for client in [&holder, &late] {
        client.at("/export", [ArgOp4::Open(new_open())]).await.ok();
    }
}

#[tokio::test]
async fn who_held_nothing_reclaims_nothing() {
    let fixture = Fixture::new();
    let (_, handle, service) = restart(&fixture, &["holder"]).await;
    let thief = arrive(&fixture, &service, "thief").await;
    let stolen = thief
        .status_on(&handle, [ArgOp4::Open(previous("o"))])
        .await;
    assert_eq!(stolen, NfsStat4::ReclaimBad);
    let test = lockt("o", NfsLockType4::Write, 0, 1);
    assert_eq!(thief.status_on(&handle, [test]).await, NfsStat4::Grace);
    thief.compound(vec![reclaim_complete()]).await.ok();
    let new = thief.status_at("/export", [ArgOp4::Open(new_open())]).await;
    assert_eq!(new, NfsStat4::Grace);
}

#[tokio::test]
async fn a_client_that_introduces_itself_twice_reclaims_once() {
    let fixture = Fixture::new();
    let (_, handle, service) = restart(&fixture, &["holder", "late"]).await;
    let holder = arrive(&fixture, &service, "holder").await;
    reclaim(&holder, &handle).await;
    holder.compound(vec![reclaim_complete()]).await.ok();
    let same = arrive(&fixture, &service, "holder").await;
    assert_eq!(same.id, holder.id);
    let again = same
        .status_on(&handle, [ArgOp4::Open(previous("opener"))])
        .await;
    assert_eq!(again, NfsStat4::NoGrace);
    let twice = same.compound(vec![reclaim_complete()]).await;
    assert_eq!(twice.status, NfsStat4::CompleteAlready);
}

/// On a full disk a client went on without a record of it. In a restart it lost what it held, to the client that
/// came first.
#[tokio::test]
async fn a_client_that_cannot_be_recorded_holds_nothing_before_it_can() {
    let fixture = Fixture::new();
    fixture.service.housekeep().await;
    let client = arrive(&fixture, &fixture.service, "holder").await;
    let open = || [ArgOp4::Open(new_open())];
    fixture.records.is_full.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        let asked = client.compound(vec![reclaim_complete()]).await;
        assert_eq!(asked.status, NfsStat4::Delay);
        assert_eq!(client.status_at("/export", open()).await, NfsStat4::Grace);
    }
    fixture.records.is_full.store(false, Ordering::SeqCst);
    client.compound(vec![reclaim_complete()]).await.ok();
    assert_eq!(fixture.records.owners(), [Arc::from(&b"holder"[..])]);
    client.at("/export", open()).await.ok();
}

/// Lets whatever is under way go on.
async fn pause() {
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
}

/// A record that could not be removed was left, and the locks of its client were given away: after a crash both reclaimed them.
#[tokio::test]
async fn what_an_expired_client_held_stays_as_long_as_its_record() {
    let fixture = Fixture::new();
    fixture.service.housekeep().await;
    let holder = arrive(&fixture, &fixture.service, "holder").await;
    holder.compound(vec![reclaim_complete()]).await.ok();
    let (handle, open) = holder.open_new("file").await;
    let locked = holder.lock_on(&handle, first_lock(open, "locker", 0, 10));
    locked.await;
    let other = fixture.client().await;
    let (_, others) = other.open_at("/export", make_args("other", "file")).await;
    for _ in 0..2 {
        pass(Limits::default().lease / 3 * 2);
        other.compound(Vec::new()).await.ok();
    }
    fixture.records.keeps_all.store(true, Ordering::SeqCst);
    let releasing = tokio::spawn(fixture.service.housekeep());
    let wanted = || ArgOp4::Lock(first_lock(others, "other", 0, 10));
    for _ in 0..20 {
        pause().await;
        let refused = other.status_on(&handle, [wanted()]).await;
        assert_eq!(refused, NfsStat4::Denied);
    }
    fixture.records.keeps_all.store(false, Ordering::SeqCst);
    releasing.await.unwrap();
    other.on(&handle, [wanted()]).await.ok();
}

/// The same at the end of the grace period, of those who did not come back.
#[tokio::test]
async fn the_grace_period_lasts_until_the_records_of_those_who_stay_away_have_gone() {
    let fixture = Fixture::new();
    fixture.service.housekeep().await;
    let records = Arc::new(MemoryRecords::default());
    let service = fixture.restarted_recording(records.clone(), &["gone"]);
    let client = arrive(&fixture, &service, "new").await;
    client.compound(vec![reclaim_complete()]).await.ok();
    pass(Limits::default().grace);
    // It is there all the time.
    client.compound(Vec::new()).await.ok();
    records.keeps_all.store(true, Ordering::SeqCst);
    let ending = tokio::spawn(service.housekeep());
    let open = || [ArgOp4::Open(new_open())];
    for _ in 0..20 {
        pause().await;
        assert_eq!(client.status_at("/export", open()).await, NfsStat4::Grace);
    }
    records.keeps_all.store(false, Ordering::SeqCst);
    ending.await.unwrap();
    client.at("/export", open()).await.ok();
}

/// Who may set the mode may as well be let past it: a file that its owner made without any right for himself is open to him. For
/// others the mode decides, as it is by then.
#[tokio::test]
async fn the_mode_keeps_everybody_but_the_owner_from_reclaiming() {
    const OWNER: u32 = 1000;
    const OTHER: u32 = 1001;
    let fixture = Fixture::new();
    let before = fixture.client().await;
    before
        .at("/export", [setattr(Stateid4::ANONYMOUS, mode(0o777))])
        .await
        .ok();
    before
        .as_user(OWNER, OWNER, &[])
        .make_file("/export", "file")
        .await;
    before
        .at("/export/file", [setattr(Stateid4::ANONYMOUS, mode(0))])
        .await
        .ok();
    let handle = before.handle("/export/file").await;
    let service = fixture.restarted(&["holder"]);
    let holder = arrive(&fixture, &service, "holder").await;
    let as_user = |user, open_owner, claim| {
        let open = ArgOp4::Open(OpenArgs {
            claim,
            ..previous(open_owner)
        });
        let (client, handle) = (holder.as_user(user, user, &[]), handle.clone());
        async move { client.status_on(&handle, [open]).await }
    };
    let reclaiming = || OpenClaim4::Previous(OpenDelegationType4::None);
    assert_eq!(
        as_user(OTHER, "other", reclaiming()).await,
        NfsStat4::Access
    );
    assert_eq!(as_user(OWNER, "owner", reclaiming()).await, NfsStat4::Ok);
    holder.compound(vec![reclaim_complete()]).await.ok();
    service.housekeep().await;
    assert_eq!(
        as_user(OWNER, "later", OpenClaim4::Fh).await,
        NfsStat4::Access
    );
}

/// Clients are believed, and it is not on record what each held. Where two cannot have held what they say, the one that comes later is told.
#[tokio::test]
async fn a_reclaim_that_conflicts_with_an_earlier_one_is_refused_by_name() {
    let fixture = Fixture::new();
    let before = fixture.client().await;
    before.make_file("/export", "file").await;
    let handle = before.handle("/export/file").await;
    let service = fixture.restarted(&["holder", "other"]);
    let other = arrive(&fixture, &service, "other").await;
    let denying = ArgOp4::Open(OpenArgs {
        share_deny: share::DENY_BOTH,
        ..previous("opener")
    });
    other.on(&handle, [denying]).await.ok();
    let holder = arrive(&fixture, &service, "holder").await;
    let told = holder.status_on(&handle, [ArgOp4::Open(previous("opener"))]);
    assert_eq!(told.await, NfsStat4::ReclaimConflict);
}
