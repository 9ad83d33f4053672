//! What a running server says about the tree that it keeps with the other replicas of its set.
//!
//! What must never enter: the counting; the replica counts, and here they only get a form that
//! travels.

use std::fmt;

use replica::{ClockView, ControlView, LinkView, PeerView, ReplicaStatus, ScrubView, ShortView};
use serde::{Deserialize, Serialize};
use vfs::Counted;

use super::RejoinStatus;
use super::called;
use super::called::MemberNames;
use super::clocks::ClockText;
use super::scrub;
use super::text::{duration, size};
use super::views::{Summary, ViewStatus};

/// What is said of a server that was removed from its set.
pub(super) const REMOVED: &str = "REMOVED FROM THE SET: it serves nobody; what only it has is still in its data directory. To return, let it join with a new invitation and a new data directory";

/// A replica at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicationStatus {
    /// Its place in the set.
    pub slot: u16,
    /// What the members are called, by slot, this one included; absent in what older servers say.
    #[serde(default)]
    pub names: MemberNames,
    /// Whether it votes only, and keeps no contents; absent in what older servers say.
    #[serde(default)]
    pub witness: bool,
    /// Whether it was removed from the set, and serves nobody; absent in what older servers say.
    #[serde(default)]
    pub removed: bool,
    /// The version of the list of members that it knows.
    pub members_version: u64,
    /// The whole tree is here; until then clients are told to come again.
    pub ready: bool,
    /// When updates are answered where no directory says otherwise: `relaxed` or `majority`.
    pub durability: String,
    /// The other members, by slot.
    pub peers: Vec<ReplicaPeerStatus>,
    /// Controls that this replica acknowledges, its own first, at most two hundred.
    pub controls: Vec<ControlStatus>,
    /// How many there are.
    pub controls_total: u64,
    /// Operations of clients here that were carried out by other replicas.
    pub forwarded: u64,
    /// Operations carried out here for other replicas.
    pub served: u64,
    /// Bytes that clients have written here.
    pub written_bytes: u64,
    /// Bytes of file contents sent to all others together, before compression.
    pub shipped_content_bytes: u64,
    /// Bytes of update records sent to all others together.
    pub shipped_record_bytes: u64,
    /// Promises for its lease that were dropped, because this start of the server had not asked for them.
    #[serde(default)]
    pub dropped_promises: u64,
    /// Messages with updates of a third member that were dropped: not that member's own, or not to be taken at that time.
    #[serde(default)]
    pub refused_relays: u64,
    /// How often the time of day jumped against the clock of leases.
    #[serde(default)]
    pub clock_jumps: u64,
    /// How far this one is on its way back into the view.
    #[serde(default)]
    pub returning: Option<RejoinStatus>,
    /// Files of which part was lost with a server, so that they cannot be read.
    #[serde(default)]
    pub torn_files: u64,
    /// Their paths, not all when there are many.
    #[serde(default)]
    pub torn_paths: Vec<String>,
    /// Who refuses changes, or soon will, for want of room on whose disk.
    #[serde(default)]
    pub short: Vec<ShortView>,
    /// Bytes of memory for what is kept of files that others lack contents of, about.
    #[serde(default)]
    pub kept_bytes: u64,
    /// The limit of these bytes.
    #[serde(default)]
    pub kept_bytes_max: u64,
    /// The slot of a member of the view that lacks more than is kept: changes wait for it, or it leaves.
    #[serde(default)]
    pub too_slow: Option<u16>,
    /// Changes of clients that were refused here because another member's disk has no room.
    #[serde(default)]
    pub space_refusals: u64,
    /// Why its data directory is known to be an older copy, or to have lost its end: it takes no part then.
    #[serde(default)]
    pub rolled_back: Option<String>,
    /// Who takes part; absent in what older servers say.
    #[serde(default)]
    pub view: Option<ViewStatus>,
    /// The comparison of the copies; absent in what older servers say.
    #[serde(default)]
    pub scrub: Option<ScrubView>,
}

/// Another member of the set, as this one sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaPeerStatus {
    /// Its place in the set.
    pub slot: u16,
    /// Whether it keeps no contents.
    #[serde(default)]
    pub witness: bool,
    /// Where it is called.
    pub addresses: Vec<String>,
    /// Whether there is a connection.
    pub connected: bool,
    /// Round-trip time, in microseconds.
    pub round_trip_us: Option<u64>,
    /// How far its time of day is from this server's; absent when it has not answered lately.
    #[serde(default)]
    pub clock: Option<ClockView>,
    /// Bytes sent to it, as they went over the wire.
    pub sent_bytes: u64,
    /// Bytes received from it.
    pub received_bytes: u64,
    /// Bytes of messages that wait here for it, besides updates and contents.
    #[serde(default)]
    pub waiting_bytes: u64,
    /// Updates made here that it lacks.
    pub lag_updates: u64,
    /// Bytes of file contents that it lacks; absent when files count whose length is not known.
    pub lag_bytes: Option<u64>,
    /// Files of which it lacks contents.
    pub lag_files: u64,
    /// For how long it has lacked something, in milliseconds.
    pub lag_ms: u64,
    /// For how long an update of its has been waiting here for what it was made under, in milliseconds; absent: none is.
    #[serde(default)]
    pub update_waits_ms: Option<u64>,
    /// How far it is on its way back into the view, of what this one sends it.
    #[serde(default)]
    pub returning: Option<RejoinStatus>,
    /// Bytes that clients may still fill there, as it said last.
    #[serde(default)]
    pub available_bytes: Option<u64>,
    /// It lacks contents that are not sent, because there is no room for them.
    #[serde(default)]
    pub awaits_room: bool,
    /// Bytes of contents that were sent to it and that it had no room for.
    #[serde(default)]
    pub refused_bytes: u64,
    /// Why it is not connected.
    pub last_error: Option<String>,
    /// Which program it said it is, at the last connection; absent in what older servers say.
    #[serde(default)]
    pub program: Option<String>,
    /// Why its data directory is known to be an older copy, or to have lost its end: it is refused then.
    #[serde(default)]
    pub rolled_back: Option<String>,
    /// What it sent that makes no sense; it is not listened to then, before it is started anew.
    #[serde(default)]
    pub nonsense: Option<String>,
    /// Its links to third members, as it said lately.
    #[serde(default)]
    pub links: Vec<LinkView>,
}

/// A control that is acknowledged here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlStatus {
    /// Its name.
    pub name: String,
    /// The slot of the replica that holds it.
    pub holder: u16,
    /// What it covers.
    pub paths: Vec<String>,
    /// Whether it reaches below those.
    pub deep: bool,
    /// For how long it has been acknowledged here, in milliseconds.
    pub age_ms: u64,
    /// Of this replica's own: why it has not ended.
    pub held_because: Option<String>,
}

impl ReplicationStatus {
    /// What a replica says, with the durability that it was configured with.
    pub(crate) fn new(
        replica: ReplicaStatus,
        view: replica::ViewStatus,
        durability: String,
    ) -> ReplicationStatus {
        ReplicationStatus {
            slot: replica.slot,
            names: MemberNames::new(),
            witness: replica.witness,
            removed: replica.removed,
            members_version: replica.members_version,
            ready: replica.ready,
            durability,
            peers: replica.peers.into_iter().map(peer).collect(),
            controls: replica.controls.into_iter().map(control).collect(),
            controls_total: replica.controls_total as u64,
            forwarded: replica.forwarded,
            served: replica.served,
            written_bytes: replica.bytes_written,
            shipped_content_bytes: replica.content_bytes_shipped,
            shipped_record_bytes: replica.record_bytes_shipped,
            dropped_promises: replica.promises_dropped,
            refused_relays: replica.relays_refused,
            clock_jumps: replica.clock_jumps,
            returning: replica.returning.map(RejoinStatus::from),
            torn_files: replica.torn_files,
            torn_paths: replica.torn_paths,
            short: replica.short,
            kept_bytes: replica.kept_bytes,
            kept_bytes_max: replica.kept_bytes_max,
            too_slow: replica.too_slow,
            space_refusals: replica.space_refusals,
            rolled_back: replica.rolled_back,
            view: Some(ViewStatus::new(view)),
            scrub: None,
        }
    }

    /// With what the members are called.
    pub(crate) fn with_names(self, names: MemberNames) -> ReplicationStatus {
        let view = self.view.map(|view| view.with_names(names.clone()));
        ReplicationStatus {
            names,
            view,
            ..self
        }
    }

    /// With the comparison of the copies, without its findings.
    pub(crate) fn with_scrub(self, scrub: ScrubView) -> ReplicationStatus {
        let scrub = ScrubView {
            findings: Vec::new(),
            ..scrub
        };
        ReplicationStatus {
            scrub: Some(scrub),
            ..self
        }
    }
}

fn peer(view: PeerView) -> ReplicaPeerStatus {
    ReplicaPeerStatus {
        slot: view.slot,
        witness: view.witness,
        addresses: view.addresses,
        connected: view.connected,
        round_trip_us: view.round_trip_seconds.map(|seconds| scaled(seconds, 1e6)),
        clock: view.clock,
        sent_bytes: view.sent_bytes,
        received_bytes: view.received_bytes,
        waiting_bytes: view.waiting_bytes,
        lag_updates: view.lag_updates,
        lag_bytes: view.lag_bytes,
        lag_files: view.lag_files,
        lag_ms: scaled(view.lag_seconds, 1e3),
        update_waits_ms: view.update_waits_seconds.map(|waits| scaled(waits, 1e3)),
        returning: view.returning.map(RejoinStatus::from),
        available_bytes: view.available_bytes,
        awaits_room: view.awaits_room,
        refused_bytes: view.refused_bytes,
        last_error: view.last_error,
        program: view.program,
        rolled_back: view.rolled_back,
        nonsense: view.nonsense,
        links: view.links,
    }
}

fn control(view: ControlView) -> ControlStatus {
    ControlStatus {
        name: view.name,
        holder: view.holder,
        paths: view.paths,
        deep: view.deep,
        age_ms: scaled(view.age_seconds, 1e3),
        held_because: view.held_because.map(str::to_owned),
    }
}

/// Seconds in a smaller unit, rounded. What is no time at all counts as none.
fn scaled(seconds: f64, units: f64) -> u64 {
    // Casts saturate.
    (seconds * units).round() as u64
}

impl fmt::Display for ReplicationStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ready = match (self.witness, self.ready) {
            (false, true) => "ready",
            (false, false) => "being filled; clients are told to come again until it is",
            (true, true) => "a witness: it votes, and has no contents and no clients",
            (true, false) => "a witness that learns the tree",
        };
        let shipped = (
            size(self.shipped_content_bytes),
            size(self.shipped_record_bytes),
        );
        if self.removed {
            return write!(f, "  replica      {}, {REMOVED}", self.slot);
        }
        let own = called::short(&self.names, self.slot);
        writeln!(f, "  replica      {own}, {ready}")?;
        if let Some(view) = &self.view {
            writeln!(f, "  view         {}", Summary(view))?;
        }
        if let Some(returning) = &self.returning {
            writeln!(f, "  returning    {returning}")?;
        }
        if let Some(scrub) = &self.scrub {
            writeln!(f, "  scrub        {}", scrub::Summary(scrub))?;
        }
        writeln!(f, "  durability   {}", self.durability)?;
        writeln!(
            f,
            "  written      {} by clients here",
            size(self.written_bytes)
        )?;
        writeln!(
            f,
            "  shipped      {} of contents, {} of updates",
            shipped.0, shipped.1
        )?;
        write!(
            f,
            "  forwarded    {} operations to others, {} from others",
            self.forwarded, self.served
        )?;
        for peer in &self.peers {
            write!(f, "\n{}", PeerLines(peer, &self.names))?;
        }
        write!(f, "\n  controls     {}", self.controls_total)?;
        self.controls
            .iter()
            .try_for_each(|control| write!(f, "\n{}", Line(control, self)))?;
        match self
            .controls_total
            .saturating_sub(self.controls.len() as u64)
        {
            0 => Ok(()),
            more => write!(f, "\n    … and {more} more"),
        }
    }
}

/// Another member, and what the members are called.
struct PeerLines<'s>(&'s ReplicaPeerStatus, &'s MemberNames);

impl fmt::Display for PeerLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PeerLines(peer, names) = self;
        let kind = if peer.witness { ", a witness" } else { "" };
        let addresses = peer.addresses.join(", ");
        let who = called::short(names, peer.slot);
        writeln!(f, "  peer {who:<7} {addresses}{kind}")?;
        peer.connection(f)?;
        if let Some(bytes) = peer.available_bytes.filter(|_| !peer.witness) {
            write!(f, "\n    room for {} of clients", size(bytes))?;
        }
        peer.shortcomings(f)
    }
}

impl ReplicaPeerStatus {
    fn connection(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.connected, self.round_trip_us, &self.last_error) {
            (true, Some(us), _) => {
                write!(
                    f,
                    "    connected, round trip {}.{} ms",
                    us / 1000,
                    us % 1000 / 100
                )?;
            }
            (true, None, _) => write!(f, "    connected")?,
            (false, _, Some(error)) => write!(f, "    NOT CONNECTED: {error}")?,
            (false, _, None) => write!(f, "    NOT CONNECTED")?,
        }
        let (sent, received) = (size(self.sent_bytes), size(self.received_bytes));
        write!(f, "; sent {sent}, received {received}")?;
        match self.clock {
            Some(clock) => write!(f, "\n    its clock is {}", ClockText(clock)),
            None => Ok(()),
        }
    }

    fn shortcomings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.awaits_room {
            let refused = size(self.refused_bytes);
            write!(
                f,
                "\n    HAS NO ROOM for contents that it lacks; {refused} were sent in vain"
            )?;
        } else if let Some(returning) = &self.returning {
            write!(f, "\n    on its way back, {returning}")?;
        }
        if (self.lag_updates, self.lag_files) == (0, 0) {
            return write!(f, "\n    has everything");
        }
        let bytes = self.lag_bytes.map_or("contents".to_owned(), size);
        write!(
            f,
            "\n    lacks {}, and {bytes} of {}, for {}",
            Counted(self.lag_updates, "update"),
            Counted(self.lag_files, "file"),
            short_time(self.lag_ms)
        )
    }
}

/// A control, as this replica says.
struct Line<'s>(&'s ControlStatus, &'s ReplicationStatus);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line(control, own) = self;
        let holder = match control.holder == own.slot {
            true => "here".to_owned(),
            false => called::replica(&own.names, control.holder),
        };
        let depth = if control.deep { "deep" } else { "shallow" };
        let (paths, age) = (control.paths.join(", "), short_time(control.age_ms));
        write!(f, "    {holder:<10} {depth:<7} {paths}, for {age}")?;
        match &control.held_because {
            Some(reason) => write!(f, "; kept: {reason}"),
            None => Ok(()),
        }
    }
}

/// A time that is mostly short.
pub(crate) fn short_time(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => duration(ms / 1000),
    }
}

#[cfg(test)]
impl ReplicationStatus {
    /// A replica with one peer that lags and one that is away.
    pub(crate) fn example() -> ReplicationStatus {
        let near = ReplicaPeerStatus {
            slot: 1,
            witness: false,
            addresses: vec!["alpha:7643".to_owned()],
            connected: true,
            round_trip_us: Some(120_345),
            clock: Some(ClockView {
                ahead_us: -12_300,
                within_us: 60_200,
            }),
            sent_bytes: 3 << 20,
            received_bytes: 5 << 10,
            waiting_bytes: 512,
            lag_updates: 12,
            lag_bytes: Some(1 << 20),
            lag_files: 2,
            lag_ms: 4200,
            update_waits_ms: None,
            returning: Some(RejoinStatus::example()),
            available_bytes: Some(3 << 30),
            awaits_room: false,
            refused_bytes: 0,
            last_error: None,
            program: Some("0.1.0 (abc1234)".to_owned()),
            rolled_back: None,
            nonsense: None,
            links: vec![LinkView {
                to: 3,
                round_trip_us: Some(61_200),
                lag_updates: 7,
                lag_files: 1,
            }],
        };
        let away = ReplicaPeerStatus {
            slot: 3,
            witness: true,
            addresses: vec!["gamma:7643".to_owned()],
            connected: false,
            round_trip_us: None,
            clock: None,
            lag_updates: 0,
            lag_files: 0,
            returning: None,
            last_error: Some("connection refused".to_owned()),
            links: Vec::new(),
            ..near.clone()
        };
        let own = ControlStatus {
            name: "2.1.7".to_owned(),
            holder: 2,
            paths: vec!["/src".to_owned()],
            deep: true,
            age_ms: 12_300,
            held_because: Some("updates are not everywhere".to_owned()),
        };
        let foreign = ControlStatus {
            name: "1.1.9".to_owned(),
            holder: 1,
            paths: vec!["/notes/today".to_owned()],
            deep: false,
            age_ms: 80,
            held_because: None,
        };
        ReplicationStatus {
            slot: 2,
            names: [(1, "alpha".to_owned())].into(),
            witness: false,
            removed: false,
            members_version: 3,
            ready: true,
            durability: "relaxed".to_owned(),
            peers: vec![near, away],
            controls: vec![own, foreign],
            controls_total: 2,
            forwarded: 7,
            served: 9,
            written_bytes: 4 << 20,
            shipped_content_bytes: 2 << 20,
            shipped_record_bytes: 64 << 10,
            dropped_promises: 1,
            refused_relays: 2,
            clock_jumps: 2,
            returning: None,
            torn_files: 0,
            torn_paths: Vec::new(),
            short: Vec::new(),
            kept_bytes: 3 << 10,
            kept_bytes_max: 1 << 30,
            too_slow: None,
            space_refusals: 0,
            rolled_back: None,
            view: Some(ViewStatus::example()),
            scrub: Some(ScrubView {
                last_finished_unix_s: Some(0),
                ..ScrubView::default()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_reads_well() {
        assert_eq!(
            ReplicationStatus::example().to_string(),
            "  replica      2, ready
  view         6, takes part; replicas 1 2, away 3; lease for 4.2 s
  scrub        last finished 1970-01-01 00:00:00 UTC; found 0, mended 0
  durability   relaxed
  written      4.0 MiB by clients here
  shipped      2.0 MiB of contents, 64.0 KiB of updates
  forwarded    7 operations to others, 9 from others
  peer 1 (alpha) alpha:7643
    connected, round trip 120.3 ms; sent 3.0 MiB, received 5.0 KiB
    its clock is 12 ms behind, to within 61 ms
    room for 3.0 GiB of clients
    on its way back, contents: 3 of 10 files, 4.0 MiB sent, 6.0 MiB left, about 12 s to go
    lacks 12 updates, and 1.0 MiB of 2 files, for 4.2 s
  peer 3       gamma:7643, a witness
    NOT CONNECTED: connection refused; sent 3.0 MiB, received 5.0 KiB
    has everything
  controls     2
    here       deep    /src, for 12.3 s; kept: updates are not everywhere
    replica 1 (alpha) shallow /notes/today, for 80 ms"
        );
    }

    #[test]
    fn times_without_sense_count_as_none() {
        for (seconds, ms) in [(0.0, 0), (1.2346, 1235), (-1.0, 0), (f64::NAN, 0)] {
            assert_eq!(scaled(seconds, 1e3), ms);
        }
    }
}
