//! Files that are open at some sites and removed, or replaced by a rename, at another.
//!
//! What must never enter: servers that are lost meanwhile.

use anyhow::{Context, Result, ensure};

use crate::inside::hand::{Act, Kind, Way};
use crate::scene::{Hand, NAMES, Sites, UNCACHED, eventually, in_sites};

const ROUNDS: usize = 3;

/// A client caches no attributes at this mount, so it reads what the server has.
fn open_file() -> String {
    format!("{UNCACHED}/removed/file")
}

fn write_and_sync(hand: &mut Hand, text: &str) -> Result<()> {
    hand.does(Act::WriteAt(open_file(), 0, text.into()))?;
    hand.does(Act::Sync(open_file())).map(drop)
}

/// Under a lock: Linux reads a file that it has open for writing from its own cache until it takes one.
fn reads(hand: &mut Hand, text: &str) -> Result<()> {
    let all = (0, 0);
    hand.does(Act::TryLock(open_file(), Kind::Shared, all))?;
    let seen = hand.does(Act::ReadAt(open_file(), (0, 100)))?;
    hand.does(Act::Unlock(open_file(), all))?;
    ensure!(seen == text, "'{seen}' instead of '{text}'");
    Ok(())
}

/// Fails unless a site keeps files without a name at last. Where a busy machine lets a control stay, another site than the remover's decides.
fn some_site_keeps_files(sites: &Sites) -> Result<()> {
    eventually("a site keeps files without a name", || {
        let mut kept = 0;
        for site in 0..NAMES.len() {
            kept += sites.orphans(site)?;
        }
        Ok(kept > 0)
    })
}

/// Fails unless a site keeps no file without a name at last.
fn keeps_no_files(sites: &Sites, site: usize) -> Result<()> {
    let what = format!("{} keeps no files without a name", NAMES[site]);
    eventually(&what, || Ok(sites.orphans(site)? == 0))
}

/// Read, write and fsync through the descriptor got ESTALE, and what was kept stayed until the server was started anew.
pub fn what_one_site_removes_or_replaces_stays_open_at_the_others() -> Result<()> {
    in_sites(|sites| {
        sites.run(0, "mkdir /run/m/removed")?;
        let mut hands = sites.hands()?;
        for round in 0..ROUNDS {
            // The remover is at each site once; first with a file that nobody controls any more, then with files that were just made.
            hands.rotate_left(1);
            let remover = (round + 1) % NAMES.len();
            let about = || format!("round {round}, removed at {}", NAMES[remover]);
            tell_round(sites, &mut hands, round).with_context(about)?;
        }
        Ok(())
    })
}

/// The first hand removes; the other two have the file open.
fn tell_round(sites: &Sites, hands: &mut [Hand], round: usize) -> Result<()> {
    let [first, one, other] = hands else {
        unreachable!("there are three sites")
    };
    let (name, new) = ("removed/file".to_owned(), "removed/new".to_owned());
    first.does(Act::WriteFile(name.clone(), "before".into()))?;
    if round < ROUNDS / 2 {
        sites.quiet()?;
    }
    for user in [&mut *one, &mut *other] {
        user.does(Act::Open(open_file(), Way::Write))?;
        reads(user, "before")?;
    }
    let replaces = round.is_multiple_of(2);
    if replaces {
        first.does(Act::WriteFile(new.clone(), "another".into()))?;
        first.does(Act::Rename(new, name.clone()))?;
    } else {
        first.does(Act::Remove(name.clone()))?;
    }
    write_and_sync(one, "behind")?;
    reads(other, "behind")?;
    write_and_sync(other, "after!")?;
    reads(one, "after!")?;
    sites.quiet()?;
    some_site_keeps_files(sites)?;
    write_and_sync(one, "later!")?;
    one.does(Act::Close(open_file()))?;
    reads(other, "later!")?;
    write_and_sync(other, "at last")?;
    reads(other, "at last")?;
    other.does(Act::Close(open_file()))?;
    (0..NAMES.len()).try_for_each(|site| keeps_no_files(sites, site))?;
    if replaces {
        let text = first.does(Act::ReadFile(name.clone()))?;
        ensure!(text == "another", "the new file has '{text}'");
        first.does(Act::Remove(name))?;
    }
    sites.equal_everywhere("removed").map(drop)
}
