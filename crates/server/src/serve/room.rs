//! A server that cannot start because the disk is full.
//!
//! It must not end: a service manager gives up after a few attempts, and then nobody starts it once there is room again.
//!
//! What must never enter: what else may be wrong with a disk.

use std::path::Path;
use std::time::Duration;

use super::{ServeError, Server};
use crate::configuration::Configuration;
use crate::data_directory::DataDirectoryError;

/// With less room than this nothing can be opened.
const LEAST_BYTES: u64 = 1 << 20;

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
            if free_bytes(&configuration.data).is_none_or(|free| free >= LEAST_BYTES) {
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
        matches!(
            self,
            ServeError::DataDirectory(DataDirectoryError::Io { .. })
                | ServeError::Membership(_)
                | ServeError::Replica(_)
                | ServeError::StatusSocket(_)
                | ServeError::Tree { .. }
        )
    }
}

/// Room for the data directory, which need not be there yet; `None` when nobody can say.
fn free_bytes(data: &Path) -> Option<u64> {
    let there = data.ancestors().find(|path| path.exists())?;
    let below = rustix::fs::statvfs(there).ok()?;
    Some(below.f_bavail.saturating_mul(below.f_frsize))
}
