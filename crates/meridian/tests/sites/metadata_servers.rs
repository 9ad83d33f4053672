//! A site with two metadata servers, and a Linux client at each.
//!
//! What must never enter: data servers.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use server::{CopiesStatus, Status};
use testbed::{Guest, LinkSettings, Mount, Place, Role, Service, World};

use crate::hands::{Hand, run};
use crate::inside::hand::{Act, Kind, Way};
use crate::scene::{MOUNT, eventually, meridian, on_data, peer_address, serve, serve_with};

/// The first one keeps what the other shows.
const MACHINES: [&str; 2] = ["names", "other"];
/// Whatever the client knows is forgotten, so that it asks for each name and its attributes.
const LIST: &str = "echo 3 >/proc/sys/vm/drop_caches; ls -l /run/m/tree";

fn copies(place: &Place) -> Result<CopiesStatus> {
    let status: Status = serde_json::from_str(&meridian(place, &["status", "--json"])?)?;
    let copies = status.pool.and_then(|pool| pool.copies);
    copies.context("a metadata server that has joined keeps copies")
}

/// Notes the rights of a file, as the client finds them when it asks.
const LOOK: &str = "echo 3 >/proc/sys/vm/drop_caches; stat -c %a /run/m/tree/7 >/run/found";

fn ensure_found(guest: &Guest, mode: &str) -> Result<()> {
    let found = run(guest, "cat /run/found")?.text();
    let found = found.trim();
    ensure!(found == mode, "{found} was found behind chmod {mode}");
    Ok(())
}

/// What one client changes shows at the other one, whose server needs no message for what has not changed.
pub fn linux_lists_at_a_second_metadata_server_without_a_message_and_sees_each_change() -> Result<()>
{
    let world = world()?;
    let [names, other] = world.places() else {
        anyhow::bail!("there are two machines");
    };
    let (servers, [first, second]) = serve_both([names, other], ALL_AT_FIRST)?;
    run(
        &first,
        "mkdir /run/m/tree; touch $(seq -f /run/m/tree/%.0f 300)",
    )?;
    // The first time, and when a lease has run out on a machine that is busy, the server asks.
    eventually("the whole directory costs no message", || {
        let before = copies(other)?;
        let listed = run(&second, format!("{LIST} | wc -l"))?;
        ensure!(listed.text().trim() == "301", "{}", listed.text());
        let after = copies(other)?;
        Ok(after.questions == before.questions && after.answered > before.answered)
    })?;
    for mode in ["600", "640", "604"] {
        run(&first, format!("chmod {mode} /run/m/tree/7"))?;
        run(&second, LOOK)?;
        ensure_found(&second, mode)?;
    }
    // Cut off, it answers from no copy any more when the change is answered.
    world.wan().cut(MACHINES[0], MACHINES[1])?;
    run(&first, "chmod 444 /run/m/tree/7")?;
    let looking = second.start(LOOK)?;
    world.wan().heal(MACHINES[0], MACHINES[1])?;
    crate::hands::finish(&looking)?;
    ensure_found(&second, "444")?;
    end_well(servers, [first, second])
}

fn ensure_busy(hand: &mut Hand, file: &str) -> Result<()> {
    let taken = hand.tries(Act::TryLock(file.into(), Kind::Exclusive, (10, 1)))?;
    ensure!(taken == Err(Errno::EAGAIN as i32), "{taken:?}");
    Ok(())
}

/// A client that locks a file at one server keeps those at the other out, wakes those that wait there, and has its lock when either server was killed.
pub fn linux_locks_at_two_metadata_servers_and_keeps_its_locks_when_either_is_killed() -> Result<()>
{
    locks_stand(ALL_AT_FIRST, "locked")
}

/// The same with a file in a directory that lives at the server that has joined; and work there, as it is done elsewhere.
pub fn linux_works_in_a_directory_of_the_second_metadata_server() -> Result<()> {
    let world = world()?;
    let [names, other] = world.places() else {
        anyhow::bail!("there are two machines");
    };
    let (servers, [first, second]) = serve_both([names, other], MAKES_DIRECTORIES)?;
    run(&second, "mkdir /run/m/own; echo text >/run/m/outside")?;
    let before = copies(other)?;
    run(
        &second,
        "cd /run/m/own && mkdir -p a/b && touch $(seq -f a/%.0f 200) && mv a/7 a/b/7 && ln a/8 a/b/8 && rm a/9 && cp -r a c",
    )?;
    let after = copies(other)?;
    let asked = after.questions - before.questions;
    // The way there is looked up at the first one, whenever Linux does that.
    ensure!(
        asked < 20,
        "{asked} questions for a hundred times as many operations"
    );
    let listed = "ls -l /run/m/own/a /run/m/own/a/b /run/m/own/c | wc -l; cat /run/m/outside";
    let all = [&first, &second].map(|guest| run(guest, listed).map(|said| said.text()));
    let [one, two] = all;
    let (one, two) = (one?, two?);
    ensure!(one == two && one.ends_with("text\n"), "{one} and {two}");
    // `mv` copies what it cannot move.
    run(
        &first,
        "mv /run/m/outside /run/m/own/inside && mv /run/m/own/c /run/m/c && grep text /run/m/own/inside && test -f /run/m/c/b/7",
    )?;
    run(
        &second,
        "test ! -e /run/m/own/c && mv /run/m/own /run/m/c/own && ls /run/m/c/own/a/b",
    )?;
    run(&first, "rm -r /run/m/c && test ! -e /run/m/c")?;
    run(&second, "test -z \"$(ls -A /run/m)\"")?;
    end_well(servers, [first, second])?;
    drop(world);
    locks_stand(MAKES_DIRECTORIES, "own/locked")
}

/// Where directories live: all at the first one, or some at the other.
const ALL_AT_FIRST: &str = "";
pub const MAKES_DIRECTORIES: &str = "[pool]\nmakes_directories = true\n";

fn locks_stand(configuration: &str, file: &str) -> Result<()> {
    let world = world()?;
    let [names, other] = world.places() else {
        anyhow::bail!("there are two machines");
    };
    let (mut servers, guests) = serve_both([names, other], configuration)?;
    run(&guests[1], "mkdir -p /run/m/own")?;
    let mut hands = Vec::new();
    for (place, guest) in [names, other].into_iter().zip(&guests) {
        let mut hand = Hand::begin(place.site(), guest, |script| script)?;
        hand.does(Act::Open(file.into(), Way::Write))?;
        hands.push(hand);
    }
    let (lock, unlock) = (
        Act::Lock(file.into(), Kind::Exclusive, (10, 10)),
        Act::Unlock(file.into(), (0, 0)),
    );
    for holder in [0, 1] {
        let waits = 1 - holder;
        hands[holder].does(lock.clone())?;
        hands[holder].does(Act::WriteAt(file.into(), 10, format!("by {holder}")))?;
        ensure_busy(&mut hands[waits], file)?;
        hands[waits].begins(&lock)?;
        hands[holder].does(unlock.clone())?;
        let granted = hands[waits].outcome()?;
        ensure!(granted == Ok(String::new()), "{granted:?}");
        let text = hands[waits].does(Act::ReadAt(file.into(), (10, 4)))?;
        ensure!(text == format!("by {holder}"), "{text}");
        for (server, place) in servers.iter_mut().zip([names, other]) {
            server.kill()?;
            server.restart()?;
            server.wait_for_nfs(place.nfs_address())?;
            hands[waits].does(Act::WriteAt(file.into(), 10, "still".into()))?;
            ensure_busy(&mut hands[holder], file)?;
        }
        hands[waits].does(unlock.clone())?;
    }
    drop(hands);
    end_well(servers, guests)
}

fn world() -> Result<World> {
    let near = LinkSettings::round_trip(Duration::from_micros(200)).bandwidth(1_000_000_000);
    World::new(&MACHINES, &near)
}

/// Both servers run, the second with these lines of configuration, and a client has mounted each.
fn serve_both(places: [&Place; 2], configuration: &str) -> Result<(Vec<Service>, [Guest; 2])> {
    let [names, other] = places;
    on_data(names).begin_pool(&[], peer_address(names))?;
    let mut servers = vec![serve(names)?];
    on_data(other).join(&on_data(names), Role::MetadataServer, other.nfs_address())?;
    servers.push(serve_with(other, configuration)?);
    let guests = [names.guest("first")?, other.guest("second")?];
    for (guest, place) in guests.iter().zip(places) {
        guest.mount(&Mount::of(place.nfs_address(), "/export"), MOUNT)?;
    }
    Ok((servers, guests))
}

fn end_well(servers: Vec<Service>, guests: [Guest; 2]) -> Result<()> {
    for guest in guests {
        guest.power_off()?;
    }
    for mut server in servers {
        let status = server.stop()?;
        ensure!(status.success(), "a server stopped with {status}");
    }
    Ok(())
}
