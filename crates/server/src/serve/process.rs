//! The process as the operating system and the service manager see it.
//!
//! What must never enter: NFS.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;

use super::ServeError;
use crate::data_directory::LACKS_DESCRIPTORS;

/// How often the service manager gets a new line about what is going on.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(10);

/// Connections and data files each take a descriptor: allows as many as this process may have.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files stays low");
    }
}

/// The server's own files are smaller: journals and tables of metadata have some 64 MiB.
const OWN_FILE_BYTES: u64 = 128 << 20;

/// Allows as many open files as this process may have, and refuses a limit of file sizes that the server's own files would reach:
/// clients could end it by changing names and attributes.
///
/// # Errors
/// [`ServeError::FileSizes`].
pub(super) fn settle_limits() -> Result<(), ServeError> {
    raise_open_files();
    match getrlimit(Resource::Fsize).current {
        Some(limit) if limit < OWN_FILE_BYTES => Err(ServeError::FileSizes(limit)),
        _ => Ok(()),
    }
}

/// What to do where the socket for questions cannot be made.
pub(super) fn to_make_the_socket(error: &io::Error) -> &'static str {
    match plain_file::lacks_descriptors(error) {
        true => LACKS_DESCRIPTORS,
        false => "check its permissions, and what lies at `control.sock` there",
    }
}

/// Connections of clients have at most one in this many descriptors. The store keeps half for data
/// files.
const PART_OF_CONNECTIONS: u64 = 4;

/// As many connections as wanted, but no more than leave descriptors for everything else.
pub(super) fn affordable_connections(wanted: usize) -> usize {
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return wanted;
    };
    let affordable = usize::try_from(limit / PART_OF_CONNECTIONS).unwrap_or(usize::MAX);
    if affordable < wanted {
        tracing::warn!(
            "{wanted} connections cannot be served, {affordable} will be: raise the limit of open files (`LimitNOFILE` in \
             the unit, `ulimit -Hn`) or lower `connections` in [limits]"
        );
    }
    wanted.min(affordable).max(1)
}

/// Tells the service manager, if there is one, that clients are served.
pub(super) fn tell_ready() {
    tell(&[NotifyState::Ready]);
}

/// Tells the service manager that the end is near.
pub(super) fn tell_stopping() {
    tell(&[
        NotifyState::Stopping,
        NotifyState::Status("finishing requests under way"),
    ]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "the service manager does not listen");
    }
}

/// Keeps the service manager's watchdog quiet and its status line fresh.
#[derive(Debug, Default)]
pub(super) struct Supervisor {
    summarised: Option<Instant>,
}

impl Supervisor {
    /// To be called while all is well, several times in each interval of the watchdog.
    pub(super) fn tell_alive(&mut self, summary: impl FnOnce() -> String) {
        if self
            .summarised
            .is_some_and(|then| then.elapsed() < SUMMARY_INTERVAL)
        {
            return tell(&[NotifyState::Watchdog]);
        }
        self.summarised = Some(Instant::now());
        tell(&[NotifyState::Watchdog, NotifyState::Status(&summary())]);
    }
}
