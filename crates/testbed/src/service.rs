//! A server program inside a site. A test may kill, stop and start it again; its log is kept.
//!
//! What must never enter: the command line of any particular server.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::probe;
use crate::site::Site;

/// How long a server may take until it answers, including recovery after a crash.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// How long a server may take to stop after SIGTERM.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// The interval between checks of a state that must come soon.
const POLL: Duration = Duration::from_millis(50);

/// A server process of a site. Dropping it kills it.
#[derive(Debug)]
pub struct Service {
    site: Site,
    name: String,
    command: Command,
    log: PathBuf,
    child: Option<Child>,
}

impl Service {
    /// Starts `command`, which [`Site::command`] made, in its own process group. Its
    /// output goes to `NAME.log` in the site's folder.
    pub fn start(site: &Site, name: &str, command: Command) -> Result<Self> {
        let log = site.folder().join(format!("{name}.log"));
        let mut service = Self {
            site: site.clone(),
            name: name.to_owned(),
            command,
            log,
            child: None,
        };
        service.restart()?;
        Ok(service)
    }

    /// Starts the same command again, after killing it if it still runs. The log continues.
    pub fn restart(&mut self) -> Result<()> {
        self.kill()?;
        let log = File::options()
            .append(true)
            .create(true)
            .open(&self.log)
            .with_context(|| format!("could not open {}", self.log.display()))?;
        self.command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        let child = self.command.spawn();
        self.child = Some(child.with_context(|| format!("could not start {}", self.name))?);
        Ok(())
    }

    /// Waits until the server accepts NFSv4 calls at `address`, at most a minute.
    ///
    /// # Errors
    /// Fails at once, with the end of the log, when the process has ended.
    pub fn wait_for_nfs(&mut self, address: SocketAddr) -> Result<()> {
        self.wait_for_answer(address, probe::null_call)
    }

    /// Waits until the server accepts connections at `address`, at most a minute.
    ///
    /// # Errors
    /// As [`Service::wait_for_nfs`].
    pub fn wait_for_port(&mut self, address: SocketAddr) -> Result<()> {
        self.wait_for_answer(address, |address| TcpStream::connect(address).map(drop))
    }

    fn wait_for_answer(
        &mut self,
        address: SocketAddr,
        ask: impl Fn(SocketAddr) -> io::Result<()> + Sync,
    ) -> Result<()> {
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            let answer = self.site.enter(|| ask(address))?;
            let Err(error) = answer else { return Ok(()) };
            if let Some(status) = self.ended()? {
                let log = self.log_end();
                bail!(
                    "{} has ended ({status}) before it answered:\n{log}",
                    self.name
                );
            }
            if Instant::now() > deadline {
                let log = self.log_end();
                bail!(
                    "{} does not answer at {address} ({error}):\n{log}",
                    self.name
                );
            }
            std::thread::sleep(POLL);
        }
    }

    /// Ends the process with SIGKILL, as a crash would, and waits until it is gone.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child
                .kill()
                .with_context(|| format!("could not kill {}", self.name))?;
            child.wait()?;
        }
        Ok(())
    }

    /// Asks the process to stop with SIGTERM and waits until it has stopped.
    ///
    /// # Errors
    /// Fails, after killing it, when it does not stop within a minute.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let deadline = Instant::now() + STOP_PATIENCE;
        loop {
            if let Some(status) = self.ended()? {
                self.child = None;
                return Ok(status);
            }
            if Instant::now() > deadline {
                self.kill()?;
                bail!(
                    "{} ignored SIGTERM and was killed:\n{}",
                    self.name,
                    self.log_end()
                );
            }
            std::thread::sleep(POLL);
        }
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self
            .pid()
            .with_context(|| format!("{} does not run", self.name))?;
        kill_process(pid, signal).with_context(|| format!("could not signal {}", self.name))
    }

    /// The process, while it runs or nothing has waited for its end.
    pub fn pid(&self) -> Option<Pid> {
        self.child.as_ref().map(Pid::from_child)
    }

    /// The output file of the process, over all its starts.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How the process has ended, if it has, by itself or by a signal from elsewhere.
    ///
    /// # Errors
    /// Fails when it was killed here, or never started.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?),
            None => bail!("{} was not started", self.name),
        }
    }

    fn log_end(&self) -> String {
        self.site.keep_folder();
        last_lines(&self.log, 20)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The site's reaper handles a process that cannot be killed from here.
        let _ = self.kill();
    }
}

/// The last `count` lines of a log, for an error message.
pub(crate) fn last_lines(log: &Path, count: usize) -> String {
    let Ok(bytes) = fs::read(log) else {
        return format!("(no log at {})", log.display());
    };
    let text = String::from_utf8_lossy(&bytes).replace('\r', "");
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
