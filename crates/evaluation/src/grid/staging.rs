//! Copies outputs by GridFTP to the sites that need them, like the scripts of the papers.
//!
//! What must never enter: when files are written and read.

use std::sync::Arc;

use anyhow::Result;
use testbed::{GridFtp, GridFtpOptions};

use crate::files::{LocalFolder, off_the_runtime};

/// Sends files to the folder of another site, in one session, in their order.
pub(super) async fn send(
    servers: [Arc<GridFtp>; 2],
    folders: [LocalFolder; 2],
    names: Vec<String>,
) -> Result<()> {
    off_the_runtime(move || {
        let [from, to] = servers;
        let pair = |name: &String| (folders[0].path(name), folders[1].path(name));
        let pairs: Vec<_> = names.iter().map(pair).collect();
        from.send(&to, &pairs, GridFtpOptions::EIGHT_STREAMS)
    })
    .await
}
