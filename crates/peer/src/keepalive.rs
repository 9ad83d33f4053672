//! When idle connections send a keepalive, and when silence means that the peer is gone.
//!
//! All connections of an endpoint send keepalives at the same moments, and idle lanes send them seldom. So an idle
//! process wakes once per interval for all its peers, and not once per connection. The control lane detects whether the
//! peer is alive. When it is silent, the other connections are closed with it.
//!
//! What must never enter: frames, and acknowledgements or echoes due to the peer.

use std::time::Duration;

use tokio::time::Instant;

use crate::message::Lane;

/// The intervals of lanes other than the control lane are this many times as long.
const OTHER_LANES: u32 = 4;

/// A connection is closed after this number of silent intervals.
const SILENT_INTERVALS: u32 = 3;

/// The moments at which frames are due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keepalive {
    /// One of the moments.
    began: Instant,
    interval: Duration,
}

impl Keepalive {
    /// Those of the control lanes of an endpoint that begins now.
    pub(crate) fn new(interval: Duration) -> Keepalive {
        Keepalive {
            began: Instant::now(),
            interval: interval.max(Duration::from_millis(1)),
        }
    }

    /// The moments of a kind of lane. They are a subset of the moments of the control lanes.
    pub(crate) fn of(self, lane: Lane) -> Keepalive {
        let times = match lane {
            Lane::Control => 1,
            Lane::Metadata | Lane::Data => OTHER_LANES,
        };
        Keepalive {
            interval: self.interval * times,
            ..self
        }
    }

    /// When the next frame is due after one at `now`: the last moment that is at most one and a half intervals later.
    pub(crate) fn next(&self, now: Instant) -> Instant {
        let latest = now + self.interval * 3 / 2;
        let passed = latest.saturating_duration_since(self.began).as_nanos();
        let since = passed % self.interval.as_nanos();
        latest - Duration::from_nanos(u64::try_from(since).unwrap_or(0))
    }

    /// How long a connection stays open when nothing arrives on it.
    pub(crate) fn patience(&self) -> Duration {
        self.interval * SILENT_INTERVALS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_lanes_show_themselves_at_moments_of_the_control_lane() {
        let control = Keepalive::new(Duration::from_secs(2));
        let data = control.of(Lane::Data);
        let began = Instant::now();
        let after = |seconds: f64| began + Duration::from_secs_f64(seconds);
        assert_eq!(control.of(Lane::Control).next(after(0.0)), after(2.0));
        assert_eq!(control.next(after(2.5)), after(4.0));
        assert_eq!(control.next(after(3.0)), after(6.0));
        assert_eq!(control.next(after(4.0)), after(6.0));
        assert_eq!(data.next(after(3.5)), after(8.0));
        assert_eq!(data.next(after(8.5)), after(16.0));
        assert!(data.patience() > control.patience());
    }
}
