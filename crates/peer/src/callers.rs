//! Connections before the end of their handshake: how many there may be, and which one is closed when there are too many.
//!
//! Anyone who reaches the port can open any number of connections. So no connection waits for another one to end: the newest one is accepted, and one with a
//! weaker claim is closed. Connections that have sent nothing are closed first, the oldest of them first. Connections from addresses of no known member are
//! closed before those of members. One address gets only a part of the places.
//!
//! What must never enter: sockets, and the bytes that they carry.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::flow::locked;

/// The places are divided by this number. An address of no known member gets one such part.
const PARTS: usize = 4;

/// The minimum time between two log lines about failed connections.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// What is known of one connection.
#[derive(Debug)]
struct Caller {
    address: IpAddr,
    is_member: bool,
    has_spoken: AtomicBool,
    goes: Notify,
}

/// The connections whose handshake has not ended.
#[derive(Debug)]
pub(crate) struct Callers {
    /// In order of arrival.
    waiting: Mutex<Vec<Arc<Caller>>>,
    places: usize,
}

impl Callers {
    /// With this number of places, at least one.
    pub(crate) fn new(places: usize) -> Arc<Callers> {
        Arc::new(Callers {
            waiting: Mutex::default(),
            places: places.max(1),
        })
    }

    /// Lets a connection in, and closes another one if there are too many. `is_member` says whether a member is known
    /// to call from this address.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr, is_member: bool) -> Place {
        let caller = Arc::new(Caller {
            address,
            is_member,
            has_spoken: AtomicBool::new(false),
            goes: Notify::new(),
        });
        let mut waiting = locked(&self.waiting);
        let of_address = |caller: &Caller| caller.address == address;
        let same = waiting.iter().filter(|caller| of_address(caller)).count();
        let share = self.places.div_ceil(PARTS);
        if !is_member && same >= share {
            send_one_away(&mut waiting, of_address);
        } else if waiting.len() >= self.places {
            send_one_away(&mut waiting, |_| true);
        }
        waiting.push(caller.clone());
        drop(waiting);
        Place {
            callers: self.clone(),
            caller,
        }
    }
}

/// Closes the connection with the weakest claim among these.
fn send_one_away(waiting: &mut Vec<Arc<Caller>>, among: impl Fn(&Caller) -> bool) {
    let of_these = waiting.iter().enumerate().filter(|(_, one)| among(one));
    // Among equals this is the first one, which is the oldest.
    let least =
        of_these.min_by_key(|(_, one)| (one.is_member, one.has_spoken.load(Ordering::Relaxed)));
    if let Some((at, _)) = least {
        waiting.remove(at).goes.notify_one();
    }
}

/// The place of one connection, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    callers: Arc<Callers>,
    caller: Arc<Caller>,
}

impl Place {
    /// The other end has said something.
    pub(crate) fn note_spoken(&self) {
        self.caller.has_spoken.store(true, Ordering::Relaxed);
    }

    /// Returns when the connection has to make room for another one.
    pub(crate) async fn taken(&self) {
        self.caller.goes.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = locked(&self.callers.waiting);
        waiting.retain(|other| !Arc::ptr_eq(other, &self.caller));
    }
}

/// Counts failed connections for the log: it reports the first one at once, then how many there were.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    line_at: Option<Instant>,
    untold: u64,
}

impl Refusals {
    /// Counts one more. Returns the count since the last log line if the next line is due.
    pub(crate) fn note(&mut self, now: Instant) -> Option<u64> {
        self.untold += 1;
        self.due(now)
    }

    /// The number that the log has not reported, if it is not 0 and a line is due.
    pub(crate) fn due(&mut self, now: Instant) -> Option<u64> {
        let lately = |at: Instant| now.saturating_duration_since(at) < BETWEEN_LINES;
        if self.untold == 0 || self.line_at.is_some_and(lately) {
            return None;
        }
        self.line_at = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// Whether a connection has been told to go.
    async fn is_gone(place: &Place) -> bool {
        tokio::time::timeout(Duration::ZERO, place.taken())
            .await
            .is_ok()
    }

    #[tokio::test]
    async fn the_oldest_silent_one_goes_first_then_the_oldest_then_members() {
        let callers = Callers::new(4);
        let member = callers.enter(address(1), true);
        let spoken = callers.enter(address(2), false);
        spoken.note_spoken();
        let older = callers.enter(address(3), false);
        let newer = callers.enter(address(4), false);
        let _one = callers.enter(address(1), true);
        assert!(is_gone(&older).await && !is_gone(&newer).await);
        let _two = callers.enter(address(1), true);
        assert!(is_gone(&newer).await && !is_gone(&spoken).await);
        let _three = callers.enter(address(1), true);
        assert!(is_gone(&spoken).await && !is_gone(&member).await);
        let _four = callers.enter(address(5), false);
        assert!(is_gone(&member).await, "somebody has to go");
    }

    #[tokio::test]
    async fn one_address_takes_a_part_of_the_places() {
        let callers = Callers::new(8);
        let other = callers.enter(address(1), false);
        let first = callers.enter(address(2), false);
        let second = callers.enter(address(2), false);
        let _third = callers.enter(address(2), false);
        assert!(is_gone(&first).await);
        assert!(!is_gone(&other).await && !is_gone(&second).await);
        drop(second);
        let fourth = callers.enter(address(2), false);
        assert!(!is_gone(&fourth).await && !is_gone(&other).await);
    }

    #[test]
    fn the_log_tells_of_the_first_and_of_sums() {
        let mut refusals = Refusals::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(refusals.due(at(0)), None);
        assert_eq!(refusals.note(at(0)), Some(1));
        for second in 1..50 {
            assert_eq!(refusals.note(at(second)), None);
        }
        assert_eq!(refusals.due(at(59)), None);
        assert_eq!(refusals.due(at(60)), Some(49));
        assert_eq!(refusals.due(at(200)), None);
        assert_eq!(refusals.note(at(200)), Some(1));
    }
}
