//! What the stories have in common: a served store, guests that have mounted it, and hands in them.
//!
//! What must never enter: expectations.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::{Guest, Job, Mount, Output, Script, Service, Site};

use crate::inside::hand::{Act, Outcome};

/// Long enough for anything that must come at all, on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Where guests mount the export.
pub const MOUNT: &str = "/run/m";

/// Everybody may write, and root is root: what most stories want.
pub const OPEN_EXPORT: &str = "\
[[export]]
path = \"/export\"
[[export.allow]]
clients = \"*\"
squash = \"none\"
";

/// A lease that outlives a busy machine's hiccups.
pub const LONG_LEASE: &str = "[time]\nlease_seconds = 30\n";

/// A lease for stories that wait for its end.
pub const SHORT_LEASE: &str = "[time]\nlease_seconds = 6\n";

/// `meridian serve` on a new store in a site of its own.
pub struct Scene {
    pub site: Site,
    pub server: Service,
    pub listen: SocketAddr,
    names: AtomicU32,
}

impl Scene {
    /// Serves `/export` with a long lease.
    pub fn open() -> Result<Self> {
        Self::with(&[OPEN_EXPORT, LONG_LEASE])
    }

    /// Serves with these parts of a configuration.
    pub fn with(configuration: &[&str]) -> Result<Self> {
        Self::beneath("", configuration)
    }

    /// The same after shell commands that prepare, with `$DATA` set, what lies beneath the store.
    /// File systems they mount are seen by the server alone and vanish with it.
    pub fn beneath(preparation: &str, configuration: &[&str]) -> Result<Self> {
        let site = Site::new()?;
        let listen = site.nfs_address();
        let file = site.folder().join("meridian.toml");
        let metrics = "[metrics]\nlisten = \"off\"\n";
        fs::write(&file, configuration.concat() + metrics)?;
        let mut command = site.command("bash");
        let serve = format!("set -e\n{preparation}\nexec \"$@\"");
        command.args(["-c", &serve, "serve"]);
        command.args([env!("CARGO_BIN_EXE_meridian"), "serve", "--data"]);
        command.arg(site.folder().join("data"));
        command.args(["--listen", &listen.to_string(), "--config"]);
        command
            .arg(file)
            .env("DATA", site.folder().join("data"))
            .env_remove("MERIDIAN_LOG");
        let mut server = Service::start(&site, "meridian", command)?;
        server.wait_for_nfs(listen)?;
        Ok(Self {
            site,
            server,
            listen,
            names: AtomicU32::default(),
        })
    }

    /// The plain mount of `/export`.
    pub fn mount(&self) -> Mount {
        Mount::of(self.listen, "/export")
    }

    /// Boots a guest that mounts `/export`.
    pub fn guest(&self, name: &str) -> Result<Guest> {
        self.guest_with(name, &self.mount())
    }

    /// Boots a guest with a mount of its own kind.
    pub fn guest_with(&self, name: &str, mount: &Mount) -> Result<Guest> {
        let guest = Guest::boot(&self.site, name)?;
        guest.mount(mount, MOUNT)?;
        Ok(guest)
    }

    /// Ends the server as a crash would, and starts it again.
    pub fn crash_server(&mut self) -> Result<()> {
        self.server.kill()?;
        self.start_server()
    }

    /// Stops the server in an orderly way, and starts it again.
    pub fn restart_server(&mut self) -> Result<()> {
        let status = self.server.stop()?;
        ensure!(status.success(), "the server stopped with {status}");
        self.start_server()
    }

    /// Starts the server that was ended.
    pub fn start_server(&mut self) -> Result<()> {
        self.server.restart()?;
        self.server.wait_for_nfs(self.listen)
    }

    /// Stops the server, and fails unless `meridian check` finds nothing wrong with its data.
    pub fn check_store(&mut self) -> Result<()> {
        let status = self.server.stop()?;
        ensure!(status.success(), "the server stopped with {status}");
        let mut check = Command::new(env!("CARGO_BIN_EXE_meridian"));
        let checked = check
            .args(["check", "--data"])
            .arg(self.site.folder().join("data"))
            .output()?;
        ensure!(
            checked.status.success(),
            "the store is damaged ({}):\n{}{}",
            checked.status,
            String::from_utf8_lossy(&checked.stdout),
            String::from_utf8_lossy(&checked.stderr)
        );
        Ok(())
    }

    /// Starts a process in the guest that does what it is told, step by step. Each is a lock owner of
    /// its own. It works in the mounted folder, as root.
    pub fn hand(&self, guest: &Guest) -> Result<Hand> {
        self.hand_of(guest, |script| script)
    }

    /// The same with a change to how the process starts, such as another user or folder.
    pub fn hand_of(&self, guest: &Guest, change: impl FnOnce(Script) -> Script) -> Result<Hand> {
        let listener = self.site.enter(|| TcpListener::bind("0.0.0.0:0"))??;
        listener.set_nonblocking(true)?;
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        let port = listener.local_addr()?.port();
        let address = format!("{}:{port}", self.listen.ip());
        let script = program(["hand", &address, &number.to_string()]);
        let job = guest.start(change(script.directory(MOUNT)))?;
        let mut connection = None;
        eventually("a process in the guest calls back", || {
            ensure!(
                job.is_running()?,
                "it ended: {:?}",
                job.wait(Duration::ZERO)?
            );
            connection = listener.accept().ok();
            Ok(connection.is_some())
        })?;
        let (stream, _) = connection.context("the loop has ended")?;
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Hand {
            job,
            answers: BufReader::new(stream.try_clone()?),
            stream,
        })
    }
}

/// A process in a guest that does what the story tells it.
pub struct Hand {
    /// The process, to be killed.
    pub job: Job,
    answers: BufReader<TcpStream>,
    stream: TcpStream,
}

impl Hand {
    /// Has something done and waits for what came of it: text or an error number.
    pub fn tries(&mut self, act: Act) -> Result<Outcome> {
        self.begins(&act)?;
        self.outcome()
    }

    /// Has something done that must succeed.
    pub fn does(&mut self, act: Act) -> Result<String> {
        let shown = format!("{act:?}");
        let outcome = self.tries(act)?;
        outcome
            .map_err(std::io::Error::from_raw_os_error)
            .with_context(|| format!("{shown} failed"))
    }

    /// Has something begun that may take until another process acts.
    pub fn begins(&mut self, act: &Act) -> Result<()> {
        let mut line = serde_json::to_string(act)?;
        line.push('\n');
        self.stream.write_all(line.as_bytes())?;
        Ok(())
    }

    /// Waits for the outcome of what was begun.
    pub fn outcome(&mut self) -> Result<Outcome> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        read.context("the process in the guest does not answer")?;
        serde_json::from_str(&line).with_context(|| format!("it answered '{line}'"))
    }
}

/// A program of this binary, for a guest.
pub fn program<'a>(words: impl IntoIterator<Item = &'a str>) -> Script {
    let binary = std::env::current_exe().expect("the path of this binary is known");
    let binary = binary
        .to_str()
        .expect("cargo's target folder has a plain name");
    Script::program(binary, ["inside"].into_iter().chain(words)).within(PATIENCE)
}

/// Runs a script that must succeed.
pub fn run(guest: &Guest, script: impl Into<Script>) -> Result<Output> {
    guest.run(script)?.success()
}

/// Waits until a condition of the outside world holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !condition()? {
        ensure!(began.elapsed() < PATIENCE, "this never came: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Waits for the end of a background job, which must be good.
pub fn finish(job: &Job) -> Result<Output> {
    let output = job.wait(PATIENCE)?;
    output
        .context("the job in the guest does not end")?
        .success()
}

/// How many lines a background job has written so far.
pub fn lines(job: &Job) -> Result<usize> {
    let text = job.stdout_so_far()?;
    Ok(text.iter().filter(|byte| **byte == b'\n').count())
}
