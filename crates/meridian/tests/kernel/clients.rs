//! Clients that die or lose their cable while they hold locks.

use anyhow::{Result, ensure};
use nix::errno::Errno;
use testbed::Guest;

use crate::inside::hand::{Act, Kind, Way};
use crate::scene::{MOUNT, OPEN_EXPORT, SHORT_LEASE, Scene, eventually, run};

fn whole(file: &str) -> Act {
    Act::TryLock(file.into(), Kind::Exclusive, (0, 0))
}

pub fn the_locks_of_a_dead_client_stand_until_its_lease_ends() -> Result<()> {
    let scene = Scene::with(&[OPEN_EXPORT, SHORT_LEASE])?;
    let alpha = scene.guest("alpha")?;
    let beta = scene.guest("beta")?;
    let (mut doomed, mut heir) = (scene.hand(&alpha)?, scene.hand(&beta)?);
    for hand in [&mut doomed, &mut heir] {
        hand.does(Act::Open("f".into(), Way::Write))?;
    }
    doomed.does(whole("f"))?;
    alpha.crash();
    let refused = heir.tries(whole("f"))?;
    assert_eq!(
        refused,
        Err(Errno::EAGAIN as i32),
        "a lock vanished before its lease"
    );
    heir.does(Act::Lock("f".into(), Kind::Exclusive, (0, 0)))?;

    // A client that comes back after its death takes nobody's lock away and works.
    let reborn = scene.guest("alpha")?;
    let mut hand = scene.hand(&reborn)?;
    hand.does(Act::Open("f".into(), Way::Write))?;
    assert_eq!(hand.tries(whole("f"))?, Err(Errno::EAGAIN as i32));
    heir.does(Act::Close("f".into()))?;
    hand.does(whole("f"))?;
    reborn.power_off()?;
    beta.power_off()
}

/// Anybody can say another client's name. A machine that was restarted with a new address only has to wait; another machine
/// of that name is refused, and takes nothing away.
pub fn a_name_in_use_is_given_to_no_other_address_before_its_lease_ends() -> Result<()> {
    let scene = Scene::with(&[OPEN_EXPORT, SHORT_LEASE])?;
    let alpha = scene.guest("alpha")?;
    let mut doomed = scene.hand(&alpha)?;
    doomed.does(Act::Open("f".into(), Way::Write))?;
    doomed.does(whole("f"))?;
    let address = alpha.address();
    alpha.crash();

    let reborn = scene.guest("alpha")?;
    ensure!(reborn.address() != address, "it came back where it was");
    let mut hand = scene.hand(&reborn)?;
    hand.does(Act::Open("f".into(), Way::Write))?;
    hand.does(whole("f"))?;

    let twin = Guest::boot(&scene.site, "beta")?;
    run(&twin, "echo alpha > /proc/sys/kernel/hostname")?;
    let refused = twin.try_mount(&scene.mount(), MOUNT)?;
    let told = refused.error_text().contains("Operation not permitted");
    ensure!(told, "it was not refused: {refused:?}");
    hand.does(Act::WriteAt("f".into(), 0, "mine".into()))?;
    hand.does(Act::Sync("f".into()))?;
    run(&twin, "echo beta > /proc/sys/kernel/hostname")?;
    twin.mount(&scene.mount(), MOUNT)?;
    let mut other = scene.hand(&twin)?;
    other.does(Act::Open("f".into(), Way::Write))?;
    assert_eq!(other.tries(whole("f"))?, Err(Errno::EAGAIN as i32));
    reborn.power_off()?;
    twin.power_off()
}

/// A process that takes a lock, waits until the guest has a file /run/go, writes, and reads.
const LOCKED_SHELL: &str = "
exec 5<>/run/m/f
flock -x 5 || exit 9
echo held
until [ -e /run/go ]; do sleep 0.2; done
echo late >&5
exec 5>&-
sync /run/m/f
cat /run/m/f";

/// The story's own connection to a process in the guest hangs on the same cable, so the process that
/// holds the lock is a shell: it writes to its locked file when a file appears in the guest.
pub fn a_client_without_a_cable_loses_its_lock_and_learns_it() -> Result<()> {
    let scene = Scene::with(&[OPEN_EXPORT, SHORT_LEASE])?;
    let alpha = scene.guest("alpha")?;
    let beta = scene.guest("beta")?;
    let holder = alpha.start(LOCKED_SHELL)?;
    eventually("the lock", || Ok(holder.stdout_so_far()? == b"held\n"))?;
    let mut heir = scene.hand(&beta)?;
    heir.does(Act::Open("f".into(), Way::Write))?;
    assert_eq!(heir.tries(whole("f"))?, Err(Errno::EAGAIN as i32));
    alpha.unplug()?;
    heir.does(Act::Lock("f".into(), Kind::Exclusive, (0, 0)))?;
    heir.does(Act::WriteAt("f".into(), 0, "the heir's".into()))?;
    heir.does(Act::Sync("f".into()))?;
    alpha.plug()?;
    eventually("the client is back", || {
        Ok(alpha.run("ls /run/m")?.text() == "f\n")
    })?;
    run(&alpha, "touch /run/go")?;
    let output = crate::scene::finish(&holder)?;
    ensure!(
        output.error_text().contains("Input/output error"),
        "the old holder was not told: {output:?}"
    );
    assert_eq!(
        output.text(),
        "held\nthe heir's",
        "it overwrote what the heir had written"
    );
    // It works on as a new client, and the heir's lock stands.
    let again = run(
        &alpha,
        "echo fresh > /run/m/g; flock -n -E 99 /run/m/f true; echo $?",
    )?;
    assert_eq!(again.text(), "99\n");
    alpha.unmount(MOUNT)?;
    alpha.power_off()?;
    beta.power_off()
}

/// The first of the edge conditions in RFC 8881, section 8.4.3: a client loses its lock unawares, another has
/// it and gives it back, and the server restarts. The first client must not get the lock back as if
/// nothing had happened, for the file has changed.
pub fn a_lock_that_was_lost_cannot_be_reclaimed_after_a_restart() -> Result<()> {
    let mut scene = Scene::with(&[OPEN_EXPORT, SHORT_LEASE])?;
    let alpha = scene.guest("alpha")?;
    let beta = scene.guest("beta")?;
    let holder = alpha.start(LOCKED_SHELL)?;
    eventually("the lock", || Ok(holder.stdout_so_far()? == b"held\n"))?;
    alpha.unplug()?;
    let mut other = scene.hand(&beta)?;
    other.does(Act::Open("f".into(), Way::Write))?;
    other.does(Act::Lock("f".into(), Kind::Exclusive, (0, 0)))?;
    other.does(Act::WriteAt("f".into(), 0, "changed".into()))?;
    other.does(Act::Close("f".into()))?;
    scene.crash_server()?;
    alpha.plug()?;
    eventually("the client is back", || {
        Ok(alpha.run("ls /run/m")?.text() == "f\n")
    })?;
    run(&alpha, "touch /run/go")?;
    let output = crate::scene::finish(&holder)?;
    let told = output.error_text().contains("Input/output error");
    ensure!(told, "the old holder was not told: {output:?}");
    assert_eq!(output.text(), "held\nchanged");
    alpha.power_off()?;
    beta.power_off()
}
