//! The process, for the operating system and the service manager.
//!
//! What must never enter: NFS.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;

use super::ServeError;
use crate::data_directory::LACKS_DESCRIPTORS;

/// How often the service manager gets a new status line.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(10);

/// Raises the limit of open files to the maximum for this process: each connection and data file needs a descriptor.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files stays low");
    }
}

/// An upper bound for the server's own files: journals and tables of metadata have about 64 MiB.
const OWN_FILE_BYTES: u64 = 128 << 20;

/// Raises the limit of open files to the maximum for this process. Refuses a limit of file sizes that the server's own
/// files would reach: clients could then stop the server by changing names and attributes.
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

/// What to do when the socket for questions cannot be created.
pub(super) fn to_make_the_socket(error: &io::Error) -> &'static str {
    match plain_file::lacks_descriptors(error) {
        true => LACKS_DESCRIPTORS,
        false => "check its permissions, and what lies at `control.sock` there",
    }
}

/// Connections of clients may use one in this number of descriptors. The store uses half of them for data files.
const PART_OF_CONNECTIONS: u64 = 4;

/// The wanted number of connections, limited so that enough descriptors remain for everything else.
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

/// Tells the service manager, if there is one, that the server is ready.
pub(super) fn tell_ready() {
    tell(&[NotifyState::Ready]);
}

/// Tells the service manager that the server is stopping.
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

/// Notifies the service manager's watchdog and updates its status line.
#[derive(Debug, Default)]
pub(super) struct Supervisor {
    summarised: Option<Instant>,
}

impl Supervisor {
    /// Call this while the server is healthy, several times in each interval of the watchdog.
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
