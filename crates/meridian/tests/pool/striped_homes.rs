//! Files of directories that live at a metadata server that has joined lie striped on the pool's data servers, while servers are killed.

use super::*;

const MAKES_DIRECTORIES: &str = "[pool]\nmakes_directories = true\n";
/// Numbers of the data servers.
const DATA: [u16; 2] = [4, 5];

/// The first metadata server, a home that has joined, another one that has joined, and two data servers.
struct Scene {
    first: (Site, Running),
    home: (Site, Running),
    other: (Site, Running),
    data: Vec<(Site, Running)>,
}

impl Scene {
    /// Without data servers, and with a file in a directory at the home.
    fn begin() -> Scene {
        let [first, home, other] = ["", MAKES_DIRECTORIES, ""].map(Site::configured);
        let at = address(&first);
        succeed(&pool(
            &first,
            &["create", "--address", &at, "--stripe-unit", "64 KiB"],
        ));
        let names = first.place.start();
        let mut joined = Vec::new();
        for site in [&home, &other] {
            let token = succeed(&pool(&first, &["invite", "--metadata-server"]));
            succeed(&join(site, token.trim_end()));
            joined.push(start(site));
        }
        let [at_home, at_other] = <[Running; 2]>::try_from(joined).ok().unwrap();
        block_on(async {
            let (client, root) = client_of(&at_home).await;
            client.create_directory(&root, "own", 0o777).await.unwrap();
            client.leave().await.unwrap();
        });
        Scene {
            first: (first, names),
            home: (home, at_home),
            other: (other, at_other),
            data: Vec::new(),
        }
    }

    fn add_data_servers(&mut self) {
        for number in DATA {
            let site = joined(&self.first.0);
            let server = start(&site);
            self.data.push((site, server));
            until("new files lie there", || {
                data_server(&self.first.0, number).new_files
            });
        }
        self.until_new_files_lie_on(2);
    }

    /// Waits until the home has new files lie on so many data servers.
    fn until_new_files_lie_on(&self, servers: usize) {
        until("the home knows", || {
            block_on(put(&self.home.1, "probe", &striped_bytes(200)));
            let shelves = self.data.iter();
            let with = shelves
                .filter(|(site, _)| stripes_in(&shelf(site)).iter().any(|stripe| *stripe >= 200));
            let with = with.count();
            block_on(take_away(&self.home.1, "probe"));
            with == servers
        });
        for (site, _) in &self.data {
            until("nothing of that is left", || {
                stripes_in(&shelf(site)).iter().all(|stripe| *stripe < 200)
            });
        }
    }

    /// What a file has, as each metadata server shows it.
    fn expect(&self, name: &str, bytes: &[u8]) {
        for server in [&self.home.1, &self.first.1, &self.other.1] {
            assert!(block_on(get(server, name)) == bytes, "{name}");
        }
    }

    fn until_data_servers_serve(&self) {
        for number in DATA {
            until("it serves", || data_server(&self.first.0, number).serves);
        }
    }
}

async fn put(server: &Running, name: &str, bytes: &[u8]) {
    let (client, root) = client_of(server).await;
    let own = client.lookup(&root, "own").await.unwrap();
    let file = client.open(&own, name, &How::create(0o644)).await.unwrap();
    let bytes = bytes.to_vec().into();
    client.write_all(&file, 0, &bytes).await.unwrap();
    client.close(&file).await.unwrap();
    client.leave().await.unwrap();
}

async fn get(server: &Running, name: &str) -> Vec<u8> {
    let (client, root) = client_of(server).await;
    let own = client.lookup(&root, "own").await.unwrap();
    let file = client.open(&own, name, &How::read()).await.unwrap();
    let bytes = client.read_to_end(&file).await.unwrap();
    client.close(&file).await.unwrap();
    client.leave().await.unwrap();
    bytes.to_vec()
}

async fn take_away(server: &Running, name: &str) {
    let (client, root) = client_of(server).await;
    let own = client.lookup(&root, "own").await.unwrap();
    client.remove(&own, name).await.unwrap();
    client.leave().await.unwrap();
}

#[test]
fn files_of_a_home_that_has_joined_lie_on_the_data_servers_and_every_server_may_be_killed() {
    let mut scene = Scene::begin();
    block_on(put(&scene.home.1, "old", &striped_bytes(100)));
    scene.add_data_servers();
    block_on(put(&scene.home.1, "new", &striped_bytes(1)));
    let lies: Vec<_> = scene
        .data
        .iter()
        .map(|(site, _)| stripes_in(&shelf(site)))
        .collect();
    let all: BTreeSet<u8> = lies.iter().flatten().copied().collect();
    assert_eq!(all, (1..=STRIPES).collect(), "{lies:?}");
    assert!(
        lies.iter()
            .all(|stripes| stripes.len() >= usize::from(STRIPES) / 2)
    );
    for site in [&scene.first.0, &scene.home.0, &scene.other.0] {
        let trees = stripes_in(&site.place.data().join("trees"));
        assert!(trees.iter().all(|stripe| *stripe >= 100), "{trees:?}");
    }
    let told = pool(&scene.first.0, &["where", "/own/new"]);
    let told = succeed(&told);
    assert!(told.contains("64"), "{told}");
    // A client of another server writes there as well.
    block_on(put(&scene.other.1, "others", &striped_bytes(20)));
    let expect_all = |scene: &Scene| {
        scene.expect("old", &striped_bytes(100));
        scene.expect("new", &striped_bytes(1));
        scene.expect("others", &striped_bytes(20));
    };
    expect_all(&scene);

    scene.home = kill_and_start(scene.home, start);
    expect_all(&scene);
    scene.first = kill_and_start(scene.first, |site| site.place.start());
    scene.until_data_servers_serve();
    expect_all(&scene);
    for at in 0..DATA.len() {
        let killed = scene.data.remove(at);
        scene.data.insert(at, kill_and_start(killed, start));
        expect_all(&scene);
    }
    // A file goes also when a data server is away, which is told when it is back.
    let (site, server) = scene.data.remove(0);
    server.kill();
    block_on(take_away(&scene.home.1, "new"));
    block_on(take_away(&scene.other.1, "others"));
    let server = start(&site);
    scene.data.insert(0, (site, server));
    for (site, _) in &scene.data {
        until("nothing of them is left", || {
            status(site).holding.unwrap().contents == 0 && stripes_in(&shelf(site)).is_empty()
        });
    }
    scene.expect("old", &striped_bytes(100));
    for (site, server) in [scene.first, scene.home, scene.other] {
        server.kill();
        succeed(&site.meridian(&["check"]));
    }
}

/// The home's last directory is removed while a data server is away, and the home makes none any more. What is left is removed at the data server all
/// the same, which can go then.
#[test]
fn what_a_home_owes_to_data_servers_is_done_when_it_makes_no_directories_any_more() {
    let mut scene = Scene::begin();
    scene.add_data_servers();
    block_on(put(&scene.home.1, "file", &striped_bytes(1)));
    let (site, server) = scene.data.remove(1);
    server.kill();
    block_on(async {
        let (client, root) = client_of(&scene.home.1).await;
        let own = client.lookup(&root, "own").await.unwrap();
        client.remove(&own, "file").await.unwrap();
        client.remove(&root, "own").await.unwrap();
        client.leave().await.unwrap();
    });
    let (home, server) = scene.home;
    server.stop();
    let configuration = home.place.configuration();
    let text = fs::read_to_string(&configuration).unwrap();
    let without = text.replace("makes_directories = true", "makes_directories = false");
    assert_ne!(without, text);
    fs::write(&configuration, without).unwrap();
    let server = start(&home);
    scene.home = (home, server);
    let server = start(&site);
    scene.data.insert(1, (site, server));
    until("nothing of it is left", || {
        let site = &scene.data[1].0;
        status(site).holding.unwrap().contents == 0 && stripes_in(&shelf(site)).is_empty()
    });
    let command = |arguments: &[&str]| pool(&scene.first.0, arguments);
    until("it is emptied", || {
        command(&["drain-data", "5"]).status.success()
    });
    until("it goes", || command(&["remove", "5"]).status.success());
}

fn kill_and_start(
    (site, server): (Site, Running),
    start: impl Fn(&Site) -> Running,
) -> (Site, Running) {
    server.kill();
    let server = start(&site);
    (site, server)
}

#[test]
fn a_data_server_is_emptied_and_goes_when_the_home_has_moved_its_files_too() {
    let mut scene = Scene::begin();
    scene.add_data_servers();
    block_on(put(&scene.home.1, "file", &striped_bytes(1)));
    let command = |arguments: &[&str]| pool(&scene.first.0, arguments);
    until("the first server knows", || {
        data_server(&scene.first.0, 5).holding.unwrap().contents == 1
    });
    refuse(
        &command(&["remove", "5"]),
        &["parts of 1 file lie", "`meridian pool drain-data 5`"],
    );
    // One that is away may have anything there.
    let (site, server) = scene.home;
    server.kill();
    let away = [
        "metadata server 2 does not answer",
        "start it, and try again",
    ];
    until("it is missed", || {
        complaint(&command(&["drain-data", "5"])).contains(away[0])
    });
    refuse(&command(&["drain-data", "5"]), &away);
    refuse(&command(&["rebalance"]), &away);
    let server = start(&site);
    scene.home = (site, server);
    let command = |arguments: &[&str]| pool(&scene.first.0, arguments);
    until("the home is there", || {
        command(&["drain-data", "5"]).status.success()
    });
    until("nothing lies there", || {
        status(&scene.data[1].0).holding.unwrap().contents == 0
    });
    // The file of contents goes after what says that there are any.
    until("no bytes either", || {
        stripes_in(&shelf(&scene.data[1].0)).is_empty()
    });
    until("it goes", || command(&["remove", "5"]).status.success());
    drop(scene.data.remove(1));
    scene.expect("file", &striped_bytes(1));
    scene.until_new_files_lie_on(1);
}

#[test]
fn what_files_of_a_home_had_on_a_lost_data_server_is_counted_and_gives_an_error() {
    let mut scene = Scene::begin();
    scene.add_data_servers();
    block_on(put(&scene.home.1, "file", &striped_bytes(1)));
    let (site, server) = scene.data.remove(1);
    server.kill();
    let forget = |more: &[&str]| pool(&scene.first.0, &[&["forget", "5"], more].concat());
    until("its leases have run out", || {
        complaint(&forget(&[])).contains("nobody is there to be asked")
    });
    refuse(&forget(&[]), &["lay there: 1"]);
    succeed(&forget(&["--yes"]));
    let lost = stripes_in(&shelf(&site));
    assert!(!lost.is_empty());
    until("that is known at the home", || {
        block_on(async {
            let (client, root) = client_of(&scene.home.1).await;
            let own = client.lookup(&root, "own").await.unwrap();
            let file = client.open(&own, "file", &How::read()).await.unwrap();
            let mut failed = BTreeSet::new();
            for stripe in 0..STRIPES {
                let read = client.read(&file, u64::from(stripe) * UNIT as u64, UNIT as u32);
                if status_of(read.await) == Some(NfsStat4::Io) {
                    failed.insert(stripe + 1);
                }
            }
            client.close(&file).await.unwrap();
            client.leave().await.unwrap();
            failed == lost
        })
    });
    scene.until_new_files_lie_on(1);
}

/// Each home recognises by itself what a data server has, and refuses an older copy.
#[test]
fn an_older_copy_is_refused_by_the_home_too_until_the_right_contents_are_readmitted() {
    let mut scene = Scene::begin();
    scene.add_data_servers();
    block_on(put(&scene.home.1, "file", &striped_bytes(1)));
    let (site, server) = scene.data.remove(1);
    server.stop();
    let (own, kept) = (shelf(&site), site.place.directory.path().join("kept"));
    copy_tree(&own, &kept);
    let server = start(&site);
    scene.until_data_servers_serve();
    scene.expect("file", &striped_bytes(1));
    server.stop();
    let right = site.place.directory.path().join("right");
    fs::rename(&own, &right).unwrap();
    fs::rename(&kept, &own).unwrap();
    let server = start(&site);
    until_refused(&scene.first.0, 5, "an older copy");
    server.stop();
    fs::remove_dir_all(&own).unwrap();
    fs::rename(&right, &own).unwrap();
    let server = start(&site);
    until_refused(&scene.first.0, 5, "`meridian pool readmit 5`");
    let readmit = || pool(&scene.first.0, &["readmit", "5"]);
    until("both homes use it again", || {
        // One of them may not have heard of it at the first time.
        let told = readmit();
        let server = data_server(&scene.first.0, 5);
        let is_done = complaint(&told).contains("is not refused");
        is_done && server.serves && server.trouble.is_none()
    });
    scene.data.insert(1, (site, server));
    scene.expect("file", &striped_bytes(1));
    refuse(
        &pool(&scene.first.0, &["readmit", "5"]),
        &["is not refused"],
    );
}

#[test]
fn files_of_a_home_are_spread_over_a_data_server_that_was_added() {
    let mut scene = Scene::begin();
    scene.add_data_servers();
    block_on(put(&scene.home.1, "file", &striped_bytes(1)));
    let added = joined(&scene.first.0);
    let running = start(&added);
    scene.data.push((added, running));
    until("new files lie there", || {
        data_server(&scene.first.0, 6).new_files
    });
    let told = succeed(&pool(&scene.first.0, &["rebalance"]));
    assert!(
        told.starts_with("What is being spread over the data servers 4, 5, 6: 1 file"),
        "{told}"
    );
    // The home is killed while it moves the file, or a moment later.
    scene.home = kill_and_start(scene.home, start);
    let part = usize::from(STRIPES / 3);
    until("each has its part", || {
        let mut machines = scene.data.iter();
        machines.all(|(site, _)| stripes_in(&shelf(site)).len() == part)
    });
    scene.expect("file", &striped_bytes(1));
    until("all are spread", || {
        let told = succeed(&pool(&scene.first.0, &["rebalance"]));
        told.starts_with("All files are spread over the data servers 4, 5, 6")
    });
}
