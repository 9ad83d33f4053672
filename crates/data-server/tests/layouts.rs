//! Layouts as clients use them: over TCP, from a metadata server whose home is the pool's core, to data servers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fixture::{commit, put, read, write};
use crate::home::{DEVICE, Site, UNIT};
use nfs4::callback::{
    CbLayoutrecallArgs, CbNotifyDeviceidArgs, Layoutrecall4, LayoutrecallFile4,
    NotifyDeviceidDelete4,
};
use nfs4::{
    Attr, Bitmap4, Deviceid4, FileLayout4, LayoutIomode4, NfsFh4, NfsStat4, StableHow4, Stateid4,
    layout_type,
};
use nfs4_client::{Callbacks, Client, How, OpenFile, Options};
use nfs4_server::FileHandle;
use vfs::ObjectId;
use xdr::Reader;

/// The calls that a client got, and its answer to them.
#[derive(Debug)]
struct Called {
    recalls: Mutex<Vec<CbLayoutrecallArgs>>,
    devices: Mutex<Vec<CbNotifyDeviceidArgs>>,
    answer: NfsStat4,
}

impl Called {
    fn answering(answer: NfsStat4) -> Arc<Called> {
        Arc::new(Called {
            recalls: Mutex::default(),
            devices: Mutex::default(),
            answer,
        })
    }

    async fn recalled(&self, times: usize) -> Vec<Stateid4> {
        let recalls = || self.recalls.lock().unwrap().clone();
        until(|| recalls().len() >= times).await;
        let stateid = |recall: CbLayoutrecallArgs| {
            assert_eq!(recall.layout_type, layout_type::NFSV4_1_FILES);
            assert_eq!(recall.iomode, LayoutIomode4::Any);
            assert!(!recall.changed);
            match recall.recall {
                Layoutrecall4::File(LayoutrecallFile4 {
                    offset: 0,
                    length: u64::MAX,
                    stateid,
                    ..
                }) => stateid,
                other => panic!("{other:?}"),
            }
        };
        recalls().into_iter().map(stateid).collect()
    }
}

impl Callbacks for Called {
    fn recall_layout(&self, recall: &CbLayoutrecallArgs) -> NfsStat4 {
        self.recalls.lock().unwrap().push(recall.clone());
        self.answer
    }

    fn notify_device(&self, devices: &CbNotifyDeviceidArgs) -> NfsStat4 {
        self.devices.lock().unwrap().push(devices.clone());
        NfsStat4::Ok
    }
}

async fn until(mut is_true: impl FnMut() -> bool) {
    while !is_true() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The options of a client that answers the server's calls in this way.
fn called_at(site: &Site, called: &Arc<Called>) -> Options {
    Options {
        callbacks: called.clone(),
        ..Options::at(site.address)
    }
}

/// A client at a site, with connections to the data servers.
struct Writer {
    client: Client,
    file: OpenFile,
    layout: Stateid4,
    handles: Vec<NfsFh4>,
    servers: Vec<Client>,
}

impl Writer {
    /// Makes a file and gets a layout of it for writing.
    async fn with(options: Options) -> Writer {
        let client = Client::connect(options).await.unwrap();
        let root = client.mount("/export").await.unwrap();
        let file = client.open(&root, "file", &How::create(0o644)).await;
        let file = file.unwrap();
        let (layout, body) = asked(&client, &file, file.stateid, LayoutIomode4::ReadWrite)
            .await
            .unwrap();
        assert_eq!(layout.seqid, 1);
        let device = client.device(body.deviceid).await.unwrap();
        assert_eq!(device.stripe_indices, [0, 1]);
        let mut servers = Vec::new();
        for addresses in &device.multipath_ds_list {
            let address = addresses.0[0].socket().unwrap();
            servers.push(Client::connect(Options::at(address)).await.unwrap());
        }
        assert_eq!((servers.len(), body.fh_list.len()), (2, 2));
        Writer {
            client,
            file,
            layout,
            handles: body.fh_list,
            servers,
        }
    }

    async fn write(&self, offset: u64, data: &[u8], how: StableHow4) {
        let server = usize::try_from(offset / u64::from(UNIT) % 2).unwrap();
        let handle = &self.handles[server].0;
        let written = write(&self.servers[server], handle, offset, data, how).await;
        written.unwrap();
    }

    /// The data server's answer to the client's handle.
    async fn put(&self, server: usize) -> NfsStat4 {
        put(&self.servers[server], &self.handles[server].0).await
    }

    async fn size(&self) -> u64 {
        size(&self.client, &self.file).await
    }
}

async fn size(client: &Client, file: &OpenFile) -> u64 {
    let wanted = Bitmap4::of(&[Attr::Size]);
    let attributes = client.getattr(&file.handle, wanted).await.unwrap();
    attributes.size.unwrap()
}

/// Asks for a layout once.
async fn asked(
    client: &Client,
    file: &OpenFile,
    stateid: Stateid4,
    iomode: LayoutIomode4,
) -> Result<(Stateid4, FileLayout4), NfsStat4> {
    match client.layout(&file.handle, stateid, iomode).await {
        Ok((got, body)) => {
            assert!(got.return_on_close);
            let layout = &got.layouts[0];
            assert_eq!((layout.offset, layout.length), (0, u64::MAX));
            assert_eq!(layout.iomode, iomode);
            assert_eq!((body.util, body.pattern_offset), (UNIT, 0));
            Ok((got.stateid, body))
        }
        Err(error) => Err(error.status().unwrap()),
    }
}

impl Site {
    fn object(&self, file: &OpenFile) -> ObjectId {
        match FileHandle::decode(&file.handle) {
            Some(FileHandle::Object(_, object)) => object,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_reads_and_writes_at_the_data_servers() {
    let site = Site::new().await;
    let writer = Writer::with(Options::at(site.address)).await;
    let far = u64::from(UNIT);
    writer.write(0, b"first", StableHow4::FileSync).await;
    writer.write(far, b"second", StableHow4::FileSync).await;
    // Only the data servers know this (rule 7).
    let (client, file) = (&writer.client, &writer.file);
    let left = client.return_layout(&file.handle, writer.layout).await;
    assert_eq!(left.unwrap(), None);
    assert_eq!(writer.size().await, far + 6);

    let reader = site.client().await;
    let opened = reader
        .open_handle(&file.handle, &How::read())
        .await
        .unwrap();
    let refused = asked(&reader, &opened, opened.stateid, LayoutIomode4::ReadWrite).await;
    assert_eq!(refused.map(|_| ()), Err(NfsStat4::OpenMode));
    let (layout, body) = asked(&reader, &opened, opened.stateid, LayoutIomode4::Read)
        .await
        .unwrap();
    let handles: Vec<_> = body.fh_list.iter().map(|handle| &handle.0).collect();
    let first = read(&writer.servers[0], handles[0], 0, 100).await.unwrap();
    assert_eq!(&first[..], b"first");
    let second = read(&writer.servers[1], handles[1], far, 100).await;
    assert_eq!(&second.unwrap()[..], b"second");
    let refused = write(
        &writer.servers[0],
        handles[0],
        0,
        b"x",
        StableHow4::FileSync,
    )
    .await;
    assert_eq!(refused.map(|_| ()), Err(NfsStat4::Stale));
    // A repeat of a request whose answer was lost gets the same result.
    let (again, _) = asked(&reader, &opened, layout, LayoutIomode4::Read)
        .await
        .unwrap();
    assert_eq!((again.other, again.seqid), (layout.other, 2));
    reader.close(&opened).await.unwrap();
    let late = asked(&reader, &opened, again, LayoutIomode4::Read).await;
    assert_eq!(late.map(|_| ()), Err(NfsStat4::BadStateid));
    let gone = reader.device(Deviceid4([9; 16])).await.unwrap_err();
    assert_eq!(gone.status(), Some(NfsStat4::NoEnt));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_committed_at_the_data_servers_has_its_size_when_it_is_closed() {
    let site = Site::new().await;
    let writer = Writer::with(Options::at(site.address)).await;
    writer.write(100, b"unstable", StableHow4::Unstable).await;
    commit(&writer.servers[0], &writer.handles[0].0)
        .await
        .unwrap();
    // The client knows less than the data servers, and never makes the file smaller.
    let (client, file) = (&writer.client, &writer.file);
    let committed = client.commit_layout(&file.handle, writer.layout, 3).await;
    assert_eq!(committed.unwrap().newsize, Some(108));
    writer.write(200, b"later", StableHow4::Unstable).await;
    commit(&writer.servers[0], &writer.handles[0].0)
        .await
        .unwrap();
    client.close(file).await.unwrap();
    assert_eq!(writer.size().await, 205);
    let late = client
        .commit_layout(&file.handle, writer.layout, 1000)
        .await;
    assert_eq!(late.unwrap_err().status(), Some(NfsStat4::BadLayout));
    assert_eq!(writer.size().await, 205);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layout_is_recalled_before_a_file_is_cut() {
    let site = Site::new().await;
    let called = Called::answering(NfsStat4::Ok);
    let writer = Writer::with(called_at(&site, &called)).await;
    let (client, file) = (&writer.client, &writer.file);
    writer.write(0, b"long text", StableHow4::FileSync).await;
    let (pool, object) = (site.pool.clone(), site.object(file));
    let cut = tokio::spawn(async move { pool.truncate(object, 4).await });
    let recall = called.recalled(1).await[0];
    assert_eq!((recall.other, recall.seqid), (writer.layout.other, 2));
    let meanwhile = asked(client, file, writer.layout, LayoutIomode4::Read).await;
    let meanwhile = meanwhile.map(|_| ());
    assert!(
        meanwhile == Err(NfsStat4::RecallConflict) || cut.is_finished(),
        "{meanwhile:?}"
    );
    // Linux answers with its own sequence number, or with that of the recall.
    let left = client.return_layout(&file.handle, recall).await;
    assert_eq!(left.unwrap(), None);
    cut.await.unwrap();
    assert_eq!(writer.size().await, 4);
    assert_eq!(writer.put(0).await, NfsStat4::Stale);
    let (_, body) = asked(client, file, file.stateid, LayoutIomode4::Read)
        .await
        .unwrap();
    let bytes = read(&writer.servers[0], &body.fh_list[0].0, 0, 100).await;
    assert_eq!(&bytes.unwrap()[..], b"long");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_keeps_its_layout_is_fenced_and_holds_up_nobody() {
    let site = Site::new().await;
    let called = Called::answering(NfsStat4::Delay);
    let writer = Writer::with(called_at(&site, &called)).await;
    let (client, file) = (&writer.client, &writer.file);
    writer.write(0, b"long text", StableHow4::FileSync).await;
    site.pool.truncate(site.object(file), 4).await;
    let recalls = called.recalled(1).await;
    assert!(
        recalls.iter().all(|recall| recall.seqid == 2),
        "{recalls:?}"
    );
    for server in [0, 1] {
        assert_eq!(writer.put(server).await, NfsStat4::Stale);
    }
    let late = client.commit_layout(&file.handle, writer.layout, 8).await;
    assert_eq!(late.unwrap_err().status(), Some(NfsStat4::BadLayout));
    assert_eq!(writer.size().await, 4);
    // It may ask for another layout, under the layout that it believes to have.
    let (again, body) = asked(client, file, writer.layout, LayoutIomode4::ReadWrite)
        .await
        .unwrap();
    assert_eq!((again.other, again.seqid), (writer.layout.other, 3));
    let handle = &body.fh_list[0].0;
    write(&writer.servers[0], handle, 4, b"!", StableHow4::FileSync)
        .await
        .unwrap();
    client.close(file).await.unwrap();
    assert_eq!(writer.size().await, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_knows_of_no_layout_is_believed() {
    let site = Site::new().await;
    let called = Called::answering(NfsStat4::NoMatchingLayout);
    let writer = Writer::with(called_at(&site, &called)).await;
    let (client, file) = (&writer.client, &writer.file);
    site.pool.truncate(site.object(file), 4).await;
    called.recalled(1).await;
    let late = asked(client, file, writer.layout, LayoutIomode4::Read).await;
    assert_eq!(late.map(|_| ()), Err(NfsStat4::BadStateid));
    assert_eq!(writer.put(0).await, NfsStat4::Stale);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gives_up_writing_is_fenced_before_others_hear_of_it() {
    let site = Site::new().await;
    let writer = Writer::with(Options::at(site.address)).await;
    let (client, file) = (&writer.client, &writer.file);
    let reads = How::read().by("another owner");
    client.open_handle(&file.handle, &reads).await.unwrap();
    writer.write(0, b"bytes", StableHow4::FileSync).await;
    client.close(file).await.unwrap();
    for server in [0, 1] {
        assert_eq!(writer.put(server).await, NfsStat4::Stale);
    }
    assert_eq!(writer.size().await, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_whose_lease_ends_loses_its_layouts() {
    let site = Site::with_lease(1).await;
    let options = Options {
        renewal: None,
        ..Options::at(site.address)
    };
    let writer = Writer::with(options).await;
    writer.write(0, b"orphan", StableHow4::FileSync).await;
    until(|| site.service.counts().clients == 0).await;
    while writer.put(0).await != NfsStat4::Stale {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let options = Options {
        renewal: Some(Duration::from_millis(200)),
        ..Options::at(site.address)
    };
    let other = Client::connect(options).await.unwrap();
    while size(&other, &writer.file).await != 6 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let refusing = How::write().denying(nfs4::share::DENY_WRITE);
    // The first client's opens are released a moment after it is gone.
    while let Err(refused) = other.open_handle(&writer.file.handle, &refusing).await {
        assert_eq!(refused.status(), Some(NfsStat4::ShareDenied));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metadata_server_that_restarts_learns_what_was_written_through_its_layouts() {
    let mut site = Site::new().await;
    let writer = Writer::with(Options::at(site.address)).await;
    writer
        .write(0, b"nobody said so", StableHow4::FileSync)
        .await;
    site.restart().await;
    while writer.put(0).await != NfsStat4::Stale {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let other = site.client().await;
    let file = other
        .open_handle(&writer.file.handle, &How::write())
        .await
        .unwrap();
    let old = asked(&other, &file, writer.layout, LayoutIomode4::Read).await;
    assert_eq!(old.map(|_| ()), Err(NfsStat4::BadStateid));
    let committed = other.commit_layout(&file.handle, writer.layout, 3).await;
    assert_eq!(committed.unwrap_err().status(), Some(NfsStat4::BadLayout));
    let (_, body) = asked(&other, &file, file.stateid, LayoutIomode4::Read)
        .await
        .unwrap();
    let bytes = read(&writer.servers[0], &body.fh_list[0].0, 0, 100).await;
    assert_eq!(&bytes.unwrap()[..], b"nobody said so");
    other.close(&file).await.unwrap();
    assert_eq!(size(&other, &file).await, 14);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_asked_about_a_device_hears_when_it_is_to_forget_it() {
    use nfs4::{ArgOp4, GetdeviceinfoArgs, GetdeviceinfoRes, ResOp4};
    let site = Site::new().await;
    let called = Called::answering(NfsStat4::Ok);
    let client = Client::connect(called_at(&site, &called)).await.unwrap();
    let ask = |maxcount| {
        ArgOp4::Getdeviceinfo(GetdeviceinfoArgs {
            device_id: Deviceid4(DEVICE.0),
            layout_type: layout_type::NFSV4_1_FILES,
            maxcount,
            notify_types: [1, 2].into_iter().collect(),
        })
    };
    let small = client.compound(vec![ask(8)]).await.unwrap();
    let [ResOp4::Getdeviceinfo(GetdeviceinfoRes::TooSmall(needed))] = small.results[..] else {
        panic!("{small:?}");
    };
    let mut whole = client.compound(vec![ask(needed)]).await.unwrap();
    let Some(ResOp4::Getdeviceinfo(GetdeviceinfoRes::Ok(got))) = whole.results.pop() else {
        panic!("{whole:?}");
    };
    assert_eq!(got.notification, [2].into_iter().collect());
    assert_eq!(got.device_addr.body.len() + 8, needed as usize);
    site.pool.device_gone();
    site.pool.device_gone();
    until(|| !called.devices.lock().unwrap().is_empty()).await;
    let devices = called.devices.lock().unwrap().clone();
    let [change] = &devices[0].changes[..] else {
        panic!("{devices:?}");
    };
    assert_eq!(change.mask, [2].into_iter().collect());
    let deletion = Reader::new(change.values.clone()).read::<NotifyDeviceidDelete4>();
    assert_eq!(deletion.unwrap().deviceid, Deviceid4(DEVICE.0));
}
