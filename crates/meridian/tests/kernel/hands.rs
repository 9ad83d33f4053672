//! Hands in guests: processes that work there as the story on the host tells them, scripts and
//! programs that must succeed, and waiting for what must come.
//!
//! What must never enter: what is served, and expectations.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::{Guest, Job, Output, Script, Site};

use crate::inside::hand::{Act, Outcome};

/// Long enough for anything that must come at all, on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Where guests mount the export.
pub const MOUNT: &str = "/run/m";

/// A process in a guest that does what the story tells it.
pub struct Hand {
    /// The process, to be killed.
    pub job: Job,
    answers: BufReader<TcpStream>,
    stream: TcpStream,
}

impl Hand {
    /// Starts the process in a guest of this site. Each is a lock owner of its own. It works in the
    /// mounted folder, as root, unless `change` says otherwise.
    pub fn begin(
        site: &Site,
        guest: &Guest,
        change: impl FnOnce(Script) -> Script,
    ) -> Result<Self> {
        static NAMES: AtomicU32 = AtomicU32::new(0);
        let listener = site.enter(|| TcpListener::bind("0.0.0.0:0"))??;
        listener.set_nonblocking(true)?;
        let number = NAMES.fetch_add(1, Ordering::Relaxed);
        let port = listener.local_addr()?.port();
        let address = format!("{}:{port}", site.address());
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
