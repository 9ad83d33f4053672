//! Reads the configuration again while the server runs, at SIGHUP or on request.
//!
//! What must never enter: which settings exist.

use std::sync::Arc;

use tokio::signal::unix::Signal;

use super::overview::Overview;
use crate::configuration::{Difference, ReloadAnswer};

impl Overview {
    /// Applies the settings that can change while the server runs. If the file is invalid, nothing changes. However
    /// long reading the file takes, only other reloads wait for it.
    ///
    /// # Errors
    /// The problems in the file.
    pub(super) async fn reload(&self) -> Result<ReloadAnswer, Vec<String>> {
        // One reload at a time. Otherwise one could undo the changes of another.
        let mut running = self.running.lock().await;
        let reread = self.origin.reread.clone();
        let read = tokio::task::spawn_blocking(move || reread()).await;
        let read =
            read.map_err(|error| vec![format!("the configuration could not be read: {error}")])?;
        let read = read.map_err(|error| error.lines())?;
        let difference = Difference::between(&running, &read);
        for (path, rules) in &difference.rules {
            self.service.set_rules(path, rules);
            let mut exports = running.exports.iter_mut();
            if let Some(export) = exports.find(|export| export.path == *path) {
                export.rules.clone_from(rules);
            }
        }
        let answer = difference.answer();
        tracing::info!(%answer, "the configuration was read again");
        Ok(answer)
    }
}

/// Reads the configuration again at SIGHUP, until the server stops. Signals during a reload count as one.
pub(super) fn at_hangup(overview: &Arc<Overview>, mut hangups: Signal) {
    let overview = Arc::downgrade(overview);
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            let Some(overview) = overview.upgrade() else {
                return;
            };
            if let Err(problems) = overview.reload().await {
                let problems = problems.join("; ");
                tracing::error!("the configuration is wrong, and nothing was changed: {problems}");
            }
        }
    });
}
