//! What layouts are answered, operation by operation, whatever their home says (RFC 8881, sections 12.5, 13.9 and 18.40 to 18.44).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::fixture::operations::{close, getattr};
use crate::fixture::sessions::*;
use crate::fixture::state::*;
use crate::fixture::{Client, Fixture, go_to, last};
use async_trait::async_trait;
use nfs4::attributes::LayoutTypes4;
use nfs4::{
    ArgOp4, Attr, Attributes4, Bitmap4, Deviceid4, ExchangeIdArgs, GetdeviceinfoArgs,
    GetdevicelistArgs, LayoutIomode4, LayoutcommitArgs, LayoutgetArgs, LayoutgetRes,
    LayoutgetResOk, Layoutreturn4, LayoutreturnArgs, LayoutreturnFile4, Layoutupdate4, NfsFh4,
    NfsStat4, ResOp4, StableHow4, Stateid4, Verifier4, exchgid, layout_type, share,
};
use nfs4_client::ops::{layoutreturn, read, write};
use nfs4_server::{
    DeviceId, FileLayout, LayoutAccess, LayoutEvent, LayoutHolder, LayoutProperties, Layouts,
    NoLayout,
};
use vfs::ObjectId;
use xdr::Bytes;

/// A home that says what a test wants.
#[derive(Default)]
struct Home {
    refuses: Mutex<Option<NoLayout>>,
    ended: Mutex<Vec<(LayoutHolder, &'static str)>>,
}

impl Home {
    fn refuse(&self, reason: impl Into<Option<NoLayout>>) {
        *self.refuses.lock().unwrap() = reason.into();
    }

    fn ended(&self) -> Vec<&'static str> {
        let mut ended = self.ended.lock().unwrap();
        ended.drain(..).map(|(_, how)| how).collect()
    }

    fn refusal(&self) -> Result<(), NoLayout> {
        self.refuses.lock().unwrap().map_or(Ok(()), Err)
    }
}

#[async_trait]
impl Layouts for Home {
    fn properties(&self) -> LayoutProperties {
        LayoutProperties {
            stripe_unit: 1 << 20,
            threshold: Some(4096),
        }
    }

    async fn device(&self, device: DeviceId) -> Option<Vec<Vec<SocketAddr>>> {
        let known = self.devices().await.contains(&device);
        known.then(|| vec![vec!["192.0.2.7:2049".parse().unwrap()]])
    }

    async fn devices(&self) -> Vec<DeviceId> {
        (1..=5).map(|number| DeviceId([number; 16])).collect()
    }

    async fn layout(
        &self,
        _: ObjectId,
        _: LayoutHolder,
        _: LayoutAccess,
    ) -> Result<FileLayout, NoLayout> {
        self.refusal()?;
        Ok(FileLayout {
            device: DeviceId([1; 16]),
            stripe_unit: 1 << 20,
            first_index: 0,
            handles: vec![Bytes::from_static(b"handle")],
        })
    }

    async fn returned(&self, _: ObjectId, holder: LayoutHolder) -> vfs::Result<()> {
        self.ended.lock().unwrap().push((holder, "returned"));
        Ok(())
    }

    async fn lost(&self, _: ObjectId, holder: LayoutHolder) -> vfs::Result<()> {
        self.ended.lock().unwrap().push((holder, "lost"));
        Ok(())
    }

    async fn commit(
        &self,
        _: ObjectId,
        _: LayoutHolder,
        end: Option<u64>,
    ) -> Result<u64, NoLayout> {
        self.refusal()?;
        Ok(end.unwrap_or(7))
    }

    fn on_event(&self, _: Arc<dyn Fn(LayoutEvent) + Send + Sync>) {}
}

fn asking(stateid: Stateid4) -> LayoutgetArgs {
    LayoutgetArgs {
        signal_layout_avail: false,
        layout_type: layout_type::NFSV4_1_FILES,
        iomode: LayoutIomode4::ReadWrite,
        offset: 0,
        length: u64::MAX,
        minlength: 4096,
        stateid,
        maxcount: 4096,
    }
}

fn commit_of(stateid: Stateid4) -> LayoutcommitArgs {
    LayoutcommitArgs {
        offset: 0,
        length: u64::MAX,
        reclaim: false,
        stateid,
        last_write_offset: Some(99),
        time_modify: None,
        layoutupdate: Layoutupdate4 {
            layout_type: layout_type::NFSV4_1_FILES,
            body: Bytes::new(),
        },
    }
}

fn of_file(stateid: Stateid4) -> LayoutreturnFile4 {
    LayoutreturnFile4 {
        offset: 0,
        length: u64::MAX,
        stateid,
        body: Bytes::new(),
    }
}

fn giving_back(stateid: Stateid4) -> ArgOp4 {
    layoutreturn(Layoutreturn4::File(of_file(stateid)))
}

fn list(cookie: u64, cookieverf: Verifier4, maxdevices: u32) -> ArgOp4 {
    ArgOp4::Getdevicelist(GetdevicelistArgs {
        layout_type: layout_type::NFSV4_1_FILES,
        maxdevices,
        cookie,
        cookieverf,
    })
}

fn device_info(number: u8, layout_type: u32) -> ArgOp4 {
    ArgOp4::Getdeviceinfo(GetdeviceinfoArgs {
        device_id: Deviceid4([number; 16]),
        layout_type,
        maxcount: 4096,
        notify_types: Bitmap4::EMPTY,
    })
}

fn granted(result: Option<&ResOp4>) -> LayoutgetResOk {
    match result {
        Some(ResOp4::Layoutget(LayoutgetRes::Ok(got))) => got.clone(),
        other => panic!("no layout: {other:?}"),
    }
}

async fn get(client: &Client, file: &NfsFh4, stateid: Stateid4) -> Stateid4 {
    let reply = client.on(file, [ArgOp4::Layoutget(asking(stateid))]).await;
    granted(reply.results.last()).stateid
}

#[tokio::test]
async fn a_server_without_layouts_knows_none_of_this() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    let (file, open) = client.open_new("file").await;
    for operation in [
        ArgOp4::Layoutget(asking(open)),
        ArgOp4::Layoutcommit(commit_of(open)),
        giving_back(open),
        list(0, Verifier4::default(), 9),
        device_info(1, layout_type::NFSV4_1_FILES),
    ] {
        assert_eq!(
            client.status_on(&file, [operation]).await,
            NfsStat4::NotSupp
        );
    }
}

#[tokio::test]
async fn clients_are_told_of_layouts_in_the_roles_that_they_know() {
    let fixture = Fixture::with_layouts(Arc::new(Home::default()));
    let client = fixture.stranger();
    for (flags, role) in [
        (0, exchgid::USE_PNFS_MDS),
        (exchgid::USE_PNFS_MDS, exchgid::USE_PNFS_MDS),
        (exchgid::MASK_PNFS, exchgid::USE_PNFS_MDS),
        (exchgid::USE_NON_PNFS, exchgid::USE_NON_PNFS),
        (exchgid::USE_PNFS_DS, exchgid::USE_NON_PNFS),
    ] {
        let args = ExchangeIdArgs {
            flags,
            ..introduction("anyone")
        };
        let known = client.introduce(args).await;
        assert_eq!(known.flags & exchgid::MASK_PNFS, role, "{flags:x}");
    }
    let client = fixture.client().await;
    let wanted = Bitmap4::of(&[Attr::FsLayoutType, Attr::LayoutBlksize, Attr::Mdsthreshold]);
    for (path, kinds) in [
        ("/export", Some(layout_type::NFSV4_1_FILES)),
        ("/plain", None),
    ] {
        let mut ops = go_to(path);
        ops.push(getattr(wanted | Bitmap4::of(&[Attr::SupportedAttrs])));
        let reply = client.compound(ops).await;
        let shown = Attributes4::decode(&last!(reply, Getattr).obj_attributes).unwrap();
        let types = kinds.map(|kind| Box::new(LayoutTypes4(vec![kind])));
        assert_eq!(shown.fs_layout_type, types);
        assert_eq!(shown.layout_blksize, kinds.map(|_| 1 << 20));
        assert_eq!(shown.mdsthreshold.is_some(), kinds.is_some());
        let supported = shown.supported_attrs.unwrap();
        assert_eq!(wanted.is_subset_of(&supported), kinds.is_some());
        assert_eq!(wanted.intersects(&supported), kinds.is_some());
    }
}

#[tokio::test]
async fn files_that_are_not_striped_have_no_layouts() {
    let fixture = Fixture::with_layouts(Arc::new(Home::default()));
    let client = fixture.client().await;
    let (file, open) = client.open_at("/plain", make_args("o", "file")).await;
    for (operation, status) in [
        (ArgOp4::Layoutget(asking(open)), NfsStat4::LayoutUnavailable),
        (
            ArgOp4::Layoutcommit(commit_of(open)),
            NfsStat4::UnknownLayoutType,
        ),
        (giving_back(open), NfsStat4::UnknownLayoutType),
        (
            layoutreturn(Layoutreturn4::Fsid),
            NfsStat4::UnknownLayoutType,
        ),
        (layoutreturn(Layoutreturn4::All), NfsStat4::Ok),
        (
            list(0, Verifier4::default(), 9),
            NfsStat4::UnknownLayoutType,
        ),
    ] {
        let answered = client.status_on(&file, [operation.clone()]).await;
        assert_eq!(answered, status, "{operation:?}");
    }
}

#[tokio::test]
async fn a_layout_that_cannot_be_given_is_refused_as_clients_understand_it() {
    let home = Arc::new(Home::default());
    let fixture = Fixture::with_layouts(home.clone());
    let client = fixture.client().await;
    let (file, open) = client.open_new("file").await;
    let good = asking(open);
    let of_type = |layout_type| LayoutgetArgs {
        layout_type,
        ..good
    };
    let of_range = |offset, length, minlength| LayoutgetArgs {
        offset,
        length,
        minlength,
        ..good
    };
    for (args, status) in [
        (
            of_type(layout_type::FLEX_FILES),
            NfsStat4::UnknownLayoutType,
        ),
        (of_type(77), NfsStat4::UnknownLayoutType),
        (
            LayoutgetArgs {
                iomode: LayoutIomode4::Any,
                ..good
            },
            NfsStat4::BadIoMode,
        ),
        (of_range(0, 0, 0), NfsStat4::Inval),
        (of_range(0, 5, 6), NfsStat4::Inval),
        (of_range(2, u64::MAX - 1, 0), NfsStat4::Inval),
        (
            LayoutgetArgs {
                maxcount: 60,
                ..good
            },
            NfsStat4::TooSmall,
        ),
        (asking(Stateid4::ANONYMOUS), NfsStat4::BadStateid),
        (asking(Stateid4::CURRENT), NfsStat4::BadStateid),
    ] {
        let answered = client.status_on(&file, [ArgOp4::Layoutget(args)]).await;
        assert_eq!(answered, status, "{args:?}");
    }
    // What was given and did not fit is given back.
    assert_eq!(home.ended(), ["returned"]);
    for (reason, status) in [
        (NoLayout::Recalled, NfsStat4::RecallConflict),
        (NoLayout::ThroughServer, NfsStat4::BadLayout),
        (NoLayout::Unavailable, NfsStat4::LayoutUnavailable),
        (NoLayout::Gone, NfsStat4::Stale),
    ] {
        home.refuse(reason);
        let answered = client.status_on(&file, [ArgOp4::Layoutget(good)]).await;
        assert_eq!(answered, status);
    }
    home.refuse(None);
    let reading = open_args("reader", share::ACCESS_READ);
    let (_, reader) = client.open_at("/export/file", reading).await;
    let stranger = fixture.client().await;
    let answered = stranger.status_on(&file, [ArgOp4::Layoutget(asking(reader))]);
    assert_eq!(answered.await, NfsStat4::BadStateid);
}

#[tokio::test]
async fn nothing_is_reclaimed_outside_the_grace_period() {
    let home = Arc::new(Home::default());
    let fixture = Fixture::with_layouts(home.clone());
    let client = fixture.client().await;
    let (file, open) = client.open_new("file").await;
    let commit = LayoutcommitArgs {
        reclaim: true,
        ..commit_of(open)
    };
    let give = ArgOp4::Layoutreturn(LayoutreturnArgs {
        reclaim: true,
        layout_type: layout_type::NFSV4_1_FILES,
        iomode: LayoutIomode4::Any,
        which: Layoutreturn4::All,
    });
    let reclaims = [ArgOp4::Layoutcommit(commit), give];
    for operation in reclaims {
        let answered = client.status_on(&file, [operation]).await;
        assert_eq!(answered, NfsStat4::NoGrace);
    }
}

#[tokio::test]
async fn a_layout_is_no_right_at_the_metadata_server() {
    let home = Arc::new(Home::default());
    let fixture = Fixture::with_layouts(home.clone());
    let client = fixture.client().await;
    let (file, open) = client.open_new("file").await;
    let layout = get(&client, &file, open).await;
    let data = Bytes::from_static(b"x");
    for operation in [
        read(layout, 0, 1),
        write(layout, 0, StableHow4::FileSync, data),
        close(layout),
    ] {
        assert_eq!(
            client.status_on(&file, [operation]).await,
            NfsStat4::BadStateid
        );
    }
    let freed = client.compound(vec![free_stateid(layout)]).await;
    assert_eq!(freed.status, NfsStat4::LocksHeld);
    let tested = client.compound(vec![test_stateid(&[layout, open])]).await;
    assert_eq!(last!(tested, TestStateid).status_codes, [NfsStat4::Ok; 2]);
}

#[tokio::test]
async fn what_is_committed_and_given_back_reaches_the_home() {
    let home = Arc::new(Home::default());
    let fixture = Fixture::with_layouts(home.clone());
    let client = fixture.client().await;
    let (file, open) = client.open_new("file").await;
    let layout = get(&client, &file, open).await;
    let commit = |args| client.on(&file, [ArgOp4::Layoutcommit(args)]);
    let committed = last!(commit(commit_of(layout)).await, Layoutcommit);
    assert_eq!(committed.newsize, Some(100));
    let beyond = LayoutcommitArgs {
        last_write_offset: Some(u64::MAX),
        ..commit_of(layout)
    };
    assert_eq!(commit(beyond).await.status, NfsStat4::Inval);
    // To the client that is done: the data servers know what was written.
    assert_eq!(commit(commit_of(open)).await.status, NfsStat4::BadLayout);
    home.refuse(NoLayout::ThroughServer);
    assert_eq!(commit(commit_of(layout)).await.status, NfsStat4::BadLayout);
    home.refuse(None);

    let part = LayoutreturnFile4 {
        length: 4096,
        ..of_file(layout)
    };
    let part = layoutreturn(Layoutreturn4::File(part));
    let kept = last!(client.on(&file, [part]).await, Layoutreturn).stateid;
    assert_eq!(kept.map(|kept| kept.seqid), Some(2));
    assert_eq!(
        client.status_on(&file, [giving_back(layout)]).await,
        NfsStat4::OldStateid
    );
    assert_eq!(home.ended(), [""; 0]);
    let given = client.on(&file, [giving_back(kept.unwrap())]).await;
    assert_eq!(last!(given, Layoutreturn).stateid, None);
    assert_eq!(home.ended(), ["returned"]);

    for which in [Layoutreturn4::Fsid, Layoutreturn4::All] {
        get(&client, &file, open).await;
        assert_eq!(
            client.status_on(&file, [layoutreturn(which)]).await,
            NfsStat4::Ok
        );
        assert_eq!(home.ended(), ["returned"]);
    }
    get(&client, &file, open).await;
    assert_eq!(client.status_on(&file, [close(open)]).await, NfsStat4::Ok);
    assert_eq!(home.ended(), ["returned"]);
}

#[tokio::test]
async fn the_current_stateid_is_that_of_the_open_and_then_of_the_layout() {
    let home = Arc::new(Home::default());
    let fixture = Fixture::with_layouts(home.clone());
    let client = fixture.client().await;
    let mut ops = go_to("/export");
    ops.extend([
        ArgOp4::Open(make_args("o", "file")),
        ArgOp4::Layoutget(asking(Stateid4::CURRENT)),
        ArgOp4::Layoutcommit(commit_of(Stateid4::CURRENT)),
        giving_back(Stateid4::CURRENT),
    ]);
    let reply = client.compound(ops).await;
    assert_eq!(reply.status, NfsStat4::Ok, "{reply:?}");
    assert_eq!(last!(reply, Layoutreturn).stateid, None);
    assert_eq!(home.ended(), ["returned"]);
}

#[tokio::test]
async fn who_loses_the_last_right_to_write_is_fenced() {
    let home = Arc::new(Home::default());
    let fixture = Fixture::with_layouts(home.clone());
    let client = fixture.client().await;
    let (file, open) = client.open_new("file").await;
    let both = open_args("opener", share::ACCESS_READ);
    let (_, open) = {
        let (handle, open_again) = client.open_at("/export/file", both).await;
        assert_eq!(open_again.other, open.other);
        (handle, open_again)
    };
    get(&client, &file, open).await;
    let down = open_downgrade(open, share::ACCESS_READ, share::DENY_NONE);
    assert_eq!(client.status_on(&file, [down]).await, NfsStat4::Ok);
    assert_eq!(home.ended(), ["lost"]);
}

#[tokio::test]
async fn devices_are_listed_page_by_page() {
    let fixture = Fixture::with_layouts(Arc::new(Home::default()));
    let client = fixture.client().await;
    let mut ops = go_to("/export");
    ops.push(list(0, Verifier4::default(), 3));
    let first = last!(client.compound(ops).await, Getdevicelist);
    assert_eq!((first.deviceid_list.len(), first.eof), (3, false));
    let at = |cookie, verifier, count| {
        let mut ops = go_to("/export");
        ops.push(list(cookie, verifier, count));
        client.compound(ops)
    };
    let rest = last!(at(first.cookie, first.cookieverf, 3).await, Getdevicelist);
    let numbers = rest.deviceid_list.iter().map(|device| device.0[0]);
    assert_eq!((numbers.collect::<Vec<_>>(), rest.eof), (vec![4, 5], true));
    let other = at(first.cookie, Verifier4::default(), 3).await;
    assert_eq!(other.status, NfsStat4::NotSame);
    let far = at(6, first.cookieverf, 3).await;
    assert_eq!(far.status, NfsStat4::BadCookie);
    let info = |number, kind| client.compound(vec![device_info(number, kind)]);
    assert_eq!(
        info(6, layout_type::NFSV4_1_FILES).await.status,
        NfsStat4::NoEnt
    );
    assert_eq!(
        info(1, layout_type::SCSI).await.status,
        NfsStat4::UnknownLayoutType
    );
    assert_eq!(
        info(1, layout_type::NFSV4_1_FILES).await.status,
        NfsStat4::Ok
    );
}
