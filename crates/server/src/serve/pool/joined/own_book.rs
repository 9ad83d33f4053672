//! The book of a joined metadata server: what it has given up itself, and what the first server has told it of the pool.
//!
//! What must never enter: the consequences.

use std::path::PathBuf;

use async_trait::async_trait;
use metadata_server::Memory;
use std::collections::BTreeSet;
use vfs::{Error, ReplicaSlot, Result};

use crate::data_directory::SealedFileError;
use crate::pools::Book;

/// The book.
pub(super) struct OwnBook {
    path: PathBuf,
    /// Held by the task that changes it.
    changes: tokio::sync::Mutex<()>,
}

impl OwnBook {
    pub(super) fn new(path: PathBuf) -> OwnBook {
        OwnBook {
            path,
            changes: tokio::sync::Mutex::default(),
        }
    }

    /// The stored book, or an empty one if there is none.
    pub(super) fn read(&self) -> std::result::Result<Book, SealedFileError> {
        Book::read(&self.path)
    }

    /// Changes the book stably. Returns the new one.
    pub(super) async fn change(
        &self,
        change: impl FnOnce(Book) -> Book + Send + 'static,
    ) -> Result<Book> {
        let _alone = self.changes.lock().await;
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || {
            let before = Book::read(&path)?;
            let book = change(before.clone());
            if book != before {
                book.write(&path)?;
            }
            Ok::<_, SealedFileError>(book)
        });
        let written = written.await;
        let written = written.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        written.map_err(|error| Error::Io(error.to_string()))
    }
}

#[async_trait]
impl Memory for OwnBook {
    async fn keep(&self, given_up: BTreeSet<ReplicaSlot>) -> Result<()> {
        let kept = self.change(|book| Book { given_up, ..book });
        kept.await.map(drop)
    }
}
