//! Clients whose server is lost, or sends them away, go on at another server of the set.
//!
//! What must never enter: how the servers agree that one of them is lost.

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use testbed::{Guest, Job, Signal};

use crate::inside::hand::{Act, Kind, Outcome, Range, Way};
use crate::scene::{Hand, MOUNT, NAMES, PATIENCE, Sites, UNCACHED, lines, more, program, whole};

const BUSY: Outcome = Err(Errno::EAGAIN as i32);

/// The service address that clients mount, and its server's site at the beginning, the one it moves to, and a third
/// one, whose server decides about the files of a story all the time.
const SERVICE: u8 = 1;
const FROM: usize = 0;
const TO: usize = 1;
const THIRD: usize = 2;

/// Where a client mounts the server that it will come to.
const SECOND: &str = "/run/second";

const LOCKED: Range = (10, 10);

fn take(file: &str, range: Range) -> Act {
    Act::TryLock(file.into(), Kind::Exclusive, range)
}

/// A client of the service address, with a file that it writes line by line, and another that it has locked.
struct Traveller {
    guest: Guest,
    journal: Job,
    hand: Hand,
    /// At the third site, with both files open.
    rival: Hand,
}

/// Begins the work of a traveller. The third site has its files open for writing from the beginning, so its
/// server decides about them, whatever happens to the traveller's.
fn begin(sites: &Sites) -> Result<Traveller> {
    let mut rival = sites.hand(THIRD)?;
    for file in ["journal", "ledger"] {
        rival.does(Act::Open(file.into(), Way::Write))?;
        rival.does(Act::WriteAt(file.into(), 0, "begun".into()))?;
        rival.does(Act::Sync(file.into()))?;
    }
    arrive(sites, rival)
}

/// The same with a rival who changes nothing, so that the traveller's own server decides about its files.
fn begin_at_home(sites: &Sites) -> Result<Traveller> {
    let traveller = arrive(sites, sites.hand(THIRD)?)?;
    let controls = sites.status(FROM)?.controls_total;
    ensure!(controls > 0, "somebody else decides about its files");
    Ok(traveller)
}

fn arrive(sites: &Sites, mut rival: Hand) -> Result<Traveller> {
    sites.wan().move_address(SERVICE, Some(NAMES[FROM]))?;
    let guest = sites.traveller(FROM, SERVICE)?;
    let mut hand = sites.hand_of(FROM, &guest)?;
    hand.does(Act::Open("ledger".into(), Way::Write))?;
    hand.does(Act::WriteAt("ledger".into(), 0, "here".into()))?;
    hand.does(Act::Sync("ledger".into()))?;
    hand.does(take("ledger", LOCKED))?;
    let journal = guest.start(program(["journal", &format!("{MOUNT}/journal")]))?;
    more(&journal)?;
    rival.does(Act::Open("ledger".into(), Way::Write))?;
    let stolen = rival.tries(take("ledger", LOCKED))?;
    ensure!(stolen == BUSY, "{stolen:?}");
    Ok(Traveller {
        guest,
        journal,
        hand,
        rival,
    })
}

impl Traveller {
    /// Fails unless work goes on, nobody else has had the lock, and it can be used and given back.
    fn goes_on(&mut self, sites: &Sites) -> Result<()> {
        more(&self.journal).context("the journal")?;
        let text = || "still here".to_owned();
        let write = Act::WriteAt("ledger".into(), 10, text());
        self.hand.does(write).context("under the lock")?;
        self.hand.does(Act::Sync("ledger".into()))?;
        let stolen = self.rival.tries(take("ledger", (19, 1)))?;
        ensure!(stolen == BUSY, "{stolen:?}");
        self.hand.does(Act::Unlock("ledger".into(), (0, 0)))?;
        self.rival.does(take("ledger", LOCKED))?;
        let read = self.rival.does(Act::ReadAt("ledger".into(), LOCKED))?;
        ensure!(read == text(), "{read}");

        self.journal.signal(Signal::KILL)?;
        let written = lines(&self.journal)?;
        self.journal
            .wait(PATIENCE)?
            .context("a killed program ends")?;
        let audit = |mount| program(["audit", &format!("{mount}/journal"), &written.to_string()]);
        self.guest.run(audit(MOUNT))?.success()?;
        sites.run(THIRD, audit(UNCACHED))?;
        Ok(())
    }
}

/// The client has mounted the other server too, to which it is one client then, not two.
pub fn a_client_of_a_killed_server_goes_on_at_another_one() -> Result<()> {
    let mut sites = whole()?;
    let mut traveller = begin(&sites)?;
    sites.mount_at(&traveller.guest, TO, SECOND)?;
    let text = "written at the other server";
    let file = format!("{SECOND}/elsewhere");
    let write = format!("echo {text} > {file}");
    traveller.guest.run(write)?.success()?;
    sites.kill_server(FROM)?;
    sites.wan().move_address(SERVICE, Some(NAMES[TO]))?;
    traveller.goes_on(&sites)?;
    let read = traveller.guest.run(format!("cat {file}"))?.success()?;
    ensure!(read.text().trim() == text, "{}", read.text());
    Ok(())
}

/// With `majority` the others take over what the killed server decided about, and the client sees no error.
pub fn a_client_goes_on_with_files_that_its_killed_server_decided_about() -> Result<()> {
    let mut sites = whole()?;
    sites.set_durability("majority")?;
    let mut traveller = begin_at_home(&sites)?;
    sites.kill_server(FROM)?;
    sites.wan().move_address(SERVICE, Some(NAMES[TO]))?;
    traveller.goes_on(&sites)
}

pub fn clients_of_a_drained_server_go_on_at_another_one() -> Result<()> {
    let sites = whole()?;
    let mut traveller = begin(&sites)?;
    let told = sites.drain(FROM, TO)?;
    ensure!(told.ends_with("the server has stopped\n"), "{told}");
    traveller.goes_on(&sites)?;
    // The usual client of that site holds nothing, and has gone too.
    sites.run(FROM, format!("test -s {MOUNT}/journal"))?;
    Ok(())
}
