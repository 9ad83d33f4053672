//! Compression of data payloads. It measures whether compression pays, and stops when it does not.
//!
//! Most large files (archives, pictures, model weights) do not shrink, and each attempt costs processor time that the
//! link could use. The [`Gauge`] is pure: it sees sizes only.

use bytes::Bytes;

use crate::wire::WireError;

/// Payloads smaller than this are not compressed.
const PLAIN_BYTES_MIN: usize = 512;

/// Payloads from this size on are (de)compressed away from the threads that drive sockets.
const OFFLOAD_BYTES_MIN: usize = 64 * 1024;

/// The fastest level of zstd: the link should be the bottleneck, not the processor.
const LEVEL: i32 = 1;

/// Compression pays when at most this percentage of the bytes remains.
const PAYS_PERCENT: u64 = 90;

/// Bytes tried before judging.
const TRIAL_BYTES: u64 = 512 * 1024;

/// Bytes sent as they are after the first failed trial; doubles with each further one.
const PAUSE_BYTES_MIN: u64 = 8 * 1024 * 1024;

/// The longest pause. A change in the kind of data is noticed within this number of bytes.
const PAUSE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Decides for each payload whether to try.
#[derive(Debug)]
pub(crate) struct Gauge {
    tried: u64,
    remained: u64,
    /// Bytes that still pass without an attempt.
    pause: u64,
    next_pause: u64,
}

impl Gauge {
    pub(crate) fn new() -> Gauge {
        Gauge {
            tried: 0,
            remained: 0,
            pause: 0,
            next_pause: PAUSE_BYTES_MIN,
        }
    }

    /// Whether a payload of this size should be compressed.
    pub(crate) fn wants(&mut self, plain_bytes: usize) -> bool {
        if self.pause > 0 {
            self.pause = self.pause.saturating_sub(plain_bytes as u64);
            return false;
        }
        plain_bytes >= PLAIN_BYTES_MIN
    }

    /// Records the result of an attempt, and pauses when the recent ones did not pay.
    pub(crate) fn learn(&mut self, plain_bytes: usize, compressed_bytes: usize) {
        self.tried += plain_bytes as u64;
        self.remained += compressed_bytes.min(plain_bytes) as u64;
        if self.tried < TRIAL_BYTES {
            return;
        }
        if self.remained * 100 > self.tried * PAYS_PERCENT {
            self.pause = self.next_pause;
            self.next_pause = (self.next_pause * 2).min(PAUSE_BYTES_MAX);
        } else {
            self.next_pause = PAUSE_BYTES_MIN;
        }
        self.tried = 0;
        self.remained = 0;
    }
}

/// The payload compressed, or `None` when that saves too little to be worth the receiver's time.
pub(crate) async fn compress(payload: Bytes) -> (Bytes, bool) {
    let plain = payload.clone();
    let attempt = offloaded(payload.len(), move || {
        zstd::bulk::compress(&payload, LEVEL).ok()
    })
    .await;
    match attempt {
        Some(small) if small.len() as u64 * 100 <= plain.len() as u64 * PAYS_PERCENT => {
            (Bytes::from(small), true)
        }
        _ => (plain, false),
    }
}

/// Restores a payload of `plain_bytes` and compares its checksum. `plain_bytes` is 0 for a payload that was not
/// compressed.
pub(crate) async fn restore(
    payload: Bytes,
    plain_bytes: u32,
    plain_bytes_max: usize,
    checksum: u32,
) -> Result<Bytes, WireError> {
    let plain_bytes = plain_bytes as usize;
    if plain_bytes > plain_bytes_max {
        return Err(WireError::TooLong {
            part: "compressed payload",
            announced: plain_bytes as u64,
            allowed: plain_bytes_max as u64,
        });
    }
    let size = payload.len().max(plain_bytes);
    offloaded(size, move || {
        let plain = if plain_bytes == 0 {
            payload
        } else {
            let plain = zstd::bulk::decompress(&payload, plain_bytes)
                .map_err(|_| WireError::Malformed("compressed payload"))?;
            if plain.len() != plain_bytes {
                return Err(WireError::Malformed("compressed payload"));
            }
            Bytes::from(plain)
        };
        if crc32c::crc32c(&plain) != checksum {
            return Err(WireError::Checksum("payload"));
        }
        Ok(plain)
    })
    .await
}

/// Runs short work in place and long work on a thread of its own.
async fn offloaded<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes < OFFLOAD_BYTES_MIN {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and so does the task that waits for this.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn work_that_the_end_of_a_runtime_prevents_is_no_panic() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.unwrap();
        let handle = runtime.handle().clone();
        runtime.shutdown_background();
        let _entered = handle.enter();
        let mut work = pin!(offloaded(OFFLOAD_BYTES_MIN, || ()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(work.as_mut().poll(&mut context).is_pending());
    }

    /// Sends until `bytes` have passed; counts how many were tried.
    fn pass(gauge: &mut Gauge, bytes: u64, percent: usize) -> u64 {
        let mut tried = 0;
        for _ in 0..bytes / 65536 {
            if gauge.wants(65536) {
                gauge.learn(65536, 65536 * percent / 100);
                tried += 65536;
            }
        }
        tried
    }

    #[test]
    fn what_does_not_shrink_is_soon_sent_as_it_is() {
        let mut gauge = Gauge::new();
        let tried = pass(&mut gauge, 1 << 30, 100);
        assert!(tried < 10 * TRIAL_BYTES, "{tried} bytes were tried in vain");
        assert!(gauge.pause > 0);
    }

    #[test]
    fn what_shrinks_is_always_compressed() {
        let mut gauge = Gauge::new();
        assert_eq!(pass(&mut gauge, 64 << 20, 40), 64 << 20);
    }

    #[test]
    fn a_change_of_what_is_written_is_noticed_within_the_longest_pause() {
        let mut gauge = Gauge::new();
        pass(&mut gauge, 2 << 30, 100);
        let tried = pass(&mut gauge, PAUSE_BYTES_MAX + (8 << 20), 30);
        assert!(tried >= 7 << 20, "{tried}");
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime")
            .block_on(future)
    }

    #[test]
    fn a_compressed_payload_comes_back_whole() {
        for length in [600, 200_000] {
            let plain = Bytes::from(vec![7u8; length]);
            let checksum = crc32c::crc32c(&plain);
            let (small, compressed) = run(compress(plain.clone()));
            assert!(compressed && small.len() < length / 4);
            let back = run(restore(small, length as u32, 1 << 20, checksum)).expect("restores");
            assert_eq!(back, plain);
        }
    }

    #[test]
    fn damage_lies_and_bombs_are_found() {
        let plain = Bytes::from(vec![7u8; 4096]);
        let checksum = crc32c::crc32c(&plain);
        let (small, _) = run(compress(plain.clone()));
        let attempt = |payload: &Bytes, plain_bytes, max, checksum| {
            run(restore(payload.clone(), plain_bytes, max, checksum))
        };
        assert!(
            attempt(&small, 4096, 8192, checksum + 1).is_err(),
            "wrong checksum"
        );
        assert!(
            attempt(&small, 4095, 8192, checksum).is_err(),
            "longer than it says"
        );
        assert!(
            attempt(&small, 4097, 8192, checksum).is_err(),
            "shorter than it says"
        );
        assert!(
            attempt(&small, u32::MAX, 8192, checksum).is_err(),
            "more than a lane carries"
        );
        assert!(
            attempt(&plain, 4096, 8192, checksum).is_err(),
            "not compressed at all"
        );
        assert!(attempt(&plain, 0, 8192, checksum).is_ok());
    }
}
