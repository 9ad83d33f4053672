//! Directories that live at the joined metadata server that has made them, while servers are killed and started again.

use nfs4_client::OpenFile;

use super::*;

const MAKES_DIRECTORIES: &str = "[pool]\nmakes_directories = true\n";

/// Which server has made an object, by its fileid.
async fn maker_of(client: &Client, handle: &NfsFh4) -> u64 {
    let found = client.stat(handle).await.unwrap();
    found.fileid.unwrap() >> 48
}

async fn made_file(client: &Client, directory: &NfsFh4, name: &str) -> OpenFile {
    let file = client.open(directory, name, &How::create(0o644)).await;
    let file = file.unwrap();
    let bytes = name.to_owned().into_bytes().into();
    client.write_all(&file, 0, &bytes).await.unwrap();
    file
}

#[test]
fn clients_share_directories_of_four_homes_while_servers_are_killed() {
    let (sites, servers) = four_metadata_servers(MAKES_DIRECTORIES);
    // It lives at the one that is killed.
    block_on(async {
        let (client, root) = client_at(at(&sites[2])).await.unwrap();
        let directory = client.create_directory(&root, "counted", 0o755).await;
        let directory = directory.unwrap();
        assert_eq!(maker_of(&client, &directory).await, 3);
        let file = client
            .open(&directory, "counter", &How::create(0o644))
            .await;
        let (file, bytes) = (file.unwrap(), format!("{:20}", 0).into_bytes().into());
        client.write_all(&file, 0, &bytes).await.unwrap();
        client.close(&file).await.unwrap();
        client.leave().await.unwrap();
    });
    let servers = work_while_servers_are_killed(&sites, servers, Some("counted"));
    for server in &servers {
        let names = block_on(listed(server)).into_iter();
        let names: Vec<String> = names.map(|(name, _)| name).collect();
        assert_eq!(names, ["counted"]);
    }
    for (server, site) in servers.into_iter().zip(&sites) {
        server.kill();
        succeed(&site.meridian(&["check"]));
    }
}

/// The places of a file among these directories, as a client of the server sees them.
async fn places(server: SocketAddr, directories: &[String]) -> Result<Vec<usize>, Error> {
    let (client, root) = client_at(server).await?;
    let mut found = Vec::new();
    for (place, directory) in directories.iter().enumerate() {
        let directory = client.lookup(&root, directory.as_str()).await?;
        match client.lookup(&directory, "token").await {
            Ok(_) => found.push(place),
            Err(error) if error.status() == Some(NfsStat4::NoEnt) => {}
            Err(error) => return Err(error),
        }
    }
    client.leave().await?;
    Ok(found)
}

/// Moves the file on by one directory.
async fn move_on(server: SocketAddr, directories: &[String], at: usize) -> Result<(), Error> {
    let (client, root) = client_at(server).await?;
    let to = (at + 1) % directories.len();
    let [from, to] = [at, to].map(|place| directories[place].as_str());
    let from = client.lookup(&root, from).await?;
    let to = client.lookup(&root, to).await?;
    client.rename(&from, "token", &to, "token").await?;
    client.leave().await
}

/// The only place of the file. A move whose answer was lost may still be made between two look-ups.
fn place(server: SocketAddr, directories: &[String]) -> Result<usize, Error> {
    let mut found = Vec::new();
    for _ in 0..10 {
        found = block_on(places(server, directories))?;
        if let [place] = found[..] {
            return Ok(place);
        }
    }
    panic!("it is at {found:?}");
}

/// Servers are killed while it moves. At any time it is in one directory, of which clients of all servers see the same.
#[test]
fn a_file_moves_between_joined_servers_while_servers_are_killed() {
    let (sites, servers) = four_metadata_servers(MAKES_DIRECTORIES);
    let addresses = [1, 2, 3].map(|place: usize| at(&sites[place]));
    let directories = [1, 2, 3].map(|number| format!("at {number}"));
    block_on(async {
        for (address, name) in addresses.iter().zip(&directories) {
            let (client, root) = client_at(*address).await.unwrap();
            let made = client.create_directory(&root, name.as_str(), 0o755).await;
            if *name == directories[0] {
                let file = made_file(&client, &made.unwrap(), "token").await;
                client.close(&file).await.unwrap();
            }
            client.leave().await.unwrap();
        }
    });
    let (moves, enough) = (AtomicU64::new(0), AtomicBool::new(false));
    let until_more = || {
        let goal = moves.load(Ordering::SeqCst) + 6;
        until("it moves", || moves.load(Ordering::SeqCst) >= goal);
    };
    let servers = std::thread::scope(|scope| {
        let ends = Ends(&enough);
        scope.spawn(|| {
            for asked in addresses.iter().cycle() {
                if enough.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(place) = place(*asked, &directories) else {
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                };
                if block_on(move_on(*asked, &directories, place)).is_ok() {
                    moves.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        let [first, one, two, three] = servers;
        until_more();
        first.kill();
        let first = sites[0].place.start();
        until_more();
        two.kill();
        let two = start(&sites[2]);
        until_more();
        drop(ends);
        [first, one, two, three]
    });
    let last = place(addresses[0], &directories).unwrap();
    block_on(async {
        let name = directories[last].as_str();
        for address in addresses.into_iter().chain([servers[0].address]) {
            assert_eq!(places(address, &directories).await.unwrap(), [last]);
            let (client, root) = client_at(address).await.unwrap();
            let directory = client.lookup(&root, name).await.unwrap();
            let file = client.open(&directory, "token", &How::read()).await;
            let file = file.unwrap();
            assert_eq!(client.read_to_end(&file).await.unwrap().to_vec(), b"token");
            client.close(&file).await.unwrap();
            let token = client.lookup(&directory, "token").await.unwrap();
            assert_eq!(client.stat(&token).await.unwrap().numlinks, Some(1));
            client.leave().await.unwrap();
        }
        let (client, root) = client_at(addresses[0]).await.unwrap();
        let directory = client.lookup(&root, name).await;
        client.remove(&directory.unwrap(), "token").await.unwrap();
        for name in &directories {
            client.remove(&root, name.as_str()).await.unwrap();
        }
        client.leave().await.unwrap();
    });
    for (server, site) in servers.into_iter().zip(&sites) {
        server.kill();
        succeed(&site.meridian(&["check"]));
    }
}

#[test]
fn a_home_goes_on_without_the_first_one_and_the_rest_without_the_home() {
    let [first, second] = [LEASE.to_owned(), format!("{LEASE}{MAKES_DIRECTORIES}")];
    let [first, second] = [first, second].map(|text| Site::configured(&text));
    succeed(&pool(&first, &["create", "--address", &address(&first)]));
    let first_server = first.place.start();
    let token = succeed(&pool(&first, &["invite", "--metadata-server"]));
    succeed(&join(&second, token.trim_end()));
    let second_server = start(&second);
    let there = runtime();
    let (client, directory) = there.block_on(async {
        let (client, root) = client_at(at(&second)).await.unwrap();
        let directory = client.create_directory(&root, "own", 0o755).await.unwrap();
        assert_eq!(maker_of(&client, &directory).await, 2);
        (client, directory)
    });
    assert!(data_server(&first, 2).home);
    first_server.kill();
    there.block_on(async {
        let file = made_file(&client, &directory, "meanwhile").await;
        client.close(&file).await.unwrap();
        let below = client.create_directory(&directory, "below", 0o755).await;
        let below = below.unwrap();
        assert_eq!(maker_of(&client, &below).await, 2);
        let moved = client
            .rename(&directory, "meanwhile", &below, "moved")
            .await;
        moved.unwrap();
        client.leave().await.unwrap();
    });
    let first_server = first.place.start();
    block_on(async {
        let (client, root) = client_of(&first_server).await;
        let below = client.walk(&root, "own/below").await.unwrap();
        let file = client.open(&below, "moved", &How::read()).await.unwrap();
        let bytes = client.read_to_end(&file).await.unwrap();
        assert_eq!(bytes.to_vec(), b"meanwhile");
        client.close(&file).await.unwrap();
        client.leave().await.unwrap();
        write(&first_server, "beside", b"text").await;
    });
    second_server.kill();
    block_on(async {
        assert_eq!(read(&first_server, "beside").await, b"text");
        write(&first_server, "more", b"text").await;
        remove(&first_server, "more").await;
        // It is listed, although nobody can say more of it.
        let (client, root) = client_of(&first_server).await;
        let wanted = Bitmap4::of(&[Attr::RdattrError, Attr::Size, Attr::MountedOnFileid]);
        for entry in client.readdir(&root, wanted).await.unwrap() {
            let (is_own, found) = (entry.name.0[..] == *b"own", entry.attributes);
            let expected = match is_own {
                true => (NfsStat4::Delay, None),
                false => (NfsStat4::Ok, Some(4)),
            };
            assert_eq!(
                (found.rdattr_error, found.size),
                (Some(expected.0), expected.1)
            );
            let maker = found.mounted_on_fileid.map(|id| id >> 48);
            assert_eq!(maker, Some(if is_own { 2 } else { 1 }));
        }
        client.leave().await.unwrap();
    });
    refuse(&pool(&first, &["remove", "2"]), &["is away"]);
    let second_server = start(&second);
    until("the home is there", || data_server(&first, 2).serves);
    refuse(
        &pool(&first, &["remove", "2"]),
        &["directories live at metadata server 2"],
    );
    let (client, root) = there.block_on(client_of(&first_server));
    there.block_on(async {
        let own = client.lookup(&root, "own").await.unwrap();
        let full = client.remove(&root, "own").await;
        assert_eq!(status_of(full), Some(NfsStat4::NotEmpty));
        let out = client.rename(&own, "below", &root, "out").await;
        assert_eq!(status_of(out), Some(NfsStat4::XDev));
        let below = client.lookup(&own, "below").await.unwrap();
        // Files do, and stay where they were made.
        let near = client.rename(&root, "beside", &own, "beside").await;
        near.unwrap();
        let beside = client.lookup(&own, "beside").await.unwrap();
        assert_eq!(maker_of(&client, &beside).await, 1);
        client
            .rename(&below, "moved", &root, "moved")
            .await
            .unwrap();
        let moved = client.lookup(&root, "moved").await.unwrap();
        assert_eq!(maker_of(&client, &moved).await, 2);
        client.link(&moved, &below, "moved").await.unwrap();
        assert_eq!(client.stat(&moved).await.unwrap().numlinks, Some(2));
        client.remove(&root, "moved").await.unwrap();
        let back = client.rename(&own, "beside", &root, "beside").await;
        back.unwrap();
        client.remove(&below, "moved").await.unwrap();
        client.remove(&own, "below").await.unwrap();
        client.remove(&root, "own").await.unwrap();
        client.leave().await.unwrap();
    });
    assert_eq!(block_on(listed(&second_server)).len(), 1);
    succeed(&pool(&first, &["remove", "2"]));
}

/// A home is lost for good, with its disk. Files of the first server that had a name there alone are found again.
#[test]
fn a_home_that_is_lost_for_good_is_given_up() {
    let [first, second] = [LEASE.to_owned(), format!("{LEASE}{MAKES_DIRECTORIES}")];
    let [first, second] = [first, second].map(|text| Site::configured(&text));
    succeed(&pool(&first, &["create", "--address", &address(&first)]));
    let first_server = first.place.start();
    let token = succeed(&pool(&first, &["invite", "--metadata-server"]));
    succeed(&join(&second, token.trim_end()));
    let second_server = start(&second);
    block_on(async {
        let (client, root) = client_at(at(&second)).await.unwrap();
        let own = client.create_directory(&root, "own", 0o755).await.unwrap();
        client.leave().await.unwrap();
        let (client, root) = client_of(&first_server).await;
        write(&first_server, "moved", b"text").await;
        client.rename(&root, "moved", &own, "moved").await.unwrap();
        client.leave().await.unwrap();
    });
    let forget = |more: &[&str]| pool(&first, &[&["forget", "2"], more].concat());
    refuse(&forget(&["--yes"]), &["runs, and is not given up"]);
    second_server.kill();
    let nobody = "nobody is there to be asked";
    until("it is away", || complaint(&forget(&[])).contains(nobody));
    refuse(&forget(&[]), &["had been in them: 1", "/own", nobody]);
    refuse(
        &pool(&first, &["remove", "2"]),
        &["is away", "meridian pool forget 2"],
    );
    let told = succeed(&forget(&["--yes"]));
    assert!(told.contains("lost+found.2"), "{told}");
    refuse(&forget(&["--yes"]), &["was removed"]);
    let check = |server: &Running| {
        block_on(async {
            let (client, root) = client_of(server).await;
            let gone = client.lookup(&root, "own").await;
            assert_eq!(status_of(gone), Some(NfsStat4::NoEnt));
            let found = client.walk(&root, "lost+found.2").await.unwrap();
            let entries = client.readdir(&found, Bitmap4::of(&[])).await.unwrap();
            let [entry] = &entries[..] else {
                panic!("{entries:?}");
            };
            let name = std::str::from_utf8(&entry.name.0).unwrap();
            let file = client.open(&found, name, &How::read()).await.unwrap();
            let bytes = client.read_to_end(&file).await.unwrap();
            assert_eq!(bytes.to_vec(), b"text");
            client.close(&file).await.unwrap();
            client.leave().await.unwrap();
        });
    };
    check(&first_server);
    first_server.kill();
    let first_server = first.place.start();
    check(&first_server);
    assert_eq!(status_of_members(&first), ["1", "2 removed"]);
    let _returned = start(&second);
    until("it is told", || {
        let first = &status(&second).servers[0];
        first
            .trouble
            .as_deref()
            .unwrap_or("")
            .contains("was removed")
    });
    block_on(async {
        let (client, root) = client_of(&first_server).await;
        write(&first_server, "more", b"text").await;
        client.rename(&root, "more", &root, "again").await.unwrap();
        client.leave().await.unwrap();
    });
    first_server.kill();
    succeed(&first.meridian(&["check"]));
}

async fn names_in_root(server: &Running) -> usize {
    let (client, root) = client_of(server).await;
    // Also of what lives at servers that are away.
    let wanted = Bitmap4::of(&[Attr::RdattrError]);
    let entries = client.readdir(&root, wanted).await.unwrap();
    client.leave().await.unwrap();
    entries.len()
}

/// Two homes are lost for good. The first server is killed while it gives one of them up, and goes on by itself when it is started again.
#[test]
fn giving_up_two_homes_goes_on_after_a_kill_and_keeps_files_with_names_at_both() {
    const DIRECTORIES: usize = 200;
    let (sites, servers) = four_metadata_servers(MAKES_DIRECTORIES);
    let [first_server, second_server, third_server, _fourth_server] = servers;
    let first = &sites[0];
    block_on(async {
        let (client, root) = client_at(at(&sites[2])).await.unwrap();
        let third = client.create_directory(&root, "third", 0o755).await;
        let third = third.unwrap();
        client.leave().await.unwrap();
        let (client, root) = client_at(at(&sites[1])).await.unwrap();
        for number in 0..DIRECTORIES {
            let name = format!("second-{number}");
            let made = client.create_directory(&root, name.as_str(), 0o755).await;
            made.unwrap();
        }
        client.leave().await.unwrap();
        write(&first_server, "file", b"text").await;
        let (client, root) = client_of(&first_server).await;
        let second = client.lookup(&root, "second-0").await.unwrap();
        let file = client.lookup(&root, "file").await.unwrap();
        client.link(&file, &third, "file").await.unwrap();
        client.rename(&root, "file", &second, "file").await.unwrap();
        client.leave().await.unwrap();
    });
    second_server.kill();
    third_server.kill();
    let forget = |number: &str, more: &[&str]| pool(first, &[&["forget", number], more].concat());
    for number in ["2", "3"] {
        until("it is away", || {
            complaint(&forget(number, &[])).contains("nobody is there to be asked")
        });
    }
    assert_eq!(block_on(names_in_root(&first_server)), DIRECTORIES + 1);
    std::thread::scope(|scope| {
        let forgetting = scope.spawn(|| forget("2", &["--yes"]));
        let is_removed = || {
            let members = server::pools::members(&first.place.data()).unwrap().members;
            members.iter().any(|one| one.number == 2 && one.removed)
        };
        while !is_removed() {
            std::thread::yield_now();
        }
        first_server.kill();
        // It may have been answered.
        drop(forgetting.join().unwrap());
    });
    let first_server = first.place.start();
    until("it is given up", || {
        status(first).giving_up.is_empty() && block_on(names_in_root(&first_server)) == 2
    });
    assert_eq!(status_of_members(first), ["1", "2 removed", "3", "4"]);
    refuse(&forget("2", &["--yes"]), &["was removed"]);
    let told = succeed(&forget("3", &["--yes"]));
    assert!(told.contains("been in them: 1\n  /third"), "{told}");
    block_on(async {
        let (client, root) = client_of(&first_server).await;
        // The third might have removed its name by then.
        let found = client.walk(&root, "lost+found.2").await.unwrap();
        let entries = client.readdir(&found, Bitmap4::of(&[])).await.unwrap();
        let [entry] = &entries[..] else {
            panic!("{entries:?}");
        };
        let name = std::str::from_utf8(&entry.name.0).unwrap();
        let file = client.lookup(&found, name).await.unwrap();
        assert_eq!(client.stat(&file).await.unwrap().numlinks, Some(1));
        let file = client.open(&found, name, &How::read()).await.unwrap();
        let bytes = client.read_to_end(&file).await.unwrap();
        assert_eq!(bytes.to_vec(), b"text");
        client.close(&file).await.unwrap();
        client.leave().await.unwrap();
    });
    first_server.kill();
    succeed(&first.meridian(&["check"]));
}
