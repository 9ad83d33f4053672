//! `meridian pool`: an administrator makes a pool, adds data servers with one command each, and is told what to do when he does
//! something else.

mod calls;
mod emptied;
mod in_set;
#[path = "joined.rs"]
mod joined_servers;
mod lost;
mod moved;
mod space;
mod stood_still;
mod whereabouts;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::fixture::site::{Site, block_on, refuse, succeed};
use crate::fixture::{Running, complaint};
use calls::{client_of, read, remove, write};
use nfs4_client::{Client, How, Options};
use server::{PoolServerStatus, PoolStatus};

/// Loaded machines are slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until something is so.
pub(crate) fn until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn pool(site: &Site, arguments: &[&str]) -> Output {
    site.meridian(&[&["pool"], arguments].concat())
}

pub(crate) fn address(site: &Site) -> String {
    format!("127.0.0.1:{}", site.port)
}

/// A new pool, whose metadata server is running.
fn founding() -> (Site, Running) {
    let site = Site::new();
    succeed(&pool(&site, &["create", "--address", &address(&site)]));
    let server = site.place.start();
    (site, server)
}

/// A new pool with `COUNT` running data servers. New files are striped over all of them, in units of [`UNIT`].
pub(crate) fn striping_over<const COUNT: usize>(
    numbers: [u16; COUNT],
) -> (Site, Running, [Site; COUNT], Vec<Running>) {
    let metadata = Site::new();
    let at = address(&metadata);
    succeed(&pool(
        &metadata,
        &["create", "--address", &at, "--stripe-unit", "64 KiB"],
    ));
    let names = metadata.place.start();
    let machines = numbers.map(|_| joined(&metadata));
    let servers = machines.iter().map(start).collect();
    for number in numbers {
        until("new files lie there", || {
            data_server(&metadata, number).new_files
        });
    }
    (metadata, names, machines, servers)
}

fn invite(metadata: &Site) -> String {
    let token = succeed(&pool(metadata, &["invite", "--data-server"]));
    token.trim_end().to_owned()
}

fn join(site: &Site, token: &str) -> Output {
    pool(site, &["join", token, "--address", &address(site)])
}

/// A machine that has become a data server.
fn joined(metadata: &Site) -> Site {
    let site = Site::new();
    succeed(&join(&site, &invite(metadata)));
    site
}

pub(crate) fn start(data_server: &Site) -> Running {
    let at = address(data_server);
    data_server.place.start_with(&["--listen", &at])
}

fn status(site: &Site) -> PoolStatus {
    site.place.status().pool.unwrap()
}

fn data_server(metadata: &Site, number: u16) -> PoolServerStatus {
    let mut servers = status(metadata).servers.into_iter();
    servers.find(|server| server.number == number).unwrap()
}

/// What is kept by a data server is known only from itself.
fn until_there(metadata: &Site, number: u16) {
    until("a data server is there", || {
        let server = data_server(metadata, number);
        server.serves && server.holding.is_some()
    });
}

/// A server that does not start, and says all of this.
fn refuse_to_serve(site: &Site, parts: &[&str]) {
    refuse(&site.place.serve().output().unwrap(), parts);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_site_grows_by_one_command_on_each_new_machine() {
    let metadata = Site::new();
    let at = address(&metadata);
    let told = succeed(&pool(
        &metadata,
        &["create", "--address", &at, "--stripe-unit", "64 KiB"],
    ));
    assert!(told.contains("a stripe has 64 KiB"), "{told}");
    let server_of_names = metadata.place.start();
    assert!(
        server_of_names
            .announcement
            .contains("metadata server of pool")
    );
    let machines = [2, 3, 4].map(|number| {
        let machine = joined(&metadata);
        let server = start(&machine);
        let says = format!("data server {number} of pool");
        assert!(
            server.announcement.contains(&says),
            "{}",
            server.announcement
        );
        assert!(server.answers_null());
        (number, machine, server)
    });
    let members = succeed(&pool(&metadata, &["members"]));
    for (number, machine, _) in &machines {
        until_there(&metadata, *number);
        let line = format!("data server     {number}     {}", address(machine));
        assert!(members.contains(&line), "`{line}` is not in: {members}");
        assert!(status(machine).servers[0].connected);
        assert_eq!(status(machine).stripe_unit_bytes, 64 << 10);
    }
    assert!(metadata.place.status().alarms.is_empty());
    let told = succeed(&metadata.meridian(&["status"]));
    assert!(told.contains("data server 4 at"), "{told}");

    let [(number, machine, server), others @ ..] = machines;
    server.kill();
    until("who is away is missed", || {
        let alarms = metadata.place.status().alarms;
        alarms.iter().any(|alarm| alarm.name == "pool-server-away")
    });
    let _again = start(&machine);
    until_there(&metadata, number);

    server_of_names.kill();
    let _anew = metadata.place.start();
    for number in [2, 3, 4] {
        until_there(&metadata, number);
    }
    drop(others);
}

#[test]
fn tokens_and_units_that_are_wrong_are_refused_with_advice_and_nothing_is_lost() {
    let (metadata, _server) = founding();
    let (first, _first_server) = Site::founding();
    let machine = Site::new();
    refuse(
        &join(&machine, &first.invite()),
        &["token of a set", "`meridian set join`"],
    );
    let token = invite(&metadata);
    refuse(
        &machine.set(&["join", &token]),
        &["token of a pool", "`meridian pool join`"],
    );
    succeed(&join(&machine, &token));
    refuse(
        &join(&Site::new(), &token),
        &["the token has been used", "`meridian pool invite`"],
    );
    refuse(
        &join(&machine, &invite(&metadata)),
        &["already belongs to a pool", "choose another directory"],
    );
    refuse(
        &machine.set(&["create"]),
        &["belongs to a pool", "choose another directory"],
    );
    let at = address(&metadata);
    refuse(
        &join(&first, &invite(&metadata)),
        &["member of a set", "`meridian pool create`"],
    );
    refuse(
        &join(&metadata, &invite(&metadata)),
        &["already belongs to a pool"],
    );
    refuse(
        &pool(&machine, &["invite", "--data-server"]),
        &["has joined the pool", "metadata server", &at],
    );
    let lonely = Site::new();
    fs::create_dir(lonely.place.data()).unwrap();
    refuse(
        &pool(&lonely, &["members"]),
        &["belongs to no pool", "`meridian pool create`"],
    );
    for unit in ["100 KiB", "32 KiB", "32 MiB", "0"] {
        let output = pool(
            &Site::new(),
            &["create", "--address", &at, "--stripe-unit", unit],
        );
        let message = complaint(&output);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("choose a power of two"), "{message}");
    }
    // A server that has trees does not become a data server, and keeps them.
    let full = Site::new();
    full.place.start().stop();
    refuse(
        &join(&full, &invite(&metadata)),
        &["holds trees", "an empty or a new directory"],
    );
    full.place.start().stop();
}

#[test]
fn tokens_are_listed_without_their_secrets_and_revoked() {
    let (metadata, _server) = founding();
    let token = |arguments: &[&str]| pool(&metadata, &[&["token"], arguments].concat());
    let list = || succeed(&token(&["list"]));
    assert_eq!(list(), "no token is outstanding\n");
    let (one, two) = (invite(&metadata), invite(&metadata));
    let listed = list();
    for part in ["server 2 ", "server 3 ", "data server  works until"] {
        assert!(listed.contains(part), "`{part}` is not in: {listed}");
    }
    assert!(!listed.contains(&one[10..30]), "{listed}");
    let told = succeed(&token(&["list", "--json"]));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told[1]["number"], 3);
    assert!(told[1]["expires_unix_s"].as_u64().unwrap() > 0);
    succeed(&token(&["revoke", "2"]));
    refuse(
        &token(&["revoke", "2"]),
        &["no token for server 2", "meridian pool token list"],
    );
    let machine = Site::new();
    refuse(&join(&machine, &one), &["not one of this pool"]);
    succeed(&join(&machine, &two));
    assert_eq!(list(), "no token is outstanding\n");
    refuse(
        &pool(&machine, &["token", "list"]),
        &["has joined the pool", &address(&metadata)],
    );
    // The number of the token that nobody used is free.
    assert_eq!(status_of_members(&joined(&metadata)), ["1", "2", "3"]);
}

#[test]
fn a_data_server_without_files_goes_and_is_told() {
    let (metadata, _server) = founding();
    let machine = joined(&metadata);
    let remove = |number: &str| pool(&metadata, &["remove", number]);
    refuse(&remove("9"), &["no server 9", "meridian pool members"]);
    refuse(&remove("1"), &["metadata server", "is not removed"]);
    refuse(&pool(&machine, &["remove", "2"]), &["no server runs"]);
    let server = start(&machine);
    until_there(&metadata, 2);
    refuse(
        &pool(&machine, &["remove", "2"]),
        &["this is a data server", "metadata server"],
    );
    let told = succeed(&remove("2"));
    assert!(told.contains("its number is never used again"), "{told}");
    until("it is told", || {
        let metadata = &status(&machine).servers[0];
        let trouble = metadata.trouble.as_deref().unwrap_or("");
        !metadata.connected && trouble.contains("was removed")
    });
    assert!(status(&metadata).servers.is_empty());
    server.stop();
    let next = joined(&metadata);
    assert_eq!(status_of_members(&next), ["1", "2 removed", "3"]);
    // One that has never come can go as well.
    succeed(&remove("3"));
}

/// Numbers of the servers of a pool, as a data directory knows them.
fn status_of_members(site: &Site) -> Vec<String> {
    let told = succeed(&pool(site, &["members", "--json"]));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let members = told["members"].as_array().unwrap().iter();
    let said = members.map(|member| match member["removed"].as_bool().unwrap() {
        true => format!("{} removed", member["number"]),
        false => member["number"].to_string(),
    });
    said.collect()
}

#[test]
fn parts_of_data_directories_that_do_not_belong_together_are_not_served() {
    let (metadata, server) = founding();
    let (one, other) = (joined(&metadata), joined(&metadata));
    for site in [&one, &other] {
        start(site).stop();
    }
    server.stop();
    // The files of another data server of the pool.
    let (pool_of_one, pool_of_other) = (
        one.place.data().join("pool"),
        other.place.data().join("pool"),
    );
    let aside = one.place.directory.path().join("pool");
    fs::rename(&pool_of_one, &aside).unwrap();
    refuse_to_serve(&one, &["files of its pool", "one backup"]);
    copy(&pool_of_other, &pool_of_one);
    refuse_to_serve(
        &one,
        &["are those of data server 2", "this server data server 3"],
    );
    fs::remove_dir_all(&pool_of_one).unwrap();
    fs::rename(&aside, &pool_of_one).unwrap();
    // An empty disk.
    let (shelf, lost) = (
        one.place.data().join("shelf"),
        one.place.directory.path().join("shelf"),
    );
    fs::rename(&shelf, &lost).unwrap();
    refuse_to_serve(&one, &["had contents", "Mount the disk"]);
    // The roles of two data directories.
    copy(
        &one.place.data().join("pool"),
        &metadata.place.data().join("pool.of-one"),
    );
    let (own, theirs) = (
        metadata.place.data().join("pool"),
        metadata.place.data().join("pool.of-one"),
    );
    let aside = metadata.place.directory.path().join("pool");
    fs::rename(&own, &aside).unwrap();
    fs::rename(&theirs, &own).unwrap();
    refuse_to_serve(&metadata, &["is a data server", "shows no trees"]);
    fs::remove_dir_all(&own).unwrap();
    fs::rename(&aside, &own).unwrap();
    fs::rename(&lost, &shelf).unwrap();
    let _server = metadata.place.start();
    let _one = start(&one);
    until_there(&metadata, 2);
}

/// In the tests of striping.
const UNIT: usize = 64 << 10;
const STRIPES: u8 = 9;

/// Bytes of which every stripe says which one it is.
fn striped_bytes(first: u8) -> Vec<u8> {
    let stripes = (0..STRIPES).flat_map(|stripe| vec![first + stripe; UNIT]);
    stripes.collect()
}

/// Which stripes lie below a directory, by looking at the bytes of every file.
fn stripes_in(directory: &Path) -> BTreeSet<u8> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(stripes_in(&path)),
            false => {
                // It may have gone meanwhile.
                let bytes = fs::read(&path).unwrap_or_default();
                let whole = bytes.chunks_exact(UNIT);
                let of_one = whole
                    .filter(|chunk| chunk[0] != 0 && chunk.iter().all(|byte| *byte == chunk[0]));
                found.extend(of_one.map(|chunk| chunk[0]));
            }
        }
    }
    found
}

fn shelf(site: &Site) -> std::path::PathBuf {
    site.place.data().join("shelf")
}

#[test]
fn files_lie_striped_on_the_data_servers_and_every_server_may_be_killed() {
    let metadata = Site::new();
    let at = address(&metadata);
    succeed(&pool(
        &metadata,
        &["create", "--address", &at, "--stripe-unit", "64 KiB"],
    ));
    let mut names = metadata.place.start();
    // Before there are data servers, files lie at the metadata server; they stay there.
    block_on(write(&names, "old", &striped_bytes(100)));
    let machines = [2, 3, 4].map(|_| joined(&metadata));
    let mut servers: Vec<Running> = machines.iter().map(start).collect();
    for number in [2, 3, 4] {
        until("new files lie there", || {
            data_server(&metadata, number).new_files
        });
    }
    block_on(write(&names, "new", &striped_bytes(1)));
    let lies = machines
        .each_ref()
        .map(|machine| stripes_in(&shelf(machine)));
    for (stripes, machine) in lies.iter().zip(&machines) {
        assert_eq!(stripes.len(), usize::from(STRIPES) / 3, "{lies:?}");
        until("it says that it has the file", || {
            status(machine).holding.unwrap().contents == 1
        });
    }
    let all: BTreeSet<u8> = lies.iter().flatten().copied().collect();
    assert_eq!(all, (1..=STRIPES).collect());
    assert!(!stripes_in(&metadata.place.data().join("trees")).contains(&1));
    until("the metadata server knows", || {
        data_server(&metadata, 2).holding.unwrap().contents == 1
    });
    refuse(
        &pool(&metadata, &["remove", "2"]),
        &["parts of 1 file lie", "`meridian pool drain-data 2`"],
    );

    // Each is killed, and what it has comes back with it.
    for (at, machine) in machines.iter().enumerate() {
        let number = 2 + at as u16;
        servers.remove(at).kill();
        assert_eq!(block_on(read(&names, "old")), striped_bytes(100));
        if at == 0 {
            until("it is missed", || !data_server(&metadata, 2).connected);
            let refused = pool(&metadata, &["remove", "2"]);
            refuse(
                &refused,
                &["/new is striped over data server 2", "drain-data 2"],
            );
        }
        servers.insert(at, start(machine));
        until("it serves again", || data_server(&metadata, number).serves);
        assert_eq!(block_on(read(&names, "new")), striped_bytes(1));
    }
    names.kill();
    names = metadata.place.start();
    for number in [2, 3, 4] {
        until("it serves again", || data_server(&metadata, number).serves);
    }
    assert_eq!(block_on(read(&names, "new")), striped_bytes(1));
    assert_eq!(block_on(read(&names, "old")), striped_bytes(100));

    // A file goes also when a data server is away, which is told when it is back.
    servers.remove(0).kill();
    block_on(remove(&names, "new"));
    let first = start(&machines[0]);
    for machine in &machines {
        until("nothing of it is left", || {
            status(machine).holding.unwrap().contents == 0
        });
        until("no bytes either", || stripes_in(&shelf(machine)).is_empty());
    }
    until("it serves again", || data_server(&metadata, 2).serves);
    succeed(&pool(&metadata, &["remove", "2"]));
    drop(first);
    block_on(write(&names, "next", &striped_bytes(50)));
    assert_eq!(block_on(read(&names, "next")), striped_bytes(50));
    assert!(stripes_in(&shelf(&machines[0])).is_empty());
}

/// Copies a directory with all that is in it.
fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copied = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy_tree(&path, &copied),
            false => {
                fs::copy(&path, &copied).unwrap();
            }
        }
    }
}

/// A data server that is there, does not serve, and of which the metadata server says this.
fn until_refused(metadata: &Site, number: u16, says: &str) {
    until("it is refused", || {
        let server = data_server(metadata, number);
        let trouble = server.trouble.as_deref().unwrap_or("");
        server.connected && !server.serves && trouble.contains(says)
    });
    let alarms = metadata.place.status().alarms;
    assert!(alarms.iter().any(|alarm| alarm.name == "pool-server-away"));
}

#[test]
fn contents_that_are_not_those_that_were_there_are_not_served() {
    let (metadata, mut names) = founding();
    let (one, other) = (joined(&metadata), joined(&metadata));
    for (number, site) in [(2, &one), (3, &other)] {
        let server = start(site);
        until_there(&metadata, number);
        server.stop();
    }
    let (own, kept) = (shelf(&one), one.place.directory.path().join("kept"));
    fs::rename(&own, &kept).unwrap();
    // An empty disk, and nothing says that there was something.
    let member = one.place.data().join("member");
    fs::remove_file(&member).unwrap();
    let empty = start(&one);
    until_refused(&metadata, 2, "other contents than before");
    empty.stop();
    // Those of another data server.
    fs::remove_dir_all(&own).unwrap();
    copy_tree(&shelf(&other), &own);
    let twin = start(&one);
    until_refused(&metadata, 2, "those of data server 3");
    twin.stop();
    // Its own, which nothing was done to meanwhile.
    fs::remove_dir_all(&own).unwrap();
    copy_tree(&kept, &own);
    let itself = start(&one);
    until_there(&metadata, 2);
    itself.stop();
    // The same as they were before.
    let right = one.place.directory.path().join("right");
    fs::rename(&own, &right).unwrap();
    fs::rename(&kept, &own).unwrap();
    let older = start(&one);
    until_refused(&metadata, 2, "an older copy");
    let readmit = || pool(&metadata, &["readmit", "2"]);
    refuse(
        &readmit(),
        &["is not readmitted", "Put the right data directory back"],
    );
    older.stop();
    until("it is gone", || !data_server(&metadata, 2).connected);
    refuse(&readmit(), &["is not connected", "try again"]);
    // From then on the right contents are accepted at an administrator's word alone, whichever server
    // is started anew.
    fs::remove_dir_all(&own).unwrap();
    fs::rename(&right, &own).unwrap();
    let _right = start(&one);
    until_refused(&metadata, 2, "`meridian pool readmit 2`");
    names.kill();
    names = metadata.place.start();
    until_refused(&metadata, 2, "`meridian pool readmit 2`");
    assert!(succeed(&readmit()).contains("is readmitted"));
    until_there(&metadata, 2);
    refuse(&readmit(), &["is not refused"]);
    names.stop();
}
