//! Two sites with clients, and a witness at a third one.
//!
//! What must never enter: a third copy of the tree.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use server::{ReplicaStatus, Status};
use testbed::{Guest, Mount, Place, Role, Service, Signal, World};

use crate::scene::{
    MOUNT, NAMES, PATIENCE, eventually, far, lines, meridian, more, on_data, peer_address, program,
    serve_with, told_of,
};

/// The places of the two replicas and of the witness.
const STAYS: usize = 0;
const FAILS: usize = 1;
const WITNESS: usize = 2;

/// A set of two replicas and a witness at the first places, all in the view, and its servers, with some lines of configuration.
pub fn set_up(world: &World, configuration: &str) -> Result<Vec<Service>> {
    let places = &world.places()[..=WITNESS];
    let first = &places[STAYS];
    on_data(first).begin_set(peer_address(first))?;
    let mut servers = vec![serve_with(first, configuration)?];
    for (place, role) in places[FAILS..].iter().zip([Role::Replica, Role::Witness]) {
        on_data(place).join(&on_data(first), role, peer_address(place))?;
        servers.push(serve_with(place, configuration)?);
    }
    for place in places {
        until_active(place, &[1, 2, 3])?;
    }
    Ok(servers)
}

fn status(place: &Place) -> Result<ReplicaStatus> {
    let status: Status = serde_json::from_str(&meridian(place, &["status", "--json"])?)?;
    let mut exports = status.exports.into_iter();
    let replication = exports.find_map(|export| export.replication);
    replication.context("the server belongs to a set")
}

/// Waits until a server answers in a view of these.
fn until_active(place: &Place, slots: &[u16]) -> Result<()> {
    eventually("a view is in force", || {
        let status = status(place)?;
        let view = status.view.context("there are views")?;
        let active = view.members.iter().filter(|member| member.active);
        let active: Vec<u16> = active.map(|member| member.slot).collect();
        Ok(status.ready && view.takes_part && view.up_to_date && active == slots)
    })
}

/// The files with contents that a server keeps.
fn contents(place: &Place) -> Result<Vec<PathBuf>> {
    let mut directories = vec![place.site().folder().join("data/trees/default/data")];
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            match path.is_dir() {
                true => directories.push(path),
                false => files.push(path),
            }
        }
    }
    Ok(files)
}

/// A client of the server at its place.
fn client(place: &Place) -> Result<Guest> {
    let guest = place.guest("client")?;
    guest.mount(&Mount::of(place.nfs_address(), "/export"), MOUNT)?;
    Ok(guest)
}

pub fn two_sites_and_a_witness_lose_a_server_and_no_answered_write() -> Result<()> {
    let world = World::new(&NAMES, &far())?;
    let mut servers = set_up(&world, "")?;
    let [first, second, third] = [STAYS, FAILS, WITNESS].map(|at| &world.places()[at]);
    meridian(first, &["durability", "/", "majority"])?;
    let guest = client(first)?;
    let refused = guest.try_mount(&Mount::of(third.nfs_address(), "/export"), "/run/witness")?;
    ensure!(refused.success().is_err(), "a witness has nothing to mount");

    let journal = guest.start(program(["journal", &format!("{MOUNT}/journal")]))?;
    more(&journal)?;
    servers[FAILS].kill()?;
    until_active(first, &[1, 3])?;
    more(&journal).context("one replica and the witness")?;
    servers[FAILS].restart()?;
    servers[FAILS].wait_for_nfs(second.nfs_address())?;
    until_active(second, &[1, 2, 3])?;
    told_of(world.places(), more(&journal)).context("all again")?;
    journal.signal(Signal::KILL)?;
    let written = lines(&journal)?;
    journal.wait(PATIENCE)?.context("a killed program ends")?;
    // A record that was not synchronised may be there in part when its server dies.
    guest.run("sync")?.success()?;

    // What was written without it is at the server that was away, and the other one is not needed any more.
    servers[STAYS].kill()?;
    until_active(second, &[2, 3])?;
    let audit = program(["audit", &format!("{MOUNT}/journal"), &written.to_string()]);
    client(second)?.run(audit)?.success()?;
    ensure!(!contents(second)?.is_empty(), "the contents are elsewhere");
    let kept = contents(third)?;
    ensure!(kept.is_empty(), "the witness keeps {kept:?}");
    Ok(())
}
