//! The effect of one direction between two sites on packets, and its traffic.
//!
//! What must never enter: how it works; see `line`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::units;

/// The longest delay and jitter, so that sums of times cannot overflow.
const DELAY_MAX: Duration = Duration::from_secs(10);

/// The lowest bandwidth, in bits a second, at which one full packet takes two seconds.
const BANDWIDTH_MIN: u64 = 8_000;

/// The smallest default queue, in bytes: four super-frames.
const QUEUE_MIN: u64 = 256 * 1024;

/// The effect of one direction of a link on packets. The default passes everything at once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkSettings {
    /// The one-way time between the sites.
    pub delay: Duration,
    /// Each frame takes longer by a random time up to this. Frames never overtake each other, so
    /// dense traffic comes close to `delay + jitter`.
    pub jitter: Duration,
    /// The share of packets that are lost at random, from 0 to 1. A super-frame loses single packets,
    /// as it would on a real line.
    pub loss: f64,
    /// Bits a second on the wire; none is unlimited.
    pub bandwidth: Option<u64>,
    /// The maximum number of bytes that wait for the wire; further packets are dropped. Without a bandwidth
    /// nothing waits. None means a tenth of a second at the bandwidth, at least 256 KiB.
    pub queue: Option<u64>,
}

impl LinkSettings {
    /// Only a delay.
    pub fn delay(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::default()
        }
    }

    /// Half of a round trip's time in each direction, and no other effect.
    pub fn round_trip(time: Duration) -> Self {
        Self::delay(time / 2)
    }

    /// With this jitter.
    pub fn jitter(self, jitter: Duration) -> Self {
        Self { jitter, ..self }
    }

    /// With this share of packets lost, from 0 to 1.
    pub fn loss(self, loss: f64) -> Self {
        Self { loss, ..self }
    }

    /// With this many bits a second.
    pub fn bandwidth(self, bits_per_second: u64) -> Self {
        Self {
            bandwidth: Some(bits_per_second),
            ..self
        }
    }

    /// With space for this many bytes in front of the wire.
    pub fn queue(self, bytes: u64) -> Self {
        Self {
            queue: Some(bytes),
            ..self
        }
    }

    /// Changes one setting by the words of the command line, such as `--delay` and `60ms`.
    ///
    /// # Errors
    /// Fails on words it does not know and on values out of range.
    pub fn set(&mut self, word: &str, value: &str) -> Result<()> {
        match word {
            "--delay" => self.delay = units::time(value)?,
            "--jitter" => self.jitter = units::time(value)?,
            "--loss" => self.loss = units::share(value)?,
            "--bandwidth" => self.bandwidth = units::rate(value)?,
            "--queue" => self.queue = Some(units::size(value)?),
            _ => anyhow::bail!("a link has no setting '{word}'"),
        }
        self.check().with_context(|| format!("{word} {value}"))
    }

    /// Refuses settings that a line cannot have.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(
            self.delay <= DELAY_MAX && self.jitter <= DELAY_MAX,
            "delay and jitter are at most {DELAY_MAX:?}"
        );
        ensure!(
            (0.0..=1.0).contains(&self.loss),
            "loss is a share from 0 to 1"
        );
        ensure!(
            self.bandwidth.is_none_or(|bits| bits >= BANDWIDTH_MIN),
            "the bandwidth is at least {BANDWIDTH_MIN} bits a second"
        );
        Ok(())
    }

    /// The space in front of the wire in bytes, chosen or default.
    pub(crate) fn queue_bytes(&self) -> u64 {
        let tenth = self.bandwidth.unwrap_or(0) / 8 / 10;
        self.queue.unwrap_or(tenth.max(QUEUE_MIN))
    }
}

/// The traffic of one direction of a link since it was made. Packets are counted as on
/// a wire: a super-frame counts as its segments, each with its IP and transport headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets handed to the other site.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
    /// Packets that were lost at random, found the queue full, or met a cut.
    pub dropped_packets: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
}

impl std::ops::Add for Traffic {
    type Output = Self;

    /// The sum of the traffic of two links.
    fn add(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            dropped_packets: self.dropped_packets + other.dropped_packets,
            dropped_bytes: self.dropped_bytes + other.dropped_bytes,
        }
    }
}

impl std::ops::Sub for Traffic {
    type Output = Self;

    /// The traffic between an earlier reading and this one.
    fn sub(self, earlier: Self) -> Self {
        Self {
            packets: self.packets - earlier.packets,
            bytes: self.bytes - earlier.bytes,
            dropped_packets: self.dropped_packets - earlier.dropped_packets,
            dropped_bytes: self.dropped_bytes - earlier.dropped_bytes,
        }
    }
}

/// How late frames were because this machine was busy. A benchmark checks this
/// before it accepts its results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Frames that were handed over; a super-frame is one.
    pub frames: u64,
    /// The sum of the delays of all frames.
    pub sum: Duration,
    /// The largest delay.
    pub max: Duration,
}

impl Lateness {
    /// The mean over all frames.
    pub fn mean(&self) -> Duration {
        let nanoseconds = self.sum.as_nanos() / u128::from(self.frames.max(1));
        // A mean is no larger than `max`, far below 584 years.
        Duration::from_nanos(nanoseconds as u64)
    }

    /// Counts one more frame.
    pub(super) fn count(&mut self, late: Duration) {
        self.frames += 1;
        self.sum += late;
        self.max = self.max.max(late);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_change_by_words_one_at_a_time() {
        let mut settings = LinkSettings::round_trip(Duration::from_millis(120));
        for (word, value) in [
            ("--jitter", "1ms"),
            ("--loss", "0.1%"),
            ("--bandwidth", "1gbit"),
        ] {
            settings.set(word, value).unwrap();
        }
        let expected = LinkSettings::delay(Duration::from_millis(60))
            .jitter(Duration::from_millis(1))
            .loss(0.001)
            .bandwidth(1_000_000_000);
        assert_eq!(settings, expected);
        assert_eq!(settings.queue_bytes(), 12_500_000);
        settings.set("--queue", "64k").unwrap();
        assert_eq!(settings.queue_bytes(), 65_536);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let mut settings = LinkSettings::default();
        for (word, value) in [
            ("--delay", "11s"),
            ("--bandwidth", "1kbit"),
            ("--colour", "1"),
        ] {
            assert!(settings.set(word, value).is_err(), "{word} {value}");
        }
        assert!(LinkSettings::default().loss(f64::NAN).check().is_err());
    }
}
