//! Three places 120 ms apart, each with a server and a real Linux client. The servers are
//! NFS-Ganeshas, which know nothing of each other: this is about the world, not about them.

use std::time::Duration;

use anyhow::Result;
use testbed::{Ganesha, LinkSettings, Mount, Requirements, World, measure};

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

    // A client also reaches the server of another place, over the WAN.
    let neighbour = world.place("oslo")?;
    let mount = Mount::of(neighbour.nfs_address(), Ganesha::EXPORT);
    guests[0].mount(&mount, "/run/far")?;
    assert_eq!(
        guests[0].run("cat /run/far/place")?.success()?.text(),
        "oslo"
    );
    let crossed = world.wan().link("paris", "oslo")?.traffic()?;
    assert!(crossed.packets > 0);
    assert_eq!(
        world
            .wan()
            .link("paris", "rome")?
            .traffic()?
            .dropped_packets,
        0
    );

    for guest in guests {
        guest.power_off()?;
    }
    drop(servers);
    Ok(())
}
