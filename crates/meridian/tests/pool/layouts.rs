//! Clients of a metadata server that has joined read and write at the data servers themselves, and are fenced for everybody's sake,
//! whichever server is killed or stands still.

#[path = "direct.rs"]
mod direct;
#[path = "keys.rs"]
mod keys;

use std::sync::Arc;

use bytes::Bytes;
use nfs4::callback::{CbLayoutrecallArgs, CbNotifyDeviceidArgs};
use nfs4::{
    ArgOp4, FileLayout4, GetdeviceinfoArgs, GetdevicelistArgs, LayoutIomode4, NfsFh4, ResOp4,
    StableHow4, Verifier4, layout_type,
};
use nfs4_client::{Callbacks, OpenFile, ops};
use rustix::process::Signal;

use super::*;

/// A client's lease.
const LEASE: &str = "[time]\nlease_seconds = 5\n";
const UNITS: u64 = 6;

/// Two metadata servers, and data servers 3 and 4, over which new files are striped.
struct Scene {
    sites: [Site; 4],
    names: Running,
    shown: Running,
    _data: [Running; 2],
}

impl Scene {
    fn new() -> Scene {
        Scene::configured(LEASE)
    }

    /// The same with these lines of configuration at the metadata servers.
    fn configured(text: &str) -> Scene {
        let (first, names, second, shown) = two_configured(text);
        let machines = [(); 2].map(|()| joined(&first));
        let data = machines.each_ref().map(start);
        for number in [3, 4] {
            until("new files lie there", || {
                data_server(&first, number).new_files
            });
        }
        let [third, fourth] = machines;
        Scene {
            sites: [first, second, third, fourth],
            names,
            shown,
            _data: data,
        }
    }

    /// How much clients have read from, and written to, both data servers.
    fn moved(&self) -> (u64, u64) {
        let holdings = self.sites[2..].iter();
        let holdings = holdings.map(|site| status(site).holding.unwrap());
        holdings.fold((0, 0), |(read, written), holding| {
            (read + holding.read_bytes, written + holding.written_bytes)
        })
    }

    /// How many bytes clients have sent to both metadata servers, and were sent.
    fn through_metadata_servers(&self) -> u64 {
        let traffic = self.sites[..2]
            .iter()
            .map(|site| site.place.status().traffic);
        traffic.map(|all| all.received_bytes + all.sent_bytes).sum()
    }
}

/// A client with a layout of a file for writing, and its connections to the data servers.
struct Holder {
    client: Client,
    file: OpenFile,
    stateid: Stateid4,
    layout: FileLayout4,
    servers: Vec<Client>,
}

async fn try_layout(
    client: &Client,
    file: &OpenFile,
    iomode: LayoutIomode4,
) -> Result<(Stateid4, FileLayout4), NfsStat4> {
    let got = client.layout(&file.handle, file.stateid, iomode).await;
    got.map(|(got, layout)| (got.stateid, layout))
        .map_err(|error| error.status().unwrap())
}

/// A layout, as soon as there is one.
async fn layout_of(
    client: &Client,
    file: &OpenFile,
    iomode: LayoutIomode4,
) -> (Stateid4, FileLayout4) {
    let begun = Instant::now();
    loop {
        match try_layout(client, file, iomode).await {
            Ok(got) => return got,
            Err(NfsStat4::BadLayout | NfsStat4::RecallConflict) => {
                assert!(begun.elapsed() < PATIENCE, "there is never a layout");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Connections to the data servers of a layout.
async fn servers_of(client: &Client, layout: &FileLayout4) -> Vec<Client> {
    let device = client.device(layout.deviceid).await.unwrap();
    let mut servers = Vec::new();
    for addresses in &device.multipath_ds_list {
        let address = addresses.0[0].socket().unwrap();
        servers.push(Client::connect(Options::at(address)).await.unwrap());
    }
    assert_eq!((servers.len(), layout.fh_list.len()), (2, 2));
    servers
}

impl Holder {
    async fn at(server: &Running, name: &str) -> Holder {
        Holder::with(Options::at(server.address), name).await
    }

    async fn with(options: Options, name: &str) -> Holder {
        let client = Client::connect(options).await.unwrap();
        client.reclaim_complete().await.unwrap();
        let root = client.mount("/export").await.unwrap();
        let how = How::create(0o666).by("holder");
        let file = client.open(&root, name, &how).await.unwrap();
        Holder::of(client, file).await
    }

    async fn of(client: Client, file: OpenFile) -> Holder {
        let (stateid, layout) = layout_of(&client, &file, LayoutIomode4::ReadWrite).await;
        let servers = servers_of(&client, &layout).await;
        Holder {
            client,
            file,
            stateid,
            layout,
            servers,
        }
    }

    fn unit(&self) -> u64 {
        self.layout.util.into()
    }

    /// The data server that has a stripe, and what it is shown.
    fn place(&self, stripe: u64) -> (&Client, NfsFh4) {
        let at = (stripe + u64::from(self.layout.first_stripe_index)) as usize % 2;
        (&self.servers[at], self.layout.fh_list[at].clone())
    }

    async fn write(&self, stripe: u64, bytes: Bytes) -> NfsStat4 {
        let (server, handle) = self.place(stripe);
        let write = ops::write(
            Stateid4::ANONYMOUS,
            stripe * self.unit(),
            StableHow4::FileSync,
            bytes,
        );
        let written = server.compound(vec![ops::putfh(&handle), write]).await;
        written.unwrap().status
    }

    async fn read(&self, stripe: u64) -> Result<Bytes, NfsStat4> {
        let (server, handle) = self.place(stripe);
        let count = self.layout.util;
        let read = ops::read(Stateid4::ANONYMOUS, stripe * self.unit(), count);
        let answered = server.compound(vec![ops::putfh(&handle), read]).await;
        let mut reply = answered.unwrap();
        match reply.results.pop() {
            Some(ResOp4::Read(Ok(read))) => Ok(read.data),
            _ => Err(reply.status),
        }
    }

    /// A stripe whose bytes say which one it is.
    fn stripe(&self, stripe: u64) -> Bytes {
        vec![stripe as u8 + 1; self.layout.util as usize].into()
    }

    async fn write_all(&self) {
        for stripe in 0..UNITS {
            assert_eq!(self.write(stripe, self.stripe(stripe)).await, NfsStat4::Ok);
        }
    }

    /// Whether neither data server takes anything by the layout any more.
    async fn is_fenced(&self) -> bool {
        let byte = Bytes::from_static(b"late");
        let mut answers = Vec::new();
        for stripe in [0, 1] {
            answers.push(self.write(stripe, byte.clone()).await);
        }
        answers.iter().all(|status| *status == NfsStat4::Stale)
    }
}

#[test]
fn a_client_of_a_joined_server_writes_and_reads_at_the_data_servers() {
    let scene = Scene::new();
    let runtime = runtime();
    let through = scene.through_metadata_servers();
    let (holder, all) = runtime.block_on(async {
        let holder = Holder::at(&scene.shown, "file").await;
        let size = UNITS * holder.unit();
        holder.write_all().await;
        // Nobody has said it yet, and everybody sees it.
        let (other, root) = client_of(&scene.names).await;
        let found = other.lookup(&root, "file").await.unwrap();
        assert_eq!(other.stat(&found).await.unwrap().size, Some(size));
        let seen = holder.client.stat(&holder.file.handle).await.unwrap();
        assert_eq!(seen.size, Some(size));
        let said = holder
            .client
            .commit_layout(&holder.file.handle, holder.stateid, size - 1);
        let newsize = said.await.unwrap().newsize;
        assert_eq!(newsize, Some(size));
        for stripe in 0..UNITS {
            assert_eq!(holder.read(stripe).await.unwrap(), holder.stripe(stripe));
        }
        other.leave().await.unwrap();
        (holder, size)
    });
    until("the data servers have counted it", || {
        let (read, written) = scene.moved();
        (read, written) == (all, all)
    });
    let through = scene.through_metadata_servers() - through;
    assert!(through < all / 4, "metadata servers moved {through} bytes");
    runtime.block_on(async {
        let Holder { client, file, .. } = &holder;
        let left = client.return_layout(&file.handle, holder.stateid).await;
        assert_eq!(left.unwrap(), None);
        assert!(holder.is_fenced().await);
        // It is asked for again, and what it is good for ends with the file.
        let (stateid, layout) = layout_of(client, file, LayoutIomode4::ReadWrite).await;
        client.close(file).await.unwrap();
        let again = Holder {
            layout,
            stateid,
            ..holder
        };
        assert!(again.is_fenced().await);
        let bytes = read(&scene.names, "file").await;
        let expected: Vec<u8> = (0..UNITS)
            .flat_map(|stripe| again.stripe(stripe).to_vec())
            .collect();
        assert!(bytes == expected, "the bytes are others");
    });
}

/// Counts what is wanted back, and devices to be forgotten, and gives nothing.
#[derive(Debug, Default)]
struct Keeps(AtomicU64, AtomicU64);

impl Callbacks for Keeps {
    fn recall_layout(&self, _: &CbLayoutrecallArgs) -> NfsStat4 {
        self.0.fetch_add(1, Ordering::SeqCst);
        NfsStat4::Delay
    }

    fn notify_device(&self, _: &CbNotifyDeviceidArgs) -> NfsStat4 {
        self.1.fetch_add(1, Ordering::SeqCst);
        NfsStat4::Ok
    }
}

async fn cut(server: &Running, name: &str) {
    let (client, root) = client_of(server).await;
    let file = client.lookup(&root, name).await.unwrap();
    let cut = Attributes4 {
        size: Some(1),
        ..Attributes4::default()
    };
    let set = client.setattr(&file, Stateid4::ANONYMOUS, &cut).await;
    set.unwrap();
    client.leave().await.unwrap();
}

#[test]
fn a_client_of_a_joined_server_is_asked_for_its_layout_and_fenced_when_it_keeps_it() {
    let scene = Scene::new();
    let runtime = runtime();
    runtime.block_on(async {
        let keeps = Arc::new(Keeps::default());
        let options = Options {
            callbacks: keeps.clone(),
            ..Options::at(scene.shown.address)
        };
        let holder = Holder::with(options, "kept").await;
        holder.write_all().await;
        cut(&scene.names, "kept").await;
        assert!(keeps.0.load(Ordering::SeqCst) > 0, "nobody asked for it");
        assert!(holder.is_fenced().await);
        assert_eq!(read(&scene.shown, "kept").await, [1]);
        // A write through the other server ends it as well, at once.
        let again = Holder::at(&scene.shown, "again").await;
        again.write_all().await;
        let (client, root) = client_of(&scene.names).await;
        let file = client.open(&root, "again", &How::write()).await.unwrap();
        let bytes = Bytes::from_static(b"through");
        client.write_all(&file, 0, &bytes).await.unwrap();
        assert!(again.is_fenced().await);
        client.close(&file).await.unwrap();
        client.leave().await.unwrap();
        assert_eq!(read(&scene.shown, "again").await[..7], bytes);
    });
    // A server that stands still cannot ask, and is not waited for.
    let held = runtime.block_on(Holder::at(&scene.shown, "still"));
    scene.shown.signal(Signal::STOP);
    runtime.block_on(async {
        cut(&scene.names, "still").await;
        assert!(held.is_fenced().await);
    });
    scene.shown.signal(Signal::CONT);
}

/// Waits until nobody keeps others out of a file at the first metadata server any more.
async fn until_free(server: &Running, name: &str) {
    let (client, root) = client_of(server).await;
    let begun = Instant::now();
    let how = How::write().by("other");
    loop {
        match client.open(&root, name, &how).await {
            Ok(file) => {
                client.close(&file).await.unwrap();
                return client.leave().await.unwrap();
            }
            Err(error) => assert_eq!(error.status(), Some(NfsStat4::ShareDenied)),
        }
        assert!(begun.elapsed() < PATIENCE, "it is never free");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A client of a joined server that keeps other writers out, and writes at the data servers.
async fn denying(server: &Running, name: &str) -> Holder {
    let (client, root) = client_of(server).await;
    let how = How::create(0o666)
        .by("holder")
        .denying(nfs4::share::DENY_WRITE);
    let file = client.open(&root, name, &how).await.unwrap();
    let holder = Holder::of(client, file).await;
    holder.write_all().await;
    holder
}

#[test]
fn what_a_lost_servers_clients_may_write_has_ended_when_others_get_what_they_had() {
    let scene = Scene::new();
    let runtime = runtime();
    // Killed and started again: its clients begin anew, and ask for layouts anew.
    let before = runtime.block_on(denying(&scene.shown, "before"));
    let Scene {
        sites,
        mut names,
        shown,
        _data,
    } = scene;
    shown.kill();
    let shown = start(&sites[1]);
    runtime.block_on(async {
        let begun = Instant::now();
        while !before.is_fenced().await {
            assert!(
                begun.elapsed() < PATIENCE,
                "the earlier run's is good for ever"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        until_free(&names, "before").await;
    });
    // A home that was started anew knows of no layouts, and none that it has given is good for anything.
    let held = runtime.block_on(denying(&shown, "held"));
    names.kill();
    names = sites[0].place.start();
    runtime.block_on(async {
        let begun = Instant::now();
        while !held.is_fenced().await {
            assert!(
                begun.elapsed() < PATIENCE,
                "the earlier home's is good for ever"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let Holder { client, file, .. } = &held;
        let size = client.stat(&file.handle).await.unwrap().size;
        assert_eq!(size, Some(UNITS * held.unit()));
        let (_, layout) = layout_of(client, file, LayoutIomode4::ReadWrite).await;
        let again = Holder { layout, ..held };
        again.write_all().await;
        // Lost for good: a client that is let in writes alone.
        shown.kill();
        until_free(&names, "held").await;
        assert!(again.is_fenced().await);
        let size = read(&names, "held").await.len() as u64;
        assert_eq!(size, UNITS * again.unit());
    });
}

#[test]
fn a_data_server_takes_nothing_by_a_lease_of_before_its_time_of_day_jumped() {
    let Scene {
        sites,
        names,
        shown: _shown,
        _data: [third, _fourth],
    } = Scene::new();
    third.kill();
    let (_third, jumps) = start_with_jumps(&sites[2]);
    until("it serves again", || data_server(&sites[0], 3).serves);
    runtime().block_on(async {
        let holder = Holder::at(&names, "file").await;
        let written = async |stripe| holder.write(stripe, holder.stripe(stripe)).await;
        // One of two stripes in a row lies there.
        for seconds in [3600, -3600] {
            let begun = Instant::now();
            let mut ahead = 0;
            loop {
                ahead = if ahead == 0 { seconds } else { 0 };
                jumps.set(ahead).unwrap();
                let answers = [written(0).await, written(1).await];
                if answers.contains(&NfsStat4::Stale) {
                    break;
                }
                assert!(begun.elapsed() < PATIENCE, "it goes on by its old lease");
            }
            // It is given another one within a second, and nothing was fenced.
            let begun = Instant::now();
            while [written(0).await, written(1).await] != [NfsStat4::Ok; 2] {
                assert!(begun.elapsed() < PATIENCE, "it is never given another one");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    });
    assert!(
        sites[2]
            .place
            .read_log()
            .contains("the time of day has jumped")
    );
}

#[test]
fn a_client_of_a_joined_server_hears_that_a_data_server_was_away_and_is_back() {
    let Scene {
        sites,
        names: _names,
        shown,
        _data: [third, _fourth],
    } = Scene::new();
    let runtime = runtime();
    let keeps = Arc::new(Keeps::default());
    let options = Options {
        callbacks: keeps.clone(),
        ..Options::at(shown.address)
    };
    let holder = runtime.block_on(async {
        let holder = Holder::with(options, "file").await;
        let device = holder.layout.deviceid;
        let list = ArgOp4::Getdevicelist(GetdevicelistArgs {
            layout_type: layout_type::NFSV4_1_FILES,
            maxdevices: 100,
            cookie: 0,
            cookieverf: Verifier4::default(),
        });
        let here = ops::putfh(&holder.file.handle);
        let mut listed = holder.client.compound(vec![here, list]).await.unwrap();
        match listed.results.pop() {
            Some(ResOp4::Getdevicelist(Ok(list))) => assert!(list.deviceid_list.contains(&device)),
            other => panic!("{other:?}"),
        }
        let watch = ArgOp4::Getdeviceinfo(GetdeviceinfoArgs {
            device_id: device,
            layout_type: layout_type::NFSV4_1_FILES,
            maxcount: 4096,
            notify_types: [2].into_iter().collect(),
        });
        let watching = holder.client.compound(vec![watch]).await.unwrap();
        assert_eq!(watching.status, NfsStat4::Ok);
        holder
    });
    third.kill();
    until("it is missed", || !data_server(&sites[0], 3).serves);
    let _third = start(&sites[2]);
    until("it serves again", || data_server(&sites[0], 3).serves);
    runtime.block_on(async {
        let begun = Instant::now();
        while keeps.1.load(Ordering::SeqCst) == 0 {
            assert!(begun.elapsed() < PATIENCE, "nobody has said it");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        drop(holder);
        Holder::at(&shown, "other").await.write_all().await;
    });
}

/// A client with a layout of a file in a directory that lives at the joined server, as soon as new files are striped there.
async fn holder_in(server: &Running, name: &str, keeps: &Arc<Keeps>) -> Holder {
    let options = Options {
        callbacks: keeps.clone(),
        ..Options::at(server.address)
    };
    let client = Client::connect(options).await.unwrap();
    client.reclaim_complete().await.unwrap();
    let root = client.mount("/export").await.unwrap();
    let own = client.lookup(&root, "own").await.unwrap();
    let begun = Instant::now();
    loop {
        let how = How::create(0o666).by("holder");
        let file = client.open(&own, name, &how).await.unwrap();
        let found = client.stat(&file.handle).await.unwrap();
        assert_eq!(found.fileid.unwrap() >> 48, 2, "it lives elsewhere");
        match try_layout(&client, &file, LayoutIomode4::ReadWrite).await {
            Err(NfsStat4::LayoutUnavailable) => {}
            _ => return Holder::of(client, file).await,
        }
        assert!(begun.elapsed() < PATIENCE, "there is never a layout");
        client.close(&file).await.unwrap();
        client.remove(&own, name).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn in_own(server: &Running, name: &str) -> (Client, NfsFh4) {
    let (client, root) = client_of(server).await;
    let file = client.walk(&root, &format!("own/{name}")).await.unwrap();
    (client, file)
}

#[test]
fn clients_of_all_servers_have_layouts_of_files_that_live_at_a_joined_one() {
    let scene = Scene::configured(&format!("{LEASE}[pool]\nmakes_directories = true\n"));
    let third = Site::configured(LEASE);
    let token = succeed(&pool(&scene.sites[0], &["invite", "--metadata-server"]));
    succeed(&join(&third, token.trim_end()));
    let behind = start(&third);
    let runtime = runtime();
    runtime.block_on(async {
        let (client, root) = client_of(&scene.shown).await;
        client.create_directory(&root, "own", 0o777).await.unwrap();
        client.leave().await.unwrap();
    });
    for (name, at, other) in [
        ("home", &scene.shown, &scene.names),
        ("first", &scene.names, &behind),
        ("behind", &behind, &scene.shown),
    ] {
        let keeps = Arc::new(Keeps::default());
        let holder = runtime.block_on(async {
            let holder = holder_in(at, name, &keeps).await;
            let size = UNITS * holder.unit();
            holder.write_all().await;
            // Nobody has said it yet, and everybody sees it.
            let (client, file) = in_own(other, name).await;
            assert_eq!(client.stat(&file).await.unwrap().size, Some(size));
            for stripe in 0..UNITS {
                assert_eq!(holder.read(stripe).await.unwrap(), holder.stripe(stripe));
            }
            let cut = Attributes4 {
                size: Some(1),
                ..Attributes4::default()
            };
            let set = client.setattr(&file, Stateid4::ANONYMOUS, &cut).await;
            set.unwrap();
            client.leave().await.unwrap();
            assert!(keeps.0.load(Ordering::SeqCst) > 0, "nobody asked for it");
            assert!(holder.is_fenced().await);
            holder_in(at, &format!("{name} again"), &keeps).await
        });
        // What homes and data servers say to each other goes through the first server: without it, nobody is served for longer than a lease.
        if name == "home" {
            scene.names.signal(Signal::STOP);
            until("the lease is over", || runtime.block_on(holder.is_fenced()));
            scene.names.signal(Signal::CONT);
            runtime.block_on(async {
                let later = holder_in(at, "later", &Arc::default()).await;
                later.write_all().await;
            });
        }
    }
}
