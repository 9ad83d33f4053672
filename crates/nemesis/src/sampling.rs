//! The status of the servers, polled while the run lasts.
//!
//! What must never enter: waiting for anything; a server that does not answer leaves a gap.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use testbed::Meridian;

use crate::clients::Common;
use crate::history::Time;

/// The polling interval.
const EVERY: Duration = Duration::from_secs(1);

/// The status of a server at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// The number of the site.
    pub site: usize,
    /// When it answered.
    pub at: Time,
    /// Updates made there that another server lacks: the largest number over the other servers.
    pub lag_updates: u64,
    /// For how long another server has lacked something made there, in milliseconds.
    pub lag_ms: u64,
    /// The number of its view, if it has one.
    pub epoch: Option<u64>,
}

/// All samples of a run.
#[derive(Debug, Default)]
pub struct Samples(Mutex<Vec<Sample>>);

impl Samples {
    /// The samples so far.
    pub fn all(&self) -> Vec<Sample> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Begins to ask, with a thread for each server. They end with the clients' work.
    pub fn begin(
        self: &Arc<Self>,
        common: &Arc<Common>,
        handles: Vec<(usize, Meridian)>,
    ) -> Vec<JoinHandle<()>> {
        let askers = handles.into_iter().map(|(site, handle)| {
            let (samples, common) = (Arc::clone(self), Arc::clone(common));
            std::thread::spawn(move || samples.ask(site, &handle, &common))
        });
        askers.collect()
    }

    fn ask(&self, site: usize, handle: &Meridian, common: &Common) {
        while !common.done.load(std::sync::atomic::Ordering::Relaxed) {
            if let Ok(status) = handle.replication() {
                let sample = sample(site, common.recorder.now(), &status);
                let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                samples.push(sample);
            }
            std::thread::sleep(EVERY);
        }
    }
}

fn sample(site: usize, at: Time, status: &Value) -> Sample {
    let peers = status["peers"].as_array();
    let greatest = |key: &str| {
        let lags = peers
            .into_iter()
            .flatten()
            .filter_map(|peer| peer[key].as_u64());
        lags.max().unwrap_or(0)
    };
    Sample {
        site,
        at,
        lag_updates: greatest("lag_updates"),
        lag_ms: greatest("lag_ms"),
        epoch: status["view"]["epoch"].as_u64(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_server_that_lacks_most_counts() {
        let status = json!({"view": {"epoch": 4}, "peers": [
            {"lag_updates": 3, "lag_ms": 10}, {"lag_updates": 1, "lag_ms": 900}]});
        let expected = Sample {
            site: 1,
            at: 7,
            lag_updates: 3,
            lag_ms: 900,
            epoch: Some(4),
        };
        assert_eq!(sample(1, 7, &status), expected);
        assert_eq!(sample(1, 7, &json!({})).epoch, None);
    }
}
