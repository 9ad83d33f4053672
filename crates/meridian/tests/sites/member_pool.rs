//! Three sites, of which one keeps its copy on data servers, where a Linux client reads.
//!
//! What must never enter: what a pool on its own shows.

use std::time::Duration;

use anyhow::{Result, ensure};
use testbed::{LinkSettings, Meridian, Mount, Place, Role, Service, World};

use crate::hands::{Hand, run};
use crate::inside::hand::{Act, Way};
use crate::pool::{Doing, FORGET, joining, moved, serving};
use crate::scene::{MOUNT, eventually, on_data, peer_address, serve};

/// The third one keeps its copy at those behind it.
const PLACES: [&str; 5] = ["paris", "rome", "oslo", "one", "two"];
/// A line for each four bytes.
const BYTES: u64 = 4_000_000;
/// What lies together.
const UNIT: u64 = 64 << 10;

/// Does what the manual says under "A member keeps its contents in a pool".
fn set_up(world: &World) -> Result<Vec<Service>> {
    let [paris, rome, oslo, one, two] = world.places() else {
        anyhow::bail!("there are five machines");
    };
    on_data(paris).begin_set(peer_address(paris))?;
    let mut servers = vec![serve(paris)?];
    for place in [rome, oslo] {
        on_data(place).join(&on_data(paris), Role::Replica, peer_address(place))?;
    }
    let at = oslo.at(Meridian::PEER_PORT + 1);
    on_data(oslo).begin_pool(&["--stripe-unit", "64 KiB"], at)?;
    for place in [rome, oslo] {
        servers.push(serve(place)?);
    }
    for place in [one, two] {
        servers.push(joining(place, oslo, Role::DataServer)?);
    }
    serving(oslo, 2)?;
    Ok(servers)
}

fn read_at(hand: &mut Hand, at: u64) -> Result<String> {
    hand.does(Act::ReadAt("file".into(), (at as i64, 8)))
}

/// A data server says once a second what was read there, and each when it likes.
const TOLD: Duration = Duration::from_millis(1500);

/// Has the client read the file until both data servers have told of that. What was read there before is told first.
fn reads_there(oslo: &Place, when: &str, mut read: impl FnMut() -> Result<()>) -> Result<()> {
    std::thread::sleep(TOLD);
    let before = moved(oslo, Doing::Reading)?;
    eventually(
        &format!("the client reads at both data servers {when}"),
        || {
            read()?;
            let mut counts = moved(oslo, Doing::Reading)?.into_iter().zip(&before);
            Ok(counts.all(|(after, before)| after > *before))
        },
    )
}

/// The member hears nothing any more, and is heard: the others go on without it, and the client has its layout.
pub fn linux_reads_at_the_data_servers_of_a_member_and_nothing_old_when_that_is_cut_off()
-> Result<()> {
    let near = LinkSettings::round_trip(Duration::from_micros(200)).bandwidth(1_000_000_000);
    let world = World::new(&PLACES, &near)?;
    let servers = set_up(&world)?;
    let (paris, oslo) = (&world.places()[0], &world.places()[2]);
    let (writer, reader) = (paris.guest("writer")?, oslo.guest("reader")?);
    writer.mount(&Mount::of(paris.nfs_address(), "/export"), MOUNT)?;
    reader.mount(&Mount::of(oslo.nfs_address(), "/export"), MOUNT)?;
    run(&writer, format!("yes old | head -c {BYTES} >/run/m/file"))?;
    reads_there(oslo, "at first", || {
        let compare = format!("{FORGET}; yes old | head -c {BYTES} | cmp - /run/m/file");
        run(&reader, compare).map(drop)
    })?;

    let mut hand = Hand::begin(oslo.site(), &reader, |script| script)?;
    hand.does(Act::Open("file".into(), Way::Read))?;
    // It has its layout, and reads by it.
    reads_there(oslo, "by its layout", || {
        run(&reader, FORGET)?;
        for at in [0, UNIT] {
            ensure!(read_at(&mut hand, at)? == "old\nold\n", "it is not old");
        }
        Ok(())
    })?;
    let others = [PLACES[0], PLACES[1]];
    for other in others {
        world.wan().link(other, PLACES[2])?.cut()?;
    }
    let change = format!("yes new | head -c {BYTES} | dd of=/run/m/file conv=notrunc,fsync");
    run(&writer, change)?;
    run(&reader, FORGET)?;
    // Through the layout, or through the member: nobody answers before it is back.
    hand.begins(&Act::ReadAt("file".into(), (BYTES as i64 / 2, 8)))?;
    for other in others {
        world.wan().link(other, PLACES[2])?.heal()?;
    }
    let read = hand.outcome()?;
    ensure!(read.as_deref() == Ok("new\nnew\n"), "{read:?} was read");
    hand.does(Act::Close("file".into()))?;
    reads_there(oslo, "when all is well again", || {
        let compare = format!("{FORGET}; yes new | head -c {BYTES} | cmp - /run/m/file");
        run(&reader, compare).map(drop)
    })?;
    drop(hand);
    writer.power_off()?;
    reader.power_off()?;
    for mut server in servers {
        let status = server.stop()?;
        ensure!(status.success(), "a server stopped with {status}");
    }
    Ok(())
}
