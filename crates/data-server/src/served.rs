//! Requests of clients to a data server, through its NFS service.

use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use nfs4_server::{Connected, ContentsExtent, NotServed, Shown};
use pool::Access;
use throttle::Throttle;
use vfs::{Commitment, Stability, Written};

use crate::server::{DataServer, NotDone};

/// Log entries about contents that cannot be read or written, the first one and then sums.
static REFUSALS: Throttle = Throttle::new();

/// A home gets the reason for a failure. A client with a layout is sent to the home (rule 3).
fn refusal(reason: NotDone) -> NotServed {
    match reason {
        NotDone::NotServed => NotServed::Stale,
        NotDone::Failed(error, Access::Home) => NotServed::Failed(error),
        NotDone::Failed(error, Access::Read | Access::ReadWrite) => {
            let sum = REFUSALS.failed(("contents are not served", 0), Instant::now());
            if let Some(sum) = sum {
                tracing::warn!(%error, %sum, "contents are not served; their client asks the metadata server");
            }
            NotServed::Stale
        }
    }
}

#[async_trait]
impl nfs4_server::DataServer for DataServer {
    fn connected(&self) -> Connected {
        Connected(self.running.now().0)
    }

    async fn check(&self, shown: Shown<'_>) -> Result<(), NotServed> {
        let nothing = self
            .running
            .with_handle(shown, Access::Read, |_, _| async { Ok(()) });
        nothing.await.map_err(refusal)
    }

    async fn read(&self, shown: Shown<'_>, offset: u64, count: u32) -> Result<Bytes, NotServed> {
        let read =
            self.running
                .with_handle(shown, Access::Read, move |shelf, contents| async move {
                    shelf.read(contents, offset, count).await
                });
        read.await.map_err(refusal)?.ok_or(NotServed::Hole)
    }

    async fn write(
        &self,
        shown: Shown<'_>,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<Written, NotServed> {
        let written =
            self.running.with_handle(
                shown,
                Access::ReadWrite,
                move |shelf, contents| async move {
                    shelf.write(contents, offset, data, stability).await
                },
            );
        written.await.map_err(refusal)
    }

    async fn commit(&self, shown: Shown<'_>) -> Result<Commitment, NotServed> {
        // A client that may only read may commit, too: it changes nothing.
        let done = self
            .running
            .with_handle(shown, Access::Read, |shelf, contents| async move {
                shelf.commit(contents).await
            });
        done.await.map_err(refusal)
    }

    async fn extent(&self, shown: Shown<'_>) -> Result<ContentsExtent, NotServed> {
        let found = self
            .running
            .with_handle(shown, Access::Read, |shelf, contents| async move {
                shelf.extent(contents).await
            });
        let (end, space_used) = found.await.map_err(refusal)?;
        Ok(ContentsExtent { end, space_used })
    }
}
