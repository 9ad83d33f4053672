//! A server that cannot start, or go on, because the disk is full.
//!
//! It must not end: a service manager gives up after a few attempts, and then nobody starts it once there is room again.
//!
//! What must never enter: what else may be wrong with a disk.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use super::{Ending, ServeError, Server, Tree};
use crate::configuration::Configuration;
use crate::data_directory::DataDirectoryError;

/// With less room than this something may not have fitted.
const LEAST_BYTES: u64 = 32 << 20;

/// Between attempts.
const PAUSE: Duration = Duration::from_secs(5);

impl Server {
    /// As [`Server::start`]; while the disk under the data directory is full, it says so and tries again.
    ///
    /// # Errors
    /// [`ServeError`] says what to do next.
    pub async fn start_when_there_is_room(
        configuration: Configuration,
    ) -> Result<Server, ServeError> {
        loop {
            let error = match Server::start(configuration.clone()).await {
                Err(error) if error.may_be_lack_of_room() => error,
                started => return started,
            };
            if !is_full(&configuration.data) {
                return Err(error);
            }
            tracing::error!(
                %error,
                data = ?configuration.data,
                "the disk is full, so the server cannot start; free some space, and it starts by itself"
            );
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl ServeError {
    /// Whether it says that something could not be written.
    fn may_be_lack_of_room(&self) -> bool {
        match self {
            ServeError::DataDirectory(DataDirectoryError::Io { source, .. }) => {
                source.kind() == ErrorKind::StorageFull
            }
            ServeError::Membership(_)
            | ServeError::Replica(_)
            | ServeError::StatusSocket(_)
            | ServeError::Tree { .. } => true,
            _ => false,
        }
    }
}

/// How a server ends whose store has failed: if the disk was full, it starts anew, as after a crash.
pub(super) fn end_of(tree: &Tree) -> Result<Ending, ServeError> {
    let failure = ServeError::StorageFailed(tree.name.clone());
    if !tree.store.has_lacked_room() {
        return Err(failure);
    }
    tracing::error!(%failure, "the disk was full; free some space, and the server goes on by itself");
    Ok(Ending::StartAnew)
}

/// Whether there is too little room for the data directory, which need not be there yet.
fn is_full(data: &Path) -> bool {
    let there = data.ancestors().find(|path| path.exists());
    let below = there.and_then(|there| rustix::fs::statvfs(there).ok());
    // What has no size, like `/proc`, is no disk.
    below.is_some_and(|below| {
        below.f_blocks > 0 && below.f_bavail.saturating_mul(below.f_frsize) < LEAST_BYTES
    })
}
