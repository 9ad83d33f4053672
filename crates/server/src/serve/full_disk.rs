//! A server that cannot start or continue because the disk is full, or because its limit of open files was lowered.
//!
//! It must not exit: a service manager gives up after a few attempts, and then the server would stay down after there is space again.
//!
//! What must never enter: other problems of a disk.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use throttle::Throttle;

use super::{Ending, Origin, ServeError, Server, Tree};
use crate::configuration::Configuration;
use crate::data_directory::{Claim, DataDirectory, DataDirectoryError, MakeSpace};
use crate::status::{Answer, Answering, StatusSocket};

/// With less free space than this, a write may have failed for lack of space.
const LEAST_BYTES: u64 = 32 << 20;
/// The same for the number of files that can still be created.
const LEAST_FILES: u64 = 64;

/// The subject of a log message that is written once, and later with a count.
const FULL: throttle::Subject = ("the disk is full", 0);

/// The pause between attempts.
const PAUSE: Duration = Duration::from_secs(5);

impl Server {
    /// Like [`Server::start`], but while the disk of the data directory is full, logs that and tries again.
    ///
    /// # Errors
    /// [`ServeError`] says what to do next.
    pub async fn start_when_there_is_space(
        configuration: Configuration,
        origin: Origin,
    ) -> Result<Server, ServeError> {
        let throttle = Throttle::default();
        loop {
            let error = match Server::start(configuration.clone(), origin.clone()).await {
                Err(error) if error.may_be_lack_of_space() => error,
                started => return started,
            };
            if !is_full(&configuration.data) {
                return Err(error);
            }
            if let Some(sum) = throttle.failed(FULL, Instant::now()) {
                tracing::error!(
                    %error, %sum,
                    data = %configuration.data.display(),
                    "the disk is full, so the server cannot start; free some space, and it starts by itself"
                );
            }
            let _answers = answer_meanwhile(&configuration.data, &error);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Keeps the data directory for the server, and answers status questions with the reason of the wait. If the disk has
/// no space even for the socket, programs see from the claim that there is a server.
fn answer_meanwhile(data: &Path, error: &ServeError) -> Option<(Option<StatusSocket>, Claim)> {
    let told = format!(
        "the server on {} runs and serves nobody, because its disk is full; free some space, and it goes on by itself ({error})",
        data.display()
    );
    let answering: Answering = Arc::new(move |_| {
        let told = told.clone();
        Box::pin(async move { Answer::Refused(told) })
    });
    let claim = Claim::make(data).ok()?;
    let socket = StatusSocket::open(data, answering);
    if let Err(error) = &socket {
        tracing::debug!(%error, "there is no space for the status socket");
    }
    Some((socket.ok(), claim))
}

impl ServeError {
    /// Whether the error can mean that something could not be written.
    fn may_be_lack_of_space(&self) -> bool {
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

/// How a server with a failed store ends: if the disk was full, or files could not be opened, it starts again, as after a crash.
pub(super) fn end_of(tree: &Tree) -> Result<Ending, ServeError> {
    let failure = ServeError::StorageFailed(tree.name.clone());
    if tree.store.has_lacked_space() {
        tracing::error!(%failure, "the disk was full; free some space, and the server goes on by itself");
    } else if tree.store.has_lacked_descriptors() {
        tracing::error!(
            %failure,
            "the limit of open files was lowered below what is open; raise it. No disk has failed, and the server starts anew"
        );
    } else {
        return Err(failure);
    }
    Ok(Ending::StartAnew)
}

/// Frees space for files beside the stores, from the reserves of the stores on the same disk.
pub(super) fn beside_stores(data: &DataDirectory, trees: &[Tree]) -> MakeSpace {
    let disk_of = |path: &Path| path.metadata().map(|found| found.dev()).ok();
    let disk = disk_of(data.path());
    let near = |tree: &&Tree| disk.is_some() && disk_of(&data.tree(&tree.name)) == disk;
    let stores = trees.iter().filter(near);
    let stores: Vec<_> = stores.map(|tree| Arc::downgrade(&tree.store)).collect();
    Box::new(move || {
        let mut open = stores.iter().filter_map(Weak::upgrade);
        open.any(|store| store.give_space())
    })
}

/// Whether there is too little space for the data directory, which need not exist yet.
fn is_full(data: &Path) -> bool {
    let there = data.ancestors().find(|path| path.exists());
    let below = there.and_then(|there| rustix::fs::statvfs(there).ok());
    // A file system without a size, like `/proc`, is not a disk. Some disks create files as long as there is space.
    below.is_some_and(|below| {
        let lacks_bytes = below.f_bavail.saturating_mul(below.f_frsize) < LEAST_BYTES;
        let lacks_files = below.f_files > 0 && below.f_favail < LEAST_FILES;
        below.f_blocks > 0 && (lacks_bytes || lacks_files)
    })
}
