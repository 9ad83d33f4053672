//! One server: its process, its disk, and the answers to `meridian status`.
//!
//! What must never enter: the other sites.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::{Meridian, Place, Role, Service, Signal};

use super::clock::{Clock, Jumps};
use super::disk::Disk;
use super::plan::Plan;

/// Short, so that what a dead client held is soon free.
const LEASE: &str = "[time]\nlease_seconds = 10\n";

/// The number of log lines that show why a server has ended.
const LOG_LINES: usize = 12;

/// A process that is told to end this soon after its start may not handle the signal yet.
const SETTING_UP: Duration = Duration::from_secs(1);

/// The port at which the data servers of a member's pool reach it.
const POOL_PORT: u16 = Meridian::PEER_PORT + 1;

/// Small, so that files of runs lie on several data servers.
const STRIPE_UNIT: [&str; 2] = ["--stripe-unit", "64 KiB"];

/// A server is restarted if its removal is refused for this long.
const HANDS_OVER_AFTER: Duration = Duration::from_secs(30);

/// The state of a server's removal from the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removal {
    /// No removal is planned, or the server is gone.
    None,
    /// It has to be removed, and is not removed yet.
    Due,
    /// It was removed, and runs.
    Done,
}

/// A server, running or not.
#[derive(Debug)]
pub struct Server {
    place: Place,
    meridian: Meridian,
    /// Its configuration.
    configuration: String,
    disk: Disk,
    service: Service,
    /// Its role.
    role: Role,
    /// Its time of day may jump while it runs.
    jumps: Option<Jumps>,
    /// It was killed on purpose and has not been started since.
    is_down: bool,
    /// All its data are gone, and it is not replaced yet.
    is_lost: bool,
    /// Its data were put back to a copy, and it has not been replaced since.
    was_put_back: bool,
    /// The state of its removal from the set.
    removal: Removal,
    /// What its replacement waits for, as a text.
    pub waits_for: String,
    /// Since when its removal is refused.
    refused: Option<Instant>,
    began: Instant,
}

impl Server {
    /// Makes a server a member of the set or pool that `inviter` began, or begins one, and starts it.
    pub fn set_up(
        number: usize,
        place: &Place,
        plan: &Plan,
        disk: Disk,
        inviter: Option<&Server>,
    ) -> Result<Self> {
        let role = plan.kind.role(number, plan.sites);
        let meridian = Meridian::new(place.site(), plan.program, disk.data());
        match inviter {
            None => begin(place, &meridian, role)?,
            Some(inviter) => meridian.join(&inviter.handle(), role, address_of(place, role))?,
        }
        if plan.kind.has_own_pool(number) {
            meridian.begin_pool(&STRIPE_UNIT, place.at(POOL_PORT))?;
        }
        let folder = place.site().folder();
        let configuration = format!("{}{LEASE}{}", Meridian::OPEN, plan.settings);
        let jumps = plan.jumps.then(|| Jumps::in_folder(folder)).transpose()?;
        let listen = place.nfs_address().to_string();
        let clock = Clock::True.environment(folder, jumps.as_ref())?;
        let started = meridian.clone().with_environment(clock);
        let service = started.start("meridian", &listen, &configuration)?;
        let mut server = Self {
            place: place.clone(),
            meridian,
            configuration,
            disk,
            service,
            role,
            jumps,
            is_down: false,
            is_lost: false,
            was_put_back: false,
            removal: Removal::None,
            waits_for: String::new(),
            refused: None,
            began: Instant::now(),
        };
        match role {
            Role::Witness => server.service.wait_for_port(place.nfs_address())?,
            _ => server.service.wait_for_nfs(place.nfs_address())?,
        }
        Ok(server)
    }

    /// Kills it, and deletes all its data.
    pub fn lose(&mut self) -> Result<()> {
        self.kill()?;
        (self.is_lost, self.removal) = (true, Removal::None);
        Ok(fs::remove_dir_all(self.disk.data())?)
    }

    /// Whether its data are lost and it is not replaced yet.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Tells it to end, before its removal.
    pub fn leave(&mut self) -> Result<()> {
        self.expect_removal();
        self.stop()
    }

    /// It has to be removed while it runs.
    pub fn expect_removal(&mut self) {
        self.removal = Removal::Due;
    }

    /// Whether it has to be removed and is not removed yet.
    pub fn is_leaving(&self) -> bool {
        self.removal == Removal::Due
    }

    /// It was removed, and runs.
    pub fn expelled(&mut self) {
        self.removal = Removal::Done;
    }

    /// Whether it was removed while it ran, and is not replaced yet.
    pub fn is_expelled(&self) -> bool {
        self.removal == Removal::Done
    }

    /// Handles the answer to its removal. If it is removed, its data are deleted. If the removal is refused for long, the server has something
    /// that no other server has: it is restarted to hand that over, and told to end again when it takes part.
    pub fn removed(&mut self, outcome: Result<String>) -> Result<()> {
        let Err(error) = outcome else {
            self.refused = None;
            return self.lose();
        };
        self.wait_for(format!("`meridian set remove` is refused: {error:#}"));
        let refused = *self.refused.get_or_insert_with(Instant::now);
        if refused.elapsed() > HANDS_OVER_AFTER {
            self.refused = None;
            self.wait_for("the server, to hand over what it alone has".to_owned());
            self.start(Clock::True)?;
        }
        Ok(())
    }

    /// Notes what its replacement waits for, and prints it if it has changed.
    pub fn wait_for(&mut self, what: String) {
        if self.waits_for != what {
            eprintln!("nemesis: {}: waits for this: {what}", self.place.name());
            self.waits_for = what;
        }
    }

    /// Whether it was killed or told to end, and not started since.
    pub fn is_down(&self) -> bool {
        self.is_down
    }

    /// Copies its data while its process is stopped for a moment, as a snapshot of its machine would.
    pub fn copy_data(&mut self) -> Result<()> {
        self.service.signal(Signal::STOP)?;
        let copied = copy(&self.disk.data(), &self.copy());
        self.service.signal(Signal::CONT)?;
        copied
    }

    /// Whether there is such a copy that it was not yet put back to.
    pub fn has_copy(&self) -> bool {
        self.copy().exists()
    }

    /// Kills it, puts its data back to the copy, and starts it.
    pub fn put_back(&mut self) -> Result<()> {
        self.kill()?;
        fs::remove_dir_all(self.disk.data())?;
        copy(&self.copy(), &self.disk.data())?;
        fs::remove_dir_all(self.copy())?;
        self.was_put_back = true;
        self.start(Clock::True)
    }

    /// Whether it was put back, and was not replaced since.
    pub fn was_put_back(&self) -> bool {
        self.was_put_back
    }

    /// Kills it, before its data are replaced.
    pub fn give_up(&mut self) -> Result<()> {
        self.is_lost = true;
        self.kill()
    }

    fn copy(&self) -> PathBuf {
        self.place.site().folder().join("copy-of-data")
    }

    /// A new server joins the set in its place.
    pub fn replace(&mut self, inviter: &Server) -> Result<()> {
        let address = address_of(&self.place, self.role);
        match self.was_put_back {
            true => self
                .meridian
                .rejoin(&inviter.handle(), self.role, address)?,
            false => self.meridian.join(&inviter.handle(), self.role, address)?,
        }
        (self.is_lost, self.was_put_back) = (false, false);
        self.wait_for("the tree, and all others in the view".to_owned());
        self.start(Clock::True)
    }

    /// Its place.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Its disk.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// For requests to it. A stopped server does not answer, so requests have a time limit.
    pub fn handle(&self) -> Meridian {
        self.meridian.clone().through(["timeout", "5"])
    }

    /// Kills it as `kill -9` does.
    pub fn kill(&mut self) -> Result<()> {
        self.is_down = true;
        self.service.kill()
    }

    /// Tells it to end, and waits until it has ended; its exit status must be a success.
    pub fn stop(&mut self) -> Result<()> {
        self.is_down = true;
        let is_new = self.began.elapsed() < SETTING_UP;
        let status = self.service.stop()?;
        ensure!(
            status.success() || (is_new && status.signal().is_some()),
            "told to end, the server ended with {status}"
        );
        Ok(())
    }

    /// Starts it with this clock.
    pub fn start(&mut self, clock: Clock) -> Result<()> {
        let listen = self.place.nfs_address().to_string();
        if let Some(jumps) = &self.jumps {
            jumps.set(0)?;
        }
        let folder = self.place.site().folder();
        let clock = clock.environment(folder, self.jumps.as_ref())?;
        let meridian = self.meridian.clone().with_environment(clock);
        self.service.kill()?;
        self.service = meridian.start("meridian", &listen, &self.configuration)?;
        self.is_down = false;
        self.began = Instant::now();
        Ok(())
    }

    /// Makes the time of day of the running server wrong by this many seconds.
    pub fn jump(&self, seconds: i64) -> Result<()> {
        let jumps = self.jumps.as_ref();
        jumps.context("its clock cannot jump")?.set(seconds)
    }

    /// Stops the process, or lets it continue.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        match self.is_down || self.service.ended()?.is_some() {
            true => Ok(()),
            false => self.service.signal(signal),
        }
    }

    /// Whether it has ended by itself, with its exit status and the end of its log.
    pub fn collapse(&mut self) -> Result<Option<String>> {
        if self.is_down {
            return Ok(None);
        }
        let Some(status) = self.service.ended()? else {
            return Ok(None);
        };
        let log = fs::read(self.service.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).replace('\r', "");
        let lines: Vec<&str> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        Ok(Some(format!("{status}; the end of its log:\n{end}")))
    }

    /// Kills it, and returns the errors that `meridian check` finds in its data, if any.
    pub fn check(&mut self) -> Result<Option<String>> {
        self.kill()?;
        let output = self.meridian.command(&["check"]).output();
        let output = output.context("could not start the check")?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        Ok((!output.status.success()).then(|| format!("{}: {said}", output.status)))
    }

    /// Copies its data into a folder, for later inspection.
    pub fn keep_data(&self, folder: &Path) -> Result<()> {
        let mut command = Command::new("cp");
        command.args(["-a", "--sparse=always"]);
        command.arg(self.disk.data());
        command.arg(folder.join(format!("data-{}", self.place.name())));
        succeed(&mut command).map(drop)
    }

    /// Copies its log into a folder.
    pub fn keep_log(&self, folder: &Path) -> Result<()> {
        let name = format!("{}.log", self.place.name());
        fs::copy(self.service.log(), folder.join(name))?;
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut command = Command::new("cp");
    command.args(["-a", "--sparse=always"]);
    succeed(command.arg(from).arg(to)).map(drop)
}

/// Begins a set, or a pool.
fn begin(place: &Place, meridian: &Meridian, role: Role) -> Result<()> {
    let address = place.at(Meridian::PEER_PORT);
    match role {
        Role::Replica | Role::Witness => meridian.begin_set(address),
        Role::MetadataServer | Role::DataServer => meridian.begin_pool(&[], address),
    }
}

/// Where other servers reach it. Joined servers of a pool are called only over NFS.
fn address_of(place: &Place, role: Role) -> SocketAddr {
    match role {
        Role::Replica | Role::Witness => place.at(Meridian::PEER_PORT),
        Role::MetadataServer | Role::DataServer => place.nfs_address(),
    }
}

fn succeed(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("could not start {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?)
}
