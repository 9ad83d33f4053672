//! Users without privileges.

use anyhow::Result;
use nix::errno::Errno;

use crate::inside::hand::{Act, Way};
use crate::scene::{Hand, Scene};

/// An error number as a hand reports it.
fn error(number: Errno) -> i32 {
    number as i32
}

fn denied(hand: &mut Hand, act: Act, why: Errno) -> Result<()> {
    let shown = format!("{act:?}");
    assert_eq!(hand.tries(act)?, Err(error(why)), "{shown}");
    Ok(())
}

pub fn modes_and_groups_decide_who_may_do_what() -> Result<()> {
    let scene = Scene::open()?;
    let guest = scene.guest("alpha")?;
    let mut root = scene.hand(&guest)?;
    let mut owner = scene.hand_of(&guest, |script| script.user(1000, 1000))?;
    let mut member = scene.hand_of(&guest, |script| {
        script.user(1001, 1001).groups(&[7, 2000, 9])
    })?;
    let mut other = scene.hand_of(&guest, |script| script.user(1002, 1002))?;
    let d = |name: &str| format!("d/{name}");

    root.does(Act::MakeDirectory("d".into()))?;
    root.does(Act::SetOwner("d".into(), 1000, 2000))?;
    root.does(Act::SetMode("d".into(), 0o770))?;
    owner.does(Act::WriteFile(d("f"), "secret".into()))?;
    member.does(Act::WriteFile(d("g"), "members' own".into()))?;
    assert_eq!(member.does(Act::Stat(d("g")))?, "100644 1001 1001 1 12");
    denied(&mut other, Act::List("d".into()), Errno::EACCES)?;
    denied(&mut other, Act::ReadFile(d("f")), Errno::EACCES)?;
    denied(&mut other, Act::CreateNew(d("h")), Errno::EACCES)?;

    // The file's own mode counts once the folder lets one in.
    owner.does(Act::SetMode(d("f"), 0o640))?;
    denied(&mut member, Act::ReadFile(d("f")), Errno::EACCES)?;
    denied(&mut member, Act::SetMode(d("f"), 0o666), Errno::EPERM)?;
    denied(&mut owner, Act::SetOwner(d("f"), 1001, 1001), Errno::EPERM)?;
    root.does(Act::SetOwner(d("f"), 1000, 2000))?;
    assert_eq!(member.does(Act::ReadFile(d("f")))?, "secret");
    denied(&mut member, Act::Open(d("f"), Way::Write), Errno::EACCES)?;
    // Who may write to a folder may remove what others have put there.
    member.does(Act::Remove(d("f")))?;
    assert_eq!(root.does(Act::List("d".into()))?, "g");

    // Search without reading: names must be known.
    root.does(Act::SetMode("d".into(), 0o711))?;
    assert_eq!(other.does(Act::ReadFile(d("g")))?, "members' own");
    denied(&mut other, Act::List("d".into()), Errno::EACCES)?;
    denied(&mut other, Act::Remove(d("g")), Errno::EACCES)?;

    // An open file stays usable when its mode changes.
    member.does(Act::Open(d("g"), Way::Write))?;
    root.does(Act::SetMode(d("g"), 0))?;
    member.does(Act::WriteAt(d("g"), 0, "still".into()))?;
    member.does(Act::Sync(d("g")))?;
    member.does(Act::Close(d("g")))?;
    denied(&mut member, Act::ReadFile(d("g")), Errno::EACCES)?;
    assert_eq!(root.does(Act::ReadFile(d("g")))?, "stillrs' own");
    guest.power_off()
}

pub fn sticky_and_set_group_id_directories_work() -> Result<()> {
    let scene = Scene::open()?;
    let guest = scene.guest("alpha")?;
    let mut root = scene.hand(&guest)?;
    let mut one = scene.hand_of(&guest, |script| script.user(1000, 1000).groups(&[2000]))?;
    let mut two = scene.hand_of(&guest, |script| script.user(1001, 1001).groups(&[2000]))?;

    root.does(Act::MakeDirectory("tmp".into()))?;
    root.does(Act::SetMode("tmp".into(), 0o1777))?;
    one.does(Act::CreateNew("tmp/f".into()))?;
    two.does(Act::CreateNew("tmp/g".into()))?;
    denied(&mut two, Act::Remove("tmp/f".into()), Errno::EPERM)?;
    denied(
        &mut two,
        Act::Rename("tmp/f".into(), "tmp/h".into()),
        Errno::EPERM,
    )?;
    denied(
        &mut two,
        Act::Rename("tmp/g".into(), "tmp/f".into()),
        Errno::EPERM,
    )?;
    one.does(Act::Rename("tmp/f".into(), "tmp/h".into()))?;
    one.does(Act::Remove("tmp/h".into()))?;
    root.does(Act::Remove("tmp/g".into()))?;

    root.does(Act::MakeDirectory("team".into()))?;
    root.does(Act::SetOwner("team".into(), 0, 2000))?;
    root.does(Act::SetMode("team".into(), 0o2775))?;
    one.does(Act::CreateNew("team/f".into()))?;
    assert_eq!(
        one.does(Act::Stat("team/f".into()))?,
        "100644 1000 2000 1 0"
    );
    one.does(Act::MakeDirectory("team/d".into()))?;
    let inner = one.does(Act::Stat("team/d".into()))?;
    assert!(inner.starts_with("42755 1000 2000 2 "), "{inner}");

    // The set-user-id bit goes when somebody else writes.
    root.does(Act::SetMode("team/f".into(), 0o6777))?;
    two.does(Act::WriteFile("team/f".into(), "changed".into()))?;
    assert_eq!(
        two.does(Act::Stat("team/f".into()))?,
        "100777 1000 2000 1 7"
    );
    guest.power_off()
}
