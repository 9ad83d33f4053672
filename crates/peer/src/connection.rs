//! One connection of one lane after its hello: a writer that empties the outbox, and a reader that fills the inbox.
//! Both end together. The state of the lane stays for the next connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::Instant;

use crate::compression;
use crate::flow::{Arrival, LaneState, Outgoing, ReportDue, locked};
use crate::keepalive::Keepalive;
use crate::message::{Lane, Message};
use crate::session::SessionState;
use crate::wire::{Frame, Header, Role, WireError, encode_frame, read_frame};

/// How long a report may wait for a message to travel with. Such a report only frees memory: if the peer may be waiting, the report is sent at once. Members
/// that only keep their leases send a message in each direction within this time.
const REPORT_DELAY: Duration = Duration::from_secs(1);

/// Payloads up to this size are copied behind their header, so that both share one TLS record.
const COPIED_BYTES_MAX: usize = 8 * 1024;

/// Waiting messages are written together up to about this size: they share a TLS record, a system call, and a wake-up of the peer.
const TOGETHER_BYTES: usize = 16 * 1024;

/// What the two halves of one connection share.
struct Connection {
    session: Arc<SessionState>,
    lane: Arc<LaneState>,
    generation: u64,
    keepalive: Keepalive,
    began: Instant,
    /// The ping to echo, or 0.
    echo: AtomicU64,
    /// When the last frame arrived, by [`Connection::clock`].
    heard: AtomicU64,
}

/// When the writer sends a frame although it has no message. Each side sends a frame within one and a half intervals
/// ([`Keepalive`]), so that the other side's reader sees that the peer is alive. This needs no answer. The control lane
/// measures the round trip: it sends a ping in each interval, with or without messages, as soon as no message waits.
struct Schedule {
    keepalive: Keepalive,
    pings: bool,
    due: Instant,
}

impl Schedule {
    /// The first frame is due at once.
    fn new(lane: Lane, keepalive: Keepalive) -> Schedule {
        Schedule {
            keepalive,
            pings: lane == Lane::Control,
            due: Instant::now(),
        }
    }

    fn is_due(&self) -> bool {
        Instant::now() >= self.due
    }

    /// Whether the next frame carries a ping. If it does, the next ping is due at the next moment of the keepalive.
    fn takes_ping(&mut self) -> bool {
        let ping = self.pings && self.is_due();
        if ping {
            self.due = self.keepalive.next(Instant::now());
        }
        ping
    }

    /// A frame was sent. It postpones a frame whose only purpose is to show that this side is alive.
    fn wrote(&mut self) {
        if !self.pings {
            self.due = self.keepalive.next(Instant::now());
        }
    }
}

/// Runs a connection until it breaks, is superseded, or its session ends. `generation` comes from
/// [`LaneState::begin_connection`].
pub(crate) async fn run<S: AsyncRead + AsyncWrite + Send + 'static>(
    session: Arc<SessionState>,
    lane: Arc<LaneState>,
    generation: u64,
    stream: S,
    keepalive: Keepalive,
) -> Result<(), WireError> {
    let keepalive = keepalive.of(lane.lane);
    let (reader, writer) = tokio::io::split(stream);
    let connection = Connection {
        session,
        lane,
        generation,
        keepalive,
        began: Instant::now(),
        echo: AtomicU64::new(0),
        heard: AtomicU64::new(0),
    };
    let ended = tokio::select! {
        // Arrived frames are read before silence is checked: a process that was paused has not read them yet.
        biased;
        ended = connection.read(reader) => ended,
        ended = connection.write(writer) => ended,
        () = connection.silence() => Err(WireError::Silent),
        () = connection.lane.superseded(generation) => Ok(()),
        () = connection.session.fell_silent() => Err(WireError::Silent),
        () = connection.session.ended() => Ok(()),
    };
    connection.lane.end_connection(generation);
    // This writer may have consumed a wake-up that was meant for the next one.
    connection.lane.wake.notify_one();
    ended
}

impl Connection {
    async fn write<S: AsyncWrite>(&self, mut writer: WriteHalf<S>) -> Result<(), WireError> {
        let mut together = BytesMut::new();
        let mut schedule = Schedule::new(self.lane.lane, self.keepalive);
        loop {
            if !self.lane.is_current(self.generation) {
                return Ok(());
            }
            let next = locked(&self.lane.outbox).transmit();
            let is_last = next.is_none();
            let apart = next
                .and_then(|(sequence, message)| self.put_message(&mut together, sequence, message));
            if is_last && together.is_empty() {
                if schedule.is_due() || self.owes_now() {
                    let ping = schedule.takes_ping();
                    self.put_quiet(&mut together, ping);
                } else {
                    writer.flush().await?;
                    self.wait_for_work(schedule.due).await;
                    continue;
                }
            }
            if is_last || apart.is_some() || together.len() >= TOGETHER_BYTES {
                writer.write_all(&together).await?;
                writer.write_all(&apart.unwrap_or_default()).await?;
                together.clear();
                schedule.wrote();
            }
        }
    }

    fn owes_now(&self) -> bool {
        self.echo.load(Ordering::Relaxed) != 0
            || locked(&self.lane.inbox).report_due() == ReportDue::Now
    }

    /// Returns when there is a message, a report or an echo to send, or a frame is due. A report that may wait becomes
    /// due after the delay, unless a message carries it first.
    async fn wait_for_work(&self, due: Instant) {
        let owed = locked(&self.lane.inbox).report_due();
        if owed == ReportDue::Now {
            return;
        }
        let soon = Instant::now() + REPORT_DELAY;
        let patience = match owed {
            ReportDue::Never => due,
            _ => due.min(soon),
        };
        self.lane.note_looks_soon(patience <= soon);
        tokio::select! {
            () = self.lane.wake.notified() => {}
            () = tokio::time::sleep_until(patience) => locked(&self.lane.inbox).expedite(),
        }
        self.lane.note_looks_soon(false);
    }

    /// Puts a message behind others that are to be written. Returns its payload if that is to be written apart, behind them.
    fn put_message(
        &self,
        together: &mut BytesMut,
        sequence: u64,
        message: Outgoing,
    ) -> Option<Bytes> {
        let payload = message.payload;
        let header = Header {
            sequence,
            role: message.role.into(),
            request: message.request,
            kind: message.kind,
            body: message.body,
            payload_checksum: message.payload_checksum,
            plain_bytes: message.plain_bytes,
            ..self.report()
        };
        let before = together.len();
        encode_frame(&header, payload.len(), together);
        let sent = together.len() - before + payload.len();
        self.session.counters.sent(sent);
        if payload.len() > COPIED_BYTES_MAX {
            return Some(payload);
        }
        together.extend_from_slice(&payload);
        None
    }

    fn put_quiet(&self, together: &mut BytesMut, ping: bool) {
        let header = Header {
            ping: if ping { self.clock() } else { 0 },
            ..self.report()
        };
        let before = together.len();
        encode_frame(&header, 0, together);
        self.session.counters.sent(together.len() - before);
    }

    /// The part of a header that every frame has.
    fn report(&self) -> Header {
        let (acknowledged, credit) = locked(&self.lane.inbox).report();
        Header {
            acknowledged,
            credit,
            pong: self.echo.swap(0, Ordering::Relaxed),
            ..Header::default()
        }
    }

    /// Microseconds since this connection began, never 0.
    fn clock(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros())
            .unwrap_or(u64::MAX)
            .max(1)
    }

    async fn read<S: AsyncRead>(&self, mut reader: ReadHalf<S>) -> Result<(), WireError> {
        let payload_bytes_max = self.lane.lane.max_payload_bytes();
        loop {
            let frame = read_frame(&mut reader, payload_bytes_max).await?;
            self.heard.store(self.clock(), Ordering::Relaxed);
            self.session
                .counters
                .received(frame.payload.len() + frame.header.body.len());
            self.take_report(&frame.header)?;
            if frame.header.sequence != 0 {
                self.take_message(frame).await?;
            }
        }
    }

    /// Returns when no frame has arrived for three intervals. A timer per frame would wake an idle process more often
    /// than its frames do.
    async fn silence(&self) {
        loop {
            let heard = Duration::from_micros(self.heard.load(Ordering::Relaxed));
            let latest = self.began + heard + self.keepalive.patience();
            if Instant::now() >= latest {
                if self.lane.lane == Lane::Control {
                    self.session.fall_silent();
                }
                return;
            }
            tokio::time::sleep_until(latest).await;
        }
    }

    fn take_report(&self, header: &Header) -> Result<(), WireError> {
        let more_credit = {
            let mut outbox = locked(&self.lane.outbox);
            outbox.acknowledge(header.acknowledged)?;
            outbox.extend_credit(header.credit)
        };
        self.lane.notify_of_space();
        if header.ping != 0 {
            self.echo.store(header.ping, Ordering::Relaxed);
        }
        if more_credit || header.ping != 0 {
            self.lane.wake.notify_one();
        }
        if header.pong != 0 {
            let now = self.clock();
            self.session
                .counters
                .measured_rtt(self.lane.lane, now.saturating_sub(header.pong));
        }
        Ok(())
    }

    /// Verifies a message completely before it counts as received. A message that fails is sent again.
    async fn take_message(&self, frame: Frame) -> Result<(), WireError> {
        let Frame { header, payload } = frame;
        if locked(&self.lane.inbox).is_duplicate(header.sequence) {
            return Ok(());
        }
        let role = Role::try_from(header.role).map_err(|_| WireError::Malformed("role"))?;
        if role == Role::Quiet {
            return Err(WireError::Violation("a quiet frame has no number"));
        }
        if header.body.len() > Message::MAX_BODY_BYTES {
            return Err(WireError::Violation("a body is too long"));
        }
        let payload = compression::restore(
            payload,
            header.plain_bytes,
            self.lane.lane.max_payload_bytes(),
            header.payload_checksum,
        )
        .await?;
        let arrived = Arrived {
            role,
            request: header.request,
            message: Message {
                kind: header.kind,
                body: header.body,
                payload,
            },
        };
        let due = {
            let mut inbox = locked(&self.lane.inbox);
            // Under one lock: a message that counts as received is already on its way to the handler.
            if inbox.accept(header.sequence, arrived.credit())? == Arrival::Fresh {
                self.session.deliver(&self.lane, arrived);
            }
            inbox.report_due()
        };
        self.lane.wake_for_report(due);
        Ok(())
    }
}

/// A message that arrived completely, on its way to the handler or to the caller of a request.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub role: Role,
    pub request: u64,
    pub message: Message,
}

impl Arrived {
    /// How much of the granted credit the message used.
    pub(crate) fn credit(&self) -> u64 {
        match self.role {
            Role::OneWay | Role::Request => self.message.cost(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use vfs::ReplicaSlot;

    use super::*;
    use crate::handler::Sender;
    use crate::identity::Incarnation;
    use crate::settings::Settings;

    const INTERVAL: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn a_message_puts_off_the_frame_that_only_shows_that_a_side_is_there() {
        let mut schedule = Schedule::new(Lane::Data, Keepalive::new(INTERVAL));
        assert!(schedule.is_due() && !schedule.takes_ping());
        schedule.wrote();
        tokio::time::advance(INTERVAL / 2).await;
        schedule.wrote();
        tokio::time::advance(INTERVAL / 2).await;
        assert!(!schedule.is_due());
        tokio::time::advance(INTERVAL).await;
        assert!(schedule.is_due());
    }

    #[tokio::test(start_paused = true)]
    async fn the_control_lane_pings_in_each_interval_though_there_are_messages() {
        let mut schedule = Schedule::new(Lane::Control, Keepalive::new(INTERVAL));
        assert!(schedule.takes_ping() && !schedule.takes_ping());
        tokio::time::advance(INTERVAL / 2).await;
        schedule.wrote();
        tokio::time::advance(INTERVAL / 2).await;
        assert!(schedule.is_due() && schedule.takes_ping());
    }

    #[tokio::test(start_paused = true)]
    async fn all_connections_are_given_up_with_a_control_lane_that_is_silent() {
        let peer = Sender {
            slot: ReplicaSlot(2),
            incarnation: Incarnation(1),
        };
        let (session, _outlets) = SessionState::new(peer, 1, &Settings::default(), Arc::default());
        let session = Arc::new(session);
        let keepalive = Keepalive::new(INTERVAL);
        let began = Instant::now();
        let begin = |lane: &Arc<LaneState>| {
            // The other end reads the frames and sends none.
            let (near, far) = tokio::io::duplex(1 << 16);
            let generation = lane.begin_connection();
            let running = run(session.clone(), lane.clone(), generation, near, keepalive);
            (tokio::spawn(running), far)
        };
        let connections: Vec<_> = session.lanes.iter().map(begin).collect();
        for (running, _far) in connections {
            let ended = running.await.unwrap();
            assert!(matches!(ended, Err(WireError::Silent)), "{ended:?}");
        }
        assert!(began.elapsed() < keepalive.of(Lane::Data).patience());
    }
}
