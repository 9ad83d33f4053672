//! The command channel: how scripts get into a guest and their outputs out of it.
//!
//! Verbs are short lines over the guest's first serial line, which is a pair of pipes here;
//! scripts and outputs are files in a folder that both sides see. `guest/init.sh` is the other
//! end and describes the verbs. The channel does not use the network, so a guest with an unplugged cable
//! still obeys.
//!
//! What must never enter: the purpose of scripts, and the process of the guest.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::script::Script;

/// The path of [`Channel::folder`] in the guest. `guest/init.sh` mounts it there.
const GUEST_FOLDER: &str = "/run/channel";

/// The host's end of a guest's channel.
#[derive(Debug)]
pub(crate) struct Channel {
    folder: PathBuf,
    verbs: Mutex<ChildStdin>,
    news: Arc<News>,
    next: AtomicU64,
}

/// The messages of the guest so far.
#[derive(Default, Debug)]
struct News {
    heard: Mutex<Heard>,
    changed: Condvar,
}

#[derive(Default, Debug)]
struct Heard {
    ready: bool,
    failure: Option<String>,
    closed: bool,
    exits: HashMap<u64, i32>,
}

/// Number of one run of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunId(u64);

impl Channel {
    /// A channel over a guest's serial line and an empty folder that the guest mounts.
    pub(crate) fn open(folder: &Path, verbs: ChildStdin, answers: ChildStdout) -> Self {
        let news = Arc::new(News::default());
        let listener = Arc::clone(&news);
        // Ends by itself when the guest closes the line.
        std::thread::spawn(move || listener.listen(BufReader::new(answers)));
        Self {
            folder: folder.to_owned(),
            verbs: Mutex::new(verbs),
            news,
            next: AtomicU64::new(1),
        }
    }

    /// Waits until the guest is ready.
    pub(crate) fn wait_ready(&self, patience: Duration) -> Result<()> {
        let heard = self
            .news
            .wait(patience, |heard| heard.ready || heard.failure.is_some());
        match (&heard.failure, heard.ready, heard.closed) {
            (Some(failure), ..) => bail!("the guest could not prepare itself: {failure}"),
            (None, true, _) => Ok(()),
            (None, false, true) => bail!("the guest ended while it booted"),
            (None, false, false) => bail!("the guest was not ready after {patience:?}"),
        }
    }

    /// Starts a script and returns at once.
    pub(crate) fn start(&self, script: &Script) -> Result<RunId> {
        let run = RunId(self.next.fetch_add(1, Ordering::Relaxed));
        let (outer, inner) = script.files(&format!("{GUEST_FOLDER}/{}.inner", run.0));
        if let Some(inner) = inner {
            let path = self.path(run, "inner");
            fs::write(&path, inner)?;
            // The user must be able to read it with any umask of this process.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        }
        let path = self.path(run, "sh");
        fs::write(&path, outer).with_context(|| format!("could not write {}", path.display()))?;
        self.say(&format!("run {}", run.0))?;
        Ok(run)
    }

    /// The exit code of a run, if it ends before `patience` is over.
    ///
    /// # Errors
    /// Fails when the guest ends first.
    pub(crate) fn wait(&self, run: RunId, patience: Duration) -> Result<Option<i32>> {
        let heard = self
            .news
            .wait(patience, |heard| heard.exits.contains_key(&run.0));
        match heard.exits.get(&run.0) {
            Some(code) => Ok(Some(*code)),
            None if heard.closed => bail!("the guest ended while a script ran"),
            None => Ok(None),
        }
    }

    /// Sends a signal, by its number, to all processes of a run.
    pub(crate) fn signal(&self, run: RunId, signal: i32) -> Result<()> {
        self.say(&format!("kill {} {signal}", run.0))
    }

    /// Tells the guest to unmount NFS and power off.
    pub(crate) fn power_off(&self) -> Result<()> {
        self.say("off")
    }

    /// The standard output of a run from byte `offset` on.
    pub(crate) fn stdout(&self, run: RunId, offset: u64) -> Result<Vec<u8>> {
        read_from(&self.path(run, "out"), offset)
    }

    /// The standard error of a run from byte `offset` on.
    pub(crate) fn stderr(&self, run: RunId, offset: u64) -> Result<Vec<u8>> {
        read_from(&self.path(run, "err"), offset)
    }

    fn path(&self, run: RunId, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", run.0))
    }

    fn say(&self, verb: &str) -> Result<()> {
        let mut verbs = self.verbs.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(verbs, "{verb}").context("the guest has closed its channel")
    }
}

impl News {
    /// Reads the guest's lines until it closes the line. Lines that are not answers are skipped: a
    /// dying kernel may print its last messages here.
    fn listen(&self, mut answers: impl BufRead) {
        let mut line = Vec::new();
        while matches!(answers.read_until(b'\n', &mut line), Ok(1..)) {
            let text = String::from_utf8_lossy(&line);
            let mut heard = self.lock();
            match text.trim().split_once(' ') {
                None if text.trim() == "ready" => heard.ready = true,
                Some(("failed", reason)) => heard.failure = Some(reason.to_owned()),
                Some(("exit", run)) => {
                    if let Some((run, code)) = exit(run) {
                        heard.exits.insert(run, code);
                    }
                }
                _ => {}
            }
            drop(heard);
            self.changed.notify_all();
            line.clear();
        }
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits until `condition` holds, the guest is gone, or `patience` is over.
    fn wait(
        &self,
        patience: Duration,
        condition: impl Fn(&Heard) -> bool,
    ) -> MutexGuard<'_, Heard> {
        let started = Instant::now();
        let mut heard = self.lock();
        while !condition(&heard) && !heard.closed {
            let left = patience.saturating_sub(started.elapsed());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(heard, left);
            heard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        heard
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        // Every change is a single assignment, so a panic elsewhere leaves nothing half done.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The run and the code in `ID CODE`.
fn exit(text: &str) -> Option<(u64, i32)> {
    let (run, code) = text.split_once(' ')?;
    Some((run.parse().ok()?, code.parse().ok()?))
}

/// The bytes of a file from `offset` on. A file that does not exist yet is empty.
fn read_from(path: &Path, offset: u64) -> Result<Vec<u8>> {
    use std::io::{ErrorKind, Seek, SeekFrom};
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).context(format!("could not read {}", path.display())),
    };
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_heard_among_noise() {
        let news = News::default();
        news.listen(&b"\xff\xfe noise\r\nready\r\nexit 4 0\nexit x y\nexit 5 137"[..]);
        let heard = news.lock();
        assert!(heard.ready && heard.closed);
        assert_eq!(heard.exits, HashMap::from([(4, 0), (5, 137)]));
    }

    #[test]
    fn waiting_ends_when_the_guest_is_gone() {
        let news = News::default();
        news.listen(&b""[..]);
        assert!(news.wait(Duration::MAX, |heard| heard.ready).closed);
    }
}
