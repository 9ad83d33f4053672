//! One direction between two sites as a model: which packets survive, and when they arrive.
//!
//! A wire sends one packet after another from a bounded queue; then comes a time of flight. Time
//! is an argument and the model never waits, so that it can be tested without a
//! network. A wire that is never idle while something waits is a token bucket of depth zero.
//!
//! What must never enter: devices, threads, and what frames look like inside.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::frame::Shape;
use super::settings::{Lateness, LinkSettings, Traffic};

/// Bytes that may be in flight when no bandwidth bounds them. It bounds memory.
const IN_FLIGHT_MAX: u64 = 256 * 1024 * 1024;

/// A frame on its way.
#[derive(Debug)]
struct InFlight<F> {
    due: Instant,
    frame: F,
    packets: u64,
    bytes: u64,
}

/// One direction of a link, with frames of type `F` on it.
#[derive(Debug)]
pub(crate) struct Line<F> {
    settings: LinkSettings,
    is_cut: bool,
    traffic: Traffic,
    lateness: Lateness,
    in_flight: VecDeque<InFlight<F>>,
    in_flight_bytes: u64,
    /// When the wire has sent everything given to it.
    wire_free_at: Instant,
    /// When the last frame given to it arrives: frames do not overtake each other.
    last_due: Instant,
    /// Packets that pass before the next one is lost.
    until_loss: u64,
    random: Rng,
}

impl<F> Line<F> {
    /// An idle line. Lines with equal seeds lose the same packets of equal traffic.
    pub(crate) fn new(settings: LinkSettings, seed: u64, now: Instant) -> Self {
        let mut line = Self {
            settings,
            is_cut: false,
            traffic: Traffic::default(),
            lateness: Lateness::default(),
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            wire_free_at: now,
            last_due: now,
            until_loss: 0,
            random: Rng::with_seed(seed),
        };
        line.until_loss = line.gap();
        line
    }

    /// The settings now.
    pub(crate) fn settings(&self) -> LinkSettings {
        self.settings
    }

    /// Whether nothing passes.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The traffic so far.
    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// The lateness of frames since the last change of settings.
    pub(crate) fn lateness(&self) -> Lateness {
        self.lateness
    }

    /// Changes the settings for later frames. Frames that the wire has taken keep their
    /// time, and are not overtaken.
    pub(crate) fn set(&mut self, settings: LinkSettings) {
        self.settings = settings;
        self.until_loss = self.gap();
        self.lateness = Lateness::default();
    }

    /// Cuts the line and loses everything in flight, or joins it again.
    pub(crate) fn set_cut(&mut self, is_cut: bool, now: Instant) {
        self.is_cut = is_cut;
        if is_cut {
            for lost in self.in_flight.drain(..) {
                self.traffic.dropped_packets += lost.packets;
                self.traffic.dropped_bytes += lost.bytes;
            }
            self.in_flight_bytes = 0;
            self.wire_free_at = now;
            self.last_due = now;
        }
    }

    /// Decides about a frame that comes now: fills `survivors` with the runs of segments that will
    /// arrive, and returns when they are due. The rest is counted as dropped. Each run must be given to
    /// [`Line::carry`].
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        shape: &Shape,
        survivors: &mut Vec<Range<u32>>,
    ) -> Instant {
        survivors.clear();
        let segments = shape.segments();
        if !self.is_cut {
            let fitting = self.fitting(now, shape, segments);
            self.survive_loss(fitting, survivors);
            self.occupy_wire(now, shape.wire_bytes(&(0..fitting)));
        }
        let arriving: u64 = survivors.iter().map(|run| shape.wire_bytes(run)).sum();
        let packets: usize = survivors.iter().map(|run| run.len()).sum();
        self.traffic.dropped_packets += u64::from(segments) - packets as u64;
        self.traffic.dropped_bytes += shape.wire_bytes(&(0..segments)) - arriving;
        let jitter = self.settings.jitter.mul_f64(self.random.f64());
        let due = self.wire_free_at.max(now) + self.settings.delay + jitter;
        due.max(self.last_due)
    }

    /// Takes a frame that was admitted.
    pub(crate) fn carry(&mut self, frame: F, packets: u64, bytes: u64, due: Instant) {
        self.in_flight_bytes += bytes;
        self.last_due = due;
        self.in_flight.push_back(InFlight {
            due,
            frame,
            packets,
            bytes,
        });
    }

    /// When the next frame arrives.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.in_flight.front().map(|next| next.due)
    }

    /// A frame that has arrived by now, counted as passed.
    pub(crate) fn arrive(&mut self, now: Instant) -> Option<F> {
        let arrived = self.in_flight.pop_front_if(|next| next.due <= now)?;
        self.in_flight_bytes -= arrived.bytes;
        self.traffic.packets += arrived.packets;
        self.traffic.bytes += arrived.bytes;
        self.lateness.count(now - arrived.due);
        Some(arrived.frame)
    }

    /// The number of first segments that fit into the queue and into memory. An idle wire takes at
    /// least one, even if its queue is small.
    fn fitting(&self, now: Instant, shape: &Shape, segments: u32) -> u32 {
        let waiting = self.waiting_bytes(now);
        let queue_space = match self.settings.bandwidth {
            Some(_) => self.settings.queue_bytes().saturating_sub(waiting),
            None => u64::MAX,
        };
        let space = queue_space.min(IN_FLIGHT_MAX.saturating_sub(self.in_flight_bytes));
        let whole = shape.wire_bytes(&(0..segments));
        if whole <= space {
            return segments;
        }
        let segment = shape.wire_bytes(&(0..1));
        let fitting = space / segment;
        // Below `segments`, because not all segments fit.
        let fitting = fitting.min(u64::from(segments)) as u32;
        if waiting == 0 && space > 0 {
            fitting.max(1)
        } else {
            fitting
        }
    }

    /// Bytes the wire has not yet sent.
    fn waiting_bytes(&self, now: Instant) -> u64 {
        let bandwidth = self.settings.bandwidth.unwrap_or(0);
        let busy = self.wire_free_at.saturating_duration_since(now);
        (busy.as_secs_f64() * bandwidth as f64 / 8.0) as u64
    }

    fn occupy_wire(&mut self, now: Instant, bytes: u64) {
        let start = self.wire_free_at.max(now);
        let sending = match self.settings.bandwidth {
            Some(bandwidth) => Duration::from_secs_f64(bytes as f64 * 8.0 / bandwidth as f64),
            None => Duration::ZERO,
        };
        self.wire_free_at = start + sending;
    }

    /// Removes the lost segments from the first `fitting` segments.
    fn survive_loss(&mut self, fitting: u32, survivors: &mut Vec<Range<u32>>) {
        let mut first = 0;
        loop {
            let left = u64::from(fitting - first);
            if self.until_loss >= left {
                self.until_loss -= left;
                if left > 0 {
                    survivors.push(first..fitting);
                }
                return;
            }
            // Below `left`, so it fits.
            let lost = first + self.until_loss as u32;
            if lost > first {
                survivors.push(first..lost);
            }
            first = lost + 1;
            self.until_loss = self.gap();
        }
    }

    /// Packets between two losses, which are independent of each other: a geometric distribution.
    fn gap(&mut self) -> u64 {
        let loss = self.settings.loss;
        if loss <= 0.0 {
            return u64::MAX;
        }
        // The number is below 1, so the logarithm is finite; the conversion saturates.
        ((1.0 - self.random.f64()).ln() / (1.0 - loss).ln()) as u64
    }
}

#[cfg(test)]
mod tests;
