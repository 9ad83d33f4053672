//! A site with two metadata servers, and a Linux client at each.
//!
//! What must never enter: data servers.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use server::{CopiesStatus, Status};
use testbed::{Guest, LinkSettings, Mount, Place, World};

use crate::hands::run;
use crate::scene::{MOUNT, eventually, meridian, on_data, peer_address, serve};

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
    let near = LinkSettings::round_trip(Duration::from_micros(200)).bandwidth(1_000_000_000);
    let world = World::new(&MACHINES, &near)?;
    let [names, other] = world.places() else {
        anyhow::bail!("there are two machines");
    };
    on_data(names).create(&["pool", "create"], peer_address(names))?;
    let mut servers = vec![serve(names)?];
    let invite = ["pool", "invite", "--metadata-server"];
    let join = ["pool", "join"];
    on_data(other).join(&on_data(names), &invite, &join, other.nfs_address())?;
    servers.push(serve(other)?);
    let (first, second) = (names.guest("first")?, other.guest("second")?);
    for (guest, place) in [(&first, names), (&second, other)] {
        guest.mount(&Mount::of(place.nfs_address(), "/export"), MOUNT)?;
    }
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
    for guest in [first, second] {
        guest.power_off()?;
    }
    for mut server in servers {
        let status = server.stop()?;
        ensure!(status.success(), "a server stopped with {status}");
    }
    Ok(())
}
