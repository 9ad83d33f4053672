//! Bytes of another home's files that this server reads and writes at the data servers, for its clients.
//!
//! What must never enter: when that is done.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use metadata_server::{DataServers, Layout};
use striping::ByLayout;

use super::layouts::layout_here;

/// A data server that cannot be reached within this time is not waited for: the home is asked.
const PATIENCE: Duration = Duration::from_secs(2);

struct AtDataServers(ByLayout);

/// The data servers of all homes.
pub(super) fn data_servers() -> Arc<dyn DataServers> {
    Arc::new(AtDataServers(ByLayout::new(PATIENCE)))
}

#[async_trait]
impl DataServers for AtDataServers {
    async fn read(
        &self,
        layout: &Layout,
        device: &[Vec<SocketAddr>],
        offset: u64,
        count: u32,
    ) -> Option<Bytes> {
        let layout = layout_here(layout.clone());
        served(self.0.read(&layout, device, (offset, count)).await)
    }

    async fn write(
        &self,
        layout: &Layout,
        device: &[Vec<SocketAddr>],
        offset: u64,
        bytes: Bytes,
    ) -> bool {
        let layout = layout_here(layout.clone());
        served(self.0.write(&layout, device, offset, bytes).await).is_some()
    }
}

fn served<T>(result: vfs::Result<T>) -> Option<T> {
    result
        .inspect_err(
            |error| tracing::debug!(%error, "the data servers do not serve; the home is asked"),
        )
        .ok()
}
