//! The status of the tree that a server keeps with the other replicas of its set, for people.
//!
//! What must never enter: counting; the replica does that.

use std::fmt;

use replica::{ControlView, MemberNames, PeerView, ReplicaStatus};
use vfs::Counted;

use super::called;
use super::clocks::ClockText;
use super::rejoining::RejoinText;
use super::scrub;
use super::text::{duration, size};
use super::views::Summary;

/// The message about a server that was removed from its set.
pub(super) const REMOVED: &str = "REMOVED FROM THE SET: it serves nobody; what only it has is still in its data directory. To return, let it join with a new invitation and a new data directory";

/// The status of a replica, for people.
pub(super) struct ReplicaText<'s>(pub(super) &'s ReplicaStatus);

impl fmt::Display for ReplicaText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReplicaText(replica) = self;
        let ready = match (replica.witness, replica.ready) {
            (false, true) => "ready",
            (false, false) => "being filled; clients are told to come again until it is",
            (true, true) => "a witness: it votes, and has no contents and no clients",
            (true, false) => "a witness that learns the tree",
        };
        let shipped = (
            size(replica.shipped_content_bytes),
            size(replica.shipped_record_bytes),
        );
        if replica.removed {
            return write!(f, "  replica      {}, {REMOVED}", replica.slot);
        }
        let own = called::short(&replica.names, replica.slot);
        writeln!(f, "  replica      {own}, {ready}")?;
        if let Some(view) = &replica.view {
            writeln!(f, "  view         {}", Summary(view))?;
        }
        if let Some(rejoining) = &replica.rejoining {
            writeln!(f, "  rejoining    {}", RejoinText(rejoining))?;
        }
        if let Some(scrub) = &replica.scrub {
            writeln!(f, "  scrub        {}", scrub::Summary(scrub))?;
        }
        writeln!(f, "  durability   {}", replica.durability.name())?;
        writeln!(
            f,
            "  written      {} by clients here",
            size(replica.written_bytes)
        )?;
        writeln!(
            f,
            "  shipped      {} of contents, {} of updates",
            shipped.0, shipped.1
        )?;
        write!(
            f,
            "  forwarded    {} operations to others, {} from others",
            replica.forwarded, replica.served
        )?;
        for peer in &replica.peers {
            write!(f, "\n{}", PeerLines(peer, &replica.names))?;
        }
        write!(f, "\n  controls     {}", replica.controls_total)?;
        replica
            .controls
            .iter()
            .try_for_each(|control| write!(f, "\n{}", ControlLine(control, replica)))?;
        match replica
            .controls_total
            .saturating_sub(replica.controls.len() as u64)
        {
            0 => Ok(()),
            more => write!(f, "\n    … and {more} more"),
        }
    }
}

/// Another member, with the names of all members.
struct PeerLines<'s>(&'s PeerView, &'s MemberNames);

impl fmt::Display for PeerLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PeerLines(peer, names) = self;
        let kind = if peer.witness { ", a witness" } else { "" };
        let addresses = peer.addresses.join(", ");
        let who = called::short(names, peer.slot);
        writeln!(f, "  peer {who:<7} {addresses}{kind}")?;
        connection(peer, f)?;
        if let Some(bytes) = peer.available_bytes.filter(|_| !peer.witness) {
            write!(f, "\n    space for {} of clients", size(bytes))?;
        }
        shortcomings(peer, f)
    }
}

/// The state of its connection.
fn connection(peer: &PeerView, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match (peer.connected, peer.round_trip_us, &peer.last_error) {
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
    let (sent, received) = (size(peer.sent_bytes), size(peer.received_bytes));
    write!(f, "; sent {sent}, received {received}")?;
    match peer.clock {
        Some(clock) => write!(f, "\n    its clock is {}", ClockText(clock)),
        None => Ok(()),
    }
}

/// The data that it lacks.
fn shortcomings(peer: &PeerView, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if peer.awaits_space {
        let refused = size(peer.refused_bytes);
        write!(
            f,
            "\n    HAS NO SPACE for contents that it lacks; {refused} were sent in vain"
        )?;
    } else if let Some(rejoining) = &peer.rejoining {
        write!(f, "\n    on its way back, {}", RejoinText(rejoining))?;
    }
    if (peer.lag_updates, peer.lag_files) == (0, 0) {
        return write!(f, "\n    has everything");
    }
    let bytes = peer.lag_bytes.map_or("contents".to_owned(), size);
    write!(
        f,
        "\n    lacks {}, and {bytes} of {}, for {}",
        Counted(peer.lag_updates, "update"),
        Counted(peer.lag_files, "file"),
        short_time(peer.lag_ms)
    )
}

/// A control, as this replica knows it.
struct ControlLine<'s>(&'s ControlView, &'s ReplicaStatus);

impl fmt::Display for ControlLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ControlLine(control, own) = self;
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

/// A time that is usually short.
pub(crate) fn short_time(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => duration(ms / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::examples;

    #[test]
    fn a_replica_reads_well() {
        assert_eq!(
            ReplicaText(&examples::replica()).to_string(),
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
    space for 3.0 GiB of clients
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

    /// Scripts and servers of other versions read them.
    #[test]
    fn the_keys_of_a_status_stay() {
        let told = serde_json::to_value(examples::replica()).unwrap();
        let keys = |part: &str| {
            let object = told.pointer(part).unwrap().as_object().unwrap();
            let mut keys: Vec<&str> = object.keys().map(String::as_str).collect();
            keys.sort_unstable();
            keys.join(" ")
        };
        assert_eq!(
            keys(""),
            "clock_jumps controls controls_total dropped_grants durability forwarded kept_bytes kept_bytes_max \
             kept_entries members_version names peers ready recovering_files refused_relays rejoining removed rolled_back \
             scrub served shipped_content_bytes shipped_record_bytes short slot space_refusals too_slow torn_files \
             torn_paths view witness written_bytes"
        );
        assert_eq!(
            keys("/peers/0"),
            "addresses available_bytes awaits_space clock connected lag_bytes lag_files lag_ms lag_updates last_error \
             links nonsense program received_bytes refused_bytes refused_messages rejoining resting_files rolled_back \
             round_trip_us sent_bytes slot update_waits_ms waiting_bytes witness"
        );
        let rejoin = "bytes_done bytes_left objects_done objects_left seconds_left stage";
        assert_eq!(keys("/peers/0/rejoining"), rejoin);
        let control = "age_ms deep held_because holder name paths";
        assert_eq!(keys("/controls/0"), control);
        let view = "epoch leader lease_ms losses members names obstacle takes_part up_to_date voters voters_change";
        assert_eq!(keys("/view"), view);
        assert_eq!(told["durability"], "relaxed");
        let back: ReplicaStatus = serde_json::from_value(told.clone()).unwrap();
        assert_eq!(back, examples::replica());
    }
}
