//! The servers whose clients' state the home has given up, and the other homes, as the book of the pool stores them over restarts.
//!
//! What must never enter: when state is given up.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use metadata_server::Memory;
use vfs::{Error, ReplicaSlot, Result};

use super::MetadataServer;
use crate::data_directory::SealedFileError;
use crate::pools::Book;

/// The book of a server that may not have started yet.
#[derive(Default)]
pub(super) struct InBook(OnceLock<Weak<MetadataServer>>);

impl InBook {
    pub(super) fn is_of(&self, server: &Arc<MetadataServer>) {
        // It is set once.
        let _ = self.0.set(Arc::downgrade(server));
    }
}

#[async_trait]
impl Memory for InBook {
    async fn keep(&self, given_up: BTreeSet<ReplicaSlot>) -> Result<()> {
        let server = self.0.get().and_then(Weak::upgrade).ok_or(Error::Delay)?;
        let kept = server.keep_given_up(given_up).await;
        kept.map_err(|error| Error::Io(error.to_string()))
    }
}

impl MetadataServer {
    /// Notes that a joined metadata server is a home of directories.
    pub(in crate::serve::pool) async fn keep_home(
        &self,
        home: ReplicaSlot,
    ) -> std::result::Result<(), SealedFileError> {
        let _alone = self.changes.lock().await;
        let mut book = self.keeping().book.clone();
        if book.homes.insert(home) {
            self.write_book(&book).await?;
            self.keeping().book = book;
        }
        Ok(())
    }

    async fn keep_given_up(
        &self,
        given_up: BTreeSet<ReplicaSlot>,
    ) -> std::result::Result<(), SealedFileError> {
        let _alone = self.changes.lock().await;
        let book = Book {
            given_up,
            ..self.keeping().book.clone()
        };
        self.write_book(&book).await?;
        self.keeping().book = book;
        Ok(())
    }
}
