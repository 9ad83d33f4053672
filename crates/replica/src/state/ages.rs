//! When controls were first seen here, for display.

use std::collections::BTreeMap;
use std::time::Duration;

use control::ControlName;

/// When controls were first seen here, for display.
#[derive(Default)]
pub(crate) struct Ages(BTreeMap<ControlName, control::Moment>);

impl Ages {
    /// A control is acknowledged here from now on.
    pub(crate) fn begin(&mut self, name: ControlName, now: control::Moment) {
        self.0.insert(name, now);
    }

    /// It has ended.
    pub(crate) fn end(&mut self, name: ControlName) {
        self.0.remove(&name);
    }

    /// Its age in seconds.
    pub(crate) fn of(&self, name: ControlName, now: control::Moment) -> f64 {
        let since = self.0.get(&name).copied().unwrap_or(now);
        Duration::from_micros(now.0.saturating_sub(since.0)).as_secs_f64()
    }
}
