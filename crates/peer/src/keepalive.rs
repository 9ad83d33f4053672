//! When connections show that they are there although nothing is to be said, and when silence means that the peer is gone.
//!
//! All connections of an endpoint do so at the same moments, and those that carry nothing do so seldom: an idle process is woken for its
//! peers once in an interval, and not once for each connection. Whether the peer is there is found out on the control lane; when that is
//! silent, the other connections are given up with it.
//!
//! What must never enter: frames, and what is owed to the peer.

use std::time::Duration;

use tokio::time::Instant;

use crate::message::Lane;

/// The intervals of lanes other than the control lane are this many times as long.
const OTHER_LANES: u32 = 4;

/// After this many silent intervals a connection is given up.
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

    /// Those of a kind of lane. They are among those of the control lanes.
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

    /// When a frame is due after one at `now`: the last of the moments that is at most one and a half intervals later.
    pub(crate) fn next(&self, now: Instant) -> Instant {
        let latest = now + self.interval * 3 / 2;
        let passed = latest.saturating_duration_since(self.began).as_nanos();
        let since = passed % self.interval.as_nanos();
        latest - Duration::from_nanos(u64::try_from(since).unwrap_or(0))
    }

    /// How long a connection on which nothing arrives is kept.
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
