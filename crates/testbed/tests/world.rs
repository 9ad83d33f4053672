//! Three places 120 ms apart, each with a server and a real Linux client. The servers are
//! NFS-Ganeshas, which do not know each other: this tests the world, not the servers.

use std::time::Duration;

use anyhow::Result;
use testbed::{Ganesha, Guest, LinkSettings, Mount, Requirements, World, measure};

#[test]
fn places_far_apart_have_servers_and_clients_of_their_own() -> Result<()> {
    let test = "places far apart have servers and clients";
    let requirements = Requirements::guest().with_ganesha().with_wan();
    if !requirements.admit(test)? {
        return Ok(());
    }
    let far = LinkSettings::round_trip(Duration::from_millis(120));
    let world = World::new(&["paris", "oslo", "rome"], &far)?;
    for link in world.wan().links() {
        let (from, to) = (world.place(link.from())?, world.place(link.to())?);
        measure::round_trips(from.site(), to.site(), to.address(), 2)?;
    }

    let servers = world.everywhere(|place| {
        let exported = place.site().folder().join("exported");
        std::fs::create_dir(&exported)?;
        std::fs::write(exported.join("place"), place.name())?;
        Ganesha::start_at(place.site(), &exported, place.nfs_address())
    })?;
    let before = world.wan().traffic()?;
    let guests = world.everywhere(|place| {
        let guest = place.guest("alpha")?;
        let mount = Mount::of(place.nfs_address(), Ganesha::EXPORT);
        guest.mount(&mount, "/run/near")?;
        assert_eq!(
            guest.run("cat /run/near/place")?.success()?.text(),
            place.name()
        );
        Ok(guest)
    })?;
    let crossed = world.wan().traffic()? - before;
    assert_eq!(crossed.packets, 0, "clients meet their servers locally");

    a_client_reads_from_far_away(&world, &guests[0])?;
    for guest in guests {
        guest.power_off()?;
    }
    drop(servers);
    Ok(())
}

/// Paris mounts the server at Oslo and reads through a line that loses packets.
fn a_client_reads_from_far_away(world: &World, paris: &Guest) -> Result<()> {
    let oslo = world.place("oslo")?;
    let mount = Mount::of(oslo.nfs_address(), Ganesha::EXPORT);
    paris.mount(&mount, "/run/far")?;
    assert_eq!(paris.run("cat /run/far/place")?.success()?.text(), "oslo");

    let near = LinkSettings::round_trip(Duration::from_millis(2));
    world.wan().set(&near)?;
    let back = world.wan().link("oslo", "paris")?;
    back.set(&near.loss(0.01))?;
    let file = oslo.site().folder().join("exported/lines");
    let lines: String = (0..500_000).map(|number| format!("{number}\n")).collect();
    std::fs::write(&file, &lines)?;
    let read = paris.run("cat /run/far/lines")?.success()?;
    assert!(read.text() == lines, "the file is the same everywhere");
    assert!(back.traffic()?.dropped_packets > 0);
    Ok(())
}
