//! A pool with Linux clients at both of its metadata servers, when a data server's disk is full, and when a client keeps its layout because nobody
//! can reach it.
//!
//! What must never enter: what a pool without such trouble shows (`pool`), and servers that are killed.

use anyhow::{Context, Result, ensure};
use testbed::{Guest, Mount, Place, Service, World};

use crate::hands::{Hand, run};
use crate::inside::hand::{Act, Way};
use crate::pool::{Doing, FORGET, data_servers, moved, two_of_each};
use crate::scene::{MOUNT, eventually, serve_with};

/// The bytes of the files: some stripes at each data server.
const BYTES: u64 = 1_000_000;
/// What lies together.
const UNIT: u64 = 64 << 10;

/// Two metadata servers with directories of their own, each with a client, and two data servers.
struct Scene {
    /// In the order of their places.
    servers: Vec<Service>,
    /// The client of the first metadata server, and that of the other one.
    guests: [Guest; 2],
    world: World,
}

impl Scene {
    fn set_up() -> Result<Self> {
        let (world, servers) = two_of_each()?;
        let [names, other, ..] = world.places() else {
            anyhow::bail!("there are two metadata servers");
        };
        let guests = [names.guest("first")?, other.guest("second")?];
        for (guest, place) in guests.iter().zip([names, other]) {
            guest.mount(&Mount::of(place.nfs_address(), "/export"), MOUNT)?;
            // Each directory lives at the server of the client that makes it.
            run(guest, format!("mkdir /run/m/{}", guest.name()))?;
        }
        Ok(Self {
            servers,
            guests,
            world,
        })
    }

    fn names(&self) -> &Place {
        &self.world.places()[0]
    }

    /// Starts the second data server anew, with these lines of configuration.
    fn start_anew(&mut self, configuration: &str) -> Result<()> {
        let stopped = self.servers[3].stop()?;
        ensure!(stopped.success(), "a data server stopped with {stopped}");
        self.servers[3] = serve_with(&self.world.places()[3], configuration)?;
        Ok(())
    }

    /// Waits until the second data server serves, and gets new files or not.
    fn until_new_files(&self, lie_there: bool) -> Result<()> {
        eventually("the pool knows how much space there is", || {
            let second = data_servers(self.names())?.remove(1);
            Ok(second.serves && second.new_files == lie_there)
        })
    }

    fn end_well(self) -> Result<()> {
        for guest in self.guests {
            guest.power_off()?;
        }
        for mut server in self.servers {
            let status = server.stop()?;
            ensure!(status.success(), "a server stopped with {status}");
        }
        Ok(())
    }
}

/// Programs are told that there is no space, lose nothing else by that, and go on when there is space again.
pub fn linux_is_told_that_a_data_server_is_full_and_works_when_it_is_not() -> Result<()> {
    let mut scene = Scene::set_up()?;
    for guest in &scene.guests {
        let (name, bytes) = (guest.name(), format!("head -c {BYTES} /dev/urandom"));
        let make = format!("{bytes} >/run/bytes; {bytes} >/run/others");
        run(guest, make)?;
        run(guest, format!("cp /run/bytes /run/m/{name}/kept"))?;
    }
    let holding = data_servers(scene.names())?.remove(1).holding;
    let available = holding
        .context("a data server says what it has")?
        .available_bytes;
    let reserve = (available / 2 * 3) >> 10;
    scene.start_anew(&format!("[store]\nreserve = \"{reserve} KiB\"\n"))?;
    scene.until_new_files(false)?;
    for guest in &scene.guests {
        let name = guest.name();
        let write = format!("dd if=/run/others of=/run/m/{name}/kept bs=64K conv=notrunc,fsync");
        let output = guest.run(write.as_str())?;
        ensure!(
            output.code != 0 && output.error_text().contains("No space left on device"),
            "writing to a full data server at {name}: {output:?}"
        );
        // What lies at the full one is as it was, what lies at the other one is new, and all of it is read.
        let stripes = format!(
            "{FORGET}; test $(stat -c %s /run/m/{name}/kept) = {BYTES} && split -b {UNIT} /run/m/{name}/kept /run/found. &&
             split -b {UNIT} /run/bytes /run/before. && split -b {UNIT} /run/others /run/after. &&
             for part in /run/found.*; do tail=${{part#/run/found.}};
               cmp -s $part /run/before.$tail || cmp -s $part /run/after.$tail || exit 1; done"
        );
        run(guest, stripes)?;
        // New files avoid it, and what is there can be removed.
        let next = format!(
            "cp /run/bytes /run/m/{name}/next && {FORGET} && cmp /run/bytes /run/m/{name}/next"
        );
        run(guest, next)?;
        run(
            guest,
            format!("cp /run/m/{name}/kept /run/kept; rm /run/m/{name}/next"),
        )?;
    }
    scene.start_anew("")?;
    scene.until_new_files(true)?;
    for guest in &scene.guests {
        let name = guest.name();
        let compare = format!("{FORGET}; cmp /run/kept /run/m/{name}/kept");
        run(guest, compare)?;
        run(guest, format!("cp /run/others /run/m/{name}/kept"))?;
        run(
            guest,
            format!("{FORGET}; cmp /run/others /run/m/{name}/kept"),
        )?;
    }
    scene.end_well()
}

/// A client that has opened a file, and has read it by its layout.
fn reading(scene: &Scene, at: usize, file: &str) -> Result<Hand> {
    let (guest, place) = (&scene.guests[at], &scene.world.places()[at]);
    let mut hand = Hand::begin(place.site(), guest, |script| script)?;
    hand.does(Act::Open(file.into(), Way::Write))?;
    let before = moved(scene.names(), Doing::Reading)?;
    eventually("it reads at both data servers", || {
        run(guest, FORGET)?;
        for stripe in 0..4 {
            let read = hand.does(Act::ReadAt(file.into(), ((stripe * UNIT) as i64, 4)))?;
            ensure!(read == "old\n", "'{read}' was read");
        }
        let mut counts = moved(scene.names(), Doing::Reading)?
            .into_iter()
            .zip(&before);
        Ok(counts.all(|(after, before)| after > *before))
    })?;
    Ok(hand)
}

/// Others get on without it, and when it is back it reads what they made, and what it writes then is there.
pub fn a_linux_client_that_cannot_return_its_layout_reads_nothing_old_when_it_is_back() -> Result<()>
{
    let scene = Scene::set_up()?;
    for away in [0, 1] {
        let (guest, other) = (&scene.guests[away], &scene.guests[1 - away]);
        for lives in &scene.guests {
            let file = format!("{}/of-{}", lives.name(), guest.name());
            run(guest, format!("yes old | head -c {BYTES} >/run/m/{file}"))?;
            let mut hand = reading(&scene, away, &file)?;
            guest.unplug()?;
            let change = format!(
                "yes new | head -c {BYTES} | dd of=/run/m/{file} bs=64K conv=notrunc,fsync"
            );
            let changed = run(other, change);
            guest.plug()?;
            changed?;
            run(guest, "echo 3 >/proc/sys/vm/drop_caches")?;
            for stripe in 0..4 {
                let read = hand.does(Act::ReadAt(file.clone(), ((stripe * UNIT) as i64, 4)))?;
                ensure!(read == "new\n", "'{read}' was read of {file}");
            }
            hand.does(Act::WriteAt(file.clone(), UNIT, "back\n".into()))?;
            hand.does(Act::Sync(file.clone()))?;
            hand.does(Act::Close(file.clone()))?;
            let read = format!("{FORGET}; tail -c +{} /run/m/{file} | head -c 8", UNIT + 1);
            let read = run(other, read)?.text();
            ensure!(read.trim_end() == "back\new", "'{read}' was read of {file}");
        }
    }
    scene.end_well()
}
