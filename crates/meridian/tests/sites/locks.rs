//! Byte-range locks between clients of different servers.
//!
//! What must never enter: what locks of one server do among themselves.

use anyhow::{Result, ensure};
use nix::errno::Errno;
use testbed::Signal;

use crate::inside::hand::{Act, Kind, Outcome, Range, Way};
use crate::scene::{Hand, in_sites};

const BUSY: Outcome = Err(Errno::EAGAIN as i32);
const DONE: Outcome = Ok(String::new());

fn take(file: &str, range: Range) -> Act {
    Act::TryLock(file.into(), Kind::Exclusive, range)
}

fn open(hands: &mut [Hand], file: &str) -> Result<()> {
    for hand in hands {
        hand.does(Act::Open(file.into(), Way::Write))?;
    }
    Ok(())
}

pub fn a_lock_taken_at_one_site_blocks_the_others_until_it_is_given_back() -> Result<()> {
    let file = "locked";
    in_sites(|sites| {
        let mut hands = sites.hands()?;
        open(&mut hands, file)?;
        for holder in 0..hands.len() {
            let (tries, waits) = ((holder + 1) % hands.len(), (holder + 2) % hands.len());
            hands[holder].does(take(file, (10, 10)))?;
            hands[holder].does(Act::WriteAt(file.into(), 10, format!("by {holder}")))?;
            let stolen = hands[tries].tries(take(file, (19, 1)))?;
            ensure!(stolen == BUSY, "{stolen:?}");
            let obstacle = Act::TestLock(file.into(), Kind::Shared, (0, 0));
            let obstacle = hands[tries].does(obstacle)?;
            ensure!(obstacle == "exclusive 10 10", "{obstacle}");
            // Elsewhere in the file nobody is in the way.
            hands[tries].does(take(file, (0, 10)))?;

            hands[waits].begins(&Act::Lock(file.into(), Kind::Exclusive, (15, 100)))?;
            let unlock = Act::Unlock(file.into(), (0, 0));
            hands[holder].does(unlock.clone())?;
            let granted = hands[waits].outcome()?;
            ensure!(granted == DONE, "{granted:?}");
            let text = hands[waits].does(Act::ReadAt(file.into(), (10, 4)))?;
            ensure!(text == format!("by {holder}"), "{text}");
            let stolen = hands[holder].tries(take(file, (114, 1)))?;
            ensure!(stolen == BUSY, "{stolen:?}");
            hands[waits].does(unlock.clone())?;
            hands[tries].does(unlock)?;
        }
        Ok(())
    })
}

pub fn the_lock_of_a_process_killed_at_one_site_is_free_at_the_others() -> Result<()> {
    let file = "orphaned";
    in_sites(|sites| {
        let mut hands = sites.hands()?;
        open(&mut hands, file)?;
        hands[0].does(take(file, (0, 0)))?;
        hands[1].begins(&Act::Lock(file.into(), Kind::Exclusive, (0, 0)))?;
        hands[0].job.signal(Signal::KILL)?;
        let granted = hands[1].outcome()?;
        ensure!(granted == DONE, "{granted:?}");
        let stolen = hands[2].tries(take(file, (5, 5)))?;
        ensure!(stolen == BUSY, "{stolen:?}");
        Ok(())
    })
}
