//! A site that has grown: one metadata server, three data servers, and Linux clients that read and write at the data servers themselves.
//!
//! What must never enter: what a client without layouts can show; `tests/pool` has that.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use server::{PoolServerStatus, Status};
use testbed::{Guest, LinkSettings, Mount, Place, Role, Service, World};

use crate::hands::{program, run};
use crate::metadata_servers::MAKES_DIRECTORIES;
use crate::scene::{MOUNT, eventually, meridian, on_data, peer_address, serve, serve_with};

/// The metadata server is the first one.
const MACHINES: [&str; 4] = ["names", "one", "two", "three"];
/// Forty-seven stripes and a bit.
const BYTES: u64 = 47 * (64 << 10) + 1234;
/// Nothing of a file stays in the client's memory.
pub const FORGET: &str = "sync; echo 3 >/proc/sys/vm/drop_caches";
/// The file in the tree and what it has to be, with nothing of it in the client's memory.
const COMPARE: &str = "sync; echo 3 >/proc/sys/vm/drop_caches; cmp /run/bytes /run/m/file";

/// Does what the manual says under "A site grows".
fn set_up(world: &World) -> Result<Vec<Service>> {
    let names = &world.places()[0];
    on_data(names).begin_pool(&["--stripe-unit", "64 KiB"], peer_address(names))?;
    let mut servers = vec![serve(names)?];
    for place in &world.places()[1..] {
        servers.push(joining(place, names, Role::DataServer)?);
    }
    serving(names, MACHINES.len() - 1)?;
    Ok(servers)
}

pub fn joining(place: &Place, names: &Place, role: Role) -> Result<Service> {
    on_data(place).join(&on_data(names), role, place.nfs_address())?;
    serve(place)
}

fn status(names: &Place) -> Result<Status> {
    Ok(serde_json::from_str(&meridian(
        names,
        &["status", "--json"],
    )?)?)
}

/// What the metadata server says of its data servers.
pub fn data_servers(names: &Place) -> Result<Vec<PoolServerStatus>> {
    let pool = status(names)?.pool;
    let mut servers = pool.context("the server belongs to a pool")?.servers;
    servers.retain(|server| server.role == "data server");
    Ok(servers)
}

/// Waits until new files are striped over all of this many data servers.
pub fn serving(names: &Place, count: usize) -> Result<()> {
    eventually("all data servers serve", || {
        let servers = data_servers(names)?;
        let all = servers
            .iter()
            .all(|server| server.serves && server.new_files);
        Ok(all && servers.len() == count)
    })
}

/// What clients do at data servers.
#[derive(Clone, Copy)]
pub enum Doing {
    Reading,
    Writing,
}

/// How many bytes were taken from, or brought to, each data server.
pub fn moved(names: &Place, doing: Doing) -> Result<Vec<u64>> {
    let moved = data_servers(names)?.into_iter().map(|server| {
        let holding = server.holding?;
        Some(match doing {
            Doing::Reading => holding.read_bytes,
            Doing::Writing => holding.written_bytes,
        })
    });
    moved
        .collect::<Option<_>>()
        .context("a data server says nothing")
}

/// Waits until as many bytes as the file has were moved at the data servers since `before`, some of them at each.
fn each_was_used(names: &Place, doing: Doing, before: &[u64]) -> Result<()> {
    eventually("each data server has counted what was done there", || {
        let after = moved(names, doing)?;
        let moved = after
            .iter()
            .zip(before)
            .map(|(after, before)| after - before);
        Ok(moved.clone().all(|bytes| bytes > 0) && moved.sum::<u64>() >= BYTES)
    })
}

fn received(places: &[&Place]) -> Result<u64> {
    let mut received = 0;
    for place in places {
        received += status(place)?.traffic.received_bytes;
    }
    Ok(received)
}

/// Writes a new file, and fails unless its bytes went to all data servers, past the metadata servers, the first of which knows them.
fn writes_at_the_data_servers(metadata_servers: &[&Place], guest: &Guest) -> Result<()> {
    let names = metadata_servers[0];
    let before = moved(names, Doing::Writing)?;
    let through = received(metadata_servers)?;
    let write = format!("head -c {BYTES} /dev/urandom >/run/bytes; cp /run/bytes /run/m/file");
    run(guest, write)?;
    each_was_used(names, Doing::Writing, &before)?;
    let through = received(metadata_servers)? - through;
    ensure!(
        through < BYTES / 4,
        "metadata servers were sent {through} bytes"
    );
    Ok(())
}

/// Reads the file, and fails unless its bytes came from all data servers.
fn reads_at_the_data_servers(names: &Place, guest: &Guest) -> Result<()> {
    let before = moved(names, Doing::Reading)?;
    run(guest, COMPARE)?;
    each_was_used(names, Doing::Reading, &before)?;
    let statistics = run(guest, "cat /proc/self/mountstats")?.text();
    ensure!(
        statistics.contains("pnfs=LAYOUT_NFSV4_1_FILES"),
        "the client has no layouts:\n{statistics}"
    );
    Ok(())
}

/// Two clients write to one file at the data servers, in turn, and each finds its end where the other has put it.
fn appends_of_two_clients_are_all_there(places: &[Place], first: &Guest) -> Result<()> {
    let second = places[1].guest("second")?;
    second.mount(&Mount::of(places[0].nfs_address(), "/export"), MOUNT)?;
    let append = |who: &str| {
        format!("for line in $(seq 20); do (flock 9; echo {who} $line >&9) 9>>/run/m/lines; done")
    };
    let here = first.start(append("first"))?;
    let there = second.start(append("second"))?;
    crate::hands::finish(&here)?;
    crate::hands::finish(&there)?;
    for guest in [first, &second] {
        let lines = run(guest, "wc -l </run/m/lines; sort -u /run/m/lines | wc -l")?;
        ensure!(
            lines.text().split_whitespace().eq(["40", "40"]),
            "of twice twenty lines there are {}",
            lines.text()
        );
    }
    run(first, "rm /run/m/lines")?;
    second.power_off()
}

/// The bytes come from where they lie, also after each server was killed, and never from before a change.
pub fn linux_reads_and_writes_at_the_data_servers_of_a_pool_and_loses_nothing_when_servers_die()
-> Result<()> {
    let near = LinkSettings::round_trip(Duration::from_micros(200)).bandwidth(1_000_000_000);
    let world = World::new(&MACHINES, &near)?;
    let mut servers = set_up(&world)?;
    let names = &world.places()[0];
    let guest = names.guest("client")?;
    guest.mount(&Mount::of(names.nfs_address(), "/export"), MOUNT)?;
    writes_at_the_data_servers(&[names], &guest)?;
    reads_at_the_data_servers(names, &guest)?;
    appends_of_two_clients_are_all_there(world.places(), &guest)?;

    // The client has a layout of what it cuts, lets grow, and appends to.
    for change in [
        "truncate -s 300000 FILE",
        "truncate -s 900000 FILE",
        "echo end >>FILE",
    ] {
        let both = ["/run/m/file", "/run/bytes"].map(|file| change.replace("FILE", file));
        run(&guest, both.join("; "))?;
        run(&guest, COMPARE)?;
    }
    let anew = format!("head -c {BYTES} /dev/urandom >/run/bytes; cp /run/bytes /run/m/file");
    run(&guest, anew)?;
    for (server, place) in servers.iter_mut().zip(world.places()) {
        server.kill()?;
        let waiting = guest.start(COMPARE)?;
        server.restart()?;
        server.wait_for_nfs(place.nfs_address())?;
        serving(names, 3)?;
        crate::hands::finish(&waiting)?;
    }
    // What was not stable where a server was killed is written again.
    for (server, place) in servers.iter_mut().zip(world.places()).skip(1) {
        let writing = guest.start("cp /run/bytes /run/m/other && mv /run/m/other /run/m/file")?;
        server.kill()?;
        server.restart()?;
        server.wait_for_nfs(place.nfs_address())?;
        serving(names, 3)?;
        crate::hands::finish(&writing)?;
        run(&guest, COMPARE)?;
    }
    reads_at_the_data_servers(names, &guest)?;
    run(&guest, "rm /run/m/file")?;
    eventually("nothing is left of a removed file", || {
        let holding = data_servers(names)?
            .into_iter()
            .map(|server| server.holding);
        Ok(holding.flatten().all(|holding| holding.contents == 0))
    })?;
    guest.power_off()?;
    for mut server in servers {
        let status = server.stop()?;
        ensure!(status.success(), "a server stopped with {status}");
    }
    Ok(())
}

/// Two metadata servers, of which the second makes directories of its own, and behind them two data servers.
pub fn two_of_each() -> Result<(World, Vec<Service>)> {
    let near = LinkSettings::round_trip(Duration::from_micros(200)).bandwidth(1_000_000_000);
    let world = World::new(&["names", "other", "one", "two"], &near)?;
    let [names, other, one, two] = world.places() else {
        anyhow::bail!("there are four machines");
    };
    on_data(names).begin_pool(&["--stripe-unit", "64 KiB"], peer_address(names))?;
    let mut servers = vec![serve(names)?];
    on_data(other).join(&on_data(names), Role::MetadataServer, other.nfs_address())?;
    servers.push(serve_with(other, MAKES_DIRECTORIES)?);
    for place in [one, two] {
        servers.push(joining(place, names, Role::DataServer)?);
    }
    serving(names, 2)?;
    Ok((world, servers))
}

/// A client of a metadata server that has joined does the same, also when either metadata server was killed, and one at the first sees it.
pub fn linux_reads_and_writes_at_the_data_servers_through_a_second_metadata_server() -> Result<()> {
    let (world, mut servers) = two_of_each()?;
    let [names, other, one, _] = world.places() else {
        anyhow::bail!("there are four machines");
    };
    let guest = other.guest("client")?;
    guest.mount(&Mount::of(other.nfs_address(), "/export"), MOUNT)?;
    writes_at_the_data_servers(&[names, other], &guest)?;
    reads_at_the_data_servers(names, &guest)?;
    let at_first = one.guest("second")?;
    at_first.mount(&Mount::of(names.nfs_address(), "/export"), MOUNT)?;
    let sum = |guest: &Guest, file: &str| -> Result<String> {
        Ok(run(guest, format!("sha256sum <{file}"))?.text())
    };
    for (server, place) in [(0, names), (1, other)] {
        // Cut at the one while the other has a layout.
        run(&at_first, "truncate -s 300000 /run/m/file")?;
        run(&guest, "truncate -s 300000 /run/bytes")?;
        run(&guest, COMPARE)?;
        let again = "head -c 2000000 /dev/urandom >/run/bytes; cp /run/bytes /run/m/file";
        run(&guest, again)?;
        let writing = guest.start("cat /run/bytes >>/run/m/file; cat /run/bytes >>/run/bytes2")?;
        servers[server].kill()?;
        servers[server].restart()?;
        servers[server].wait_for_nfs(place.nfs_address())?;
        serving(names, 2)?;
        crate::hands::finish(&writing)?;
        run(&guest, "cat /run/bytes2 >>/run/bytes; rm /run/bytes2")?;
        run(&guest, COMPARE)?;
        let (there, here) = (sum(&at_first, "/run/m/file")?, sum(&guest, "/run/bytes")?);
        ensure!(there == here, "the other client reads something else");
    }
    reads_again(names, &guest)?;
    files_are_as_on_a_disk(&guest, &at_first)?;
    guest.power_off()?;
    at_first.power_off()?;
    for mut server in servers {
        let status = server.stop()?;
        ensure!(status.success(), "a server stopped with {status}");
    }
    Ok(())
}

/// What programs do with files in a directory that lives at the server that has joined, by layouts of that server. Its client is the first one;
/// the other one is at the first server.
fn files_are_as_on_a_disk(guest: &Guest, at_first: &Guest) -> Result<()> {
    run(guest, "mkdir -p /run/m/own/tour")?;
    // Of a striped file the whole is data, as the manual says.
    run(
        guest,
        program(["tour-but", "/run/m/own/tour", "sparse files"]),
    )?;
    // Across borders of stripes, both ways, past the client's memory.
    let direct = "dd if=/run/bytes of=/run/m/own/direct bs=96K iflag=fullblock oflag=direct 2>/dev/null; dd if=/run/m/own/direct bs=80K iflag=direct 2>/dev/null | cmp - /run/bytes";
    run(guest, direct)?;
    // A client of the other server changes one file meanwhile.
    let beside = "for round in $(seq 30); do cp /run/other /run/m/own/beside; cmp /run/other /run/m/own/beside || exit 1; done";
    run(at_first, "head -c 300000 /dev/urandom >/run/other")?;
    let beside = at_first.start(beside)?;
    run(
        guest,
        program(["scribble", "/run/m/own/scribbled", "7", "400"]),
    )?;
    run(
        at_first,
        program(["scribble", "/run/m/own/scribbled-there", "8", "200"]),
    )?;
    crate::hands::finish(&beside)?;
    // What is renamed and removed stays readable for who has opened it.
    let open = "cp /run/bytes /run/m/own/open; exec 5</run/m/own/open; mv /run/m/own/open /run/m/moved; rm /run/m/moved; echo 3 >/proc/sys/vm/drop_caches; cmp - /run/bytes <&5";
    run(guest, open)?;
    // Beyond 4 GiB.
    let end = "printf end | dd of=/run/m/own/far bs=1 seek=4831838208 2>/dev/null; sync";
    run(guest, end)?;
    let far = run(
        at_first,
        "stat -c %s /run/m/own/far; tail -c 3 /run/m/own/far",
    )?;
    ensure!(far.text() == "4831838211\nend", "{}", far.text());
    run(at_first, "rm -r /run/m/own")?;
    run(guest, "test ! -e /run/m/own")?;
    Ok(())
}

/// Reads the file at both data servers, however long it is.
fn reads_again(names: &Place, guest: &Guest) -> Result<()> {
    let before = moved(names, Doing::Reading)?;
    run(guest, COMPARE)?;
    eventually("each data server has counted what was read there", || {
        let after = moved(names, Doing::Reading)?;
        Ok(after
            .iter()
            .zip(&before)
            .all(|(after, before)| after > before))
    })
}
