//! What a replica reports to people about itself: peers, controls, how far behind others are, what was shipped.

use std::sync::atomic::Ordering;

use control::ClockDifference;
use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

use crate::administration::ViewStatus;
use crate::driver::local_replica::LocalReplica;
use crate::frontend::free_space;
use crate::handle::Replica;
use crate::membership::links::connected;
use crate::shown::{MemberNames, claimed, is_deep, named, names};
use crate::state::rejoins::RejoinView;
use crate::state::scrub::ScrubView;
use crate::state::settings::Durability;
use crate::state::wire::LinkView;

/// At most this many controls are listed.
const LISTED: usize = 200;

/// Reasons are looked up in groups of at most this many: all operations wait for the core meanwhile.
const REASONS_AT_ONCE: usize = 8;

/// At most this many torn files are named.
const TORN_NAMED: usize = 16;

/// A replica at one moment, as `meridian status --json` shows it. Older servers leave out fields with a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaStatus {
    /// Its place in the set.
    pub slot: u16,
    /// The names of the members, this one included.
    #[serde(default)]
    pub names: MemberNames,
    /// It is a witness: it votes, keeps no contents, and serves no clients.
    #[serde(default)]
    pub witness: bool,
    /// It was removed from the set, and serves no clients.
    #[serde(default)]
    pub removed: bool,
    /// The version of the list of members that it knows.
    pub members_version: u64,
    /// The whole tree is here, and clients are answered; until then they are told to try again.
    pub ready: bool,
    /// When updates are answered where no directory says otherwise.
    pub durability: Durability,
    /// The other members, by slot.
    pub peers: Vec<PeerView>,
    /// The controls it acknowledges, its own first; at most two hundred.
    pub controls: Vec<ControlView>,
    /// The number of all controls.
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
    /// Lease grants that were dropped because this start of the server had not requested them.
    #[serde(default)]
    pub dropped_grants: u64,
    /// Relayed updates of other members that were dropped: not made by that member, or not allowed at that time.
    #[serde(default)]
    pub refused_relays: u64,
    /// How often the time of day jumped against the clock of leases.
    #[serde(default)]
    pub clock_jumps: u64,
    /// Its progress on the way back into the view, or into a set that it has joined.
    #[serde(default)]
    pub rejoining: Option<RejoinView>,
    /// Files that lost unstable data in a crash, about which others must still hear.
    #[serde(default)]
    pub recovering_files: u64,
    /// Files that lost a part with a replica, so that they cannot be read.
    #[serde(default)]
    pub torn_files: u64,
    /// The first paths of torn files.
    #[serde(default)]
    pub torn_paths: Vec<String>,
    /// Members that refuse changes, or soon will, because a disk lacks space.
    #[serde(default)]
    pub short: Vec<ShortView>,
    /// How many entries memory keeps about what others lack, or may not know. The number does not grow with the time that a replica is away.
    #[serde(default)]
    pub kept_entries: u64,
    /// Approximate memory, in bytes, for files whose contents others lack.
    #[serde(default)]
    pub kept_bytes: u64,
    /// The limit of `kept_bytes`.
    #[serde(default)]
    pub kept_bytes_max: u64,
    /// The slot of a member that lacks more than is kept: changes wait for it, or it is excluded.
    #[serde(default)]
    pub too_slow: Option<u16>,
    /// Changes of clients that were refused here because another member's disk has no space.
    #[serde(default)]
    pub space_refusals: u64,
    /// Why its data directory is known to be an older copy, or truncated: it takes no part then.
    #[serde(default)]
    pub rolled_back: Option<String>,
    /// The view, without the decisions.
    #[serde(default)]
    pub view: Option<ViewStatus>,
    /// The comparison of the copies, without its findings.
    #[serde(default)]
    pub scrub: Option<ScrubView>,
}

/// A disk with too little space, and a member that refuses changes because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortView {
    /// The member that refuses.
    pub by: u16,
    /// The member whose disk it is.
    pub of: u16,
}

/// Another member of the set, as this one sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerView {
    /// Its place in the set.
    pub slot: u16,
    /// It is a witness: it keeps no contents.
    #[serde(default)]
    pub witness: bool,
    /// Where it listens.
    pub addresses: Vec<String>,
    /// There is a session with it.
    pub connected: bool,
    /// Round-trip time of the control connection, in microseconds.
    pub round_trip_us: Option<u64>,
    /// How far its time of day is from this replica's; `None` if it has not answered within a site lease.
    #[serde(default)]
    pub clock: Option<ClockDifference>,
    /// Bytes sent to it, as they went over the wire.
    pub sent_bytes: u64,
    /// Bytes received from it.
    pub received_bytes: u64,
    /// Bytes of messages that wait here for it, without contents and updates.
    #[serde(default)]
    pub waiting_bytes: u64,
    /// Updates made here that it has not acknowledged.
    pub lag_updates: u64,
    /// Bytes of file contents that it lacks, at most; `None` if the length of a file is not known.
    pub lag_bytes: Option<u64>,
    /// Files that it lacks in part.
    pub lag_files: u64,
    /// Of these, files whose contents wait because clients keep this server busy.
    #[serde(default)]
    pub resting_files: u64,
    /// For how long it has lacked something, in milliseconds.
    pub lag_ms: u64,
    /// How long an update of that member has been waiting here for controls or for updates of others, in milliseconds; `None` if none waits.
    #[serde(default)]
    pub update_waits_ms: Option<u64>,
    /// Its progress on the way back into the view, in what this replica sends it.
    #[serde(default)]
    pub rejoining: Option<RejoinView>,
    /// Bytes that users may still fill there, by its latest report. A witness has none to fill.
    #[serde(default)]
    pub available_bytes: Option<u64>,
    /// It lacks contents that are not sent because it has no space.
    #[serde(default)]
    pub awaits_space: bool,
    /// Bytes of contents that were sent to it without space for them.
    #[serde(default)]
    pub refused_bytes: u64,
    /// Messages of it that were dropped because it may not send them.
    #[serde(default)]
    pub refused_messages: u64,
    /// Why it is not connected.
    pub last_error: Option<String>,
    /// The program that it reported at the last connection.
    #[serde(default)]
    pub program: Option<String>,
    /// Why its data directory is known to be an older copy, or truncated: it is refused then.
    #[serde(default)]
    pub rolled_back: Option<String>,
    /// What it sent that makes no sense; it is ignored then until it restarts.
    #[serde(default)]
    pub nonsense: Option<String>,
    /// Its links to other members, by its latest report.
    #[serde(default)]
    pub links: Vec<LinkView>,
}

/// One control that is acknowledged here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlView {
    /// Its name.
    pub name: String,
    /// The slot of the replica that holds it.
    pub holder: u16,
    /// What it covers: paths where they are known, else object identifiers.
    pub paths: Vec<String>,
    /// Whether it reaches below its objects.
    pub deep: bool,
    /// For how long it has been acknowledged here, in milliseconds.
    pub age_ms: u64,
    /// For own controls: why it has not ended.
    pub held_because: Option<String>,
}

/// Seconds in a smaller unit, rounded. Invalid times count as zero.
fn scaled(seconds: f64, units: f64) -> u64 {
    // Casts saturate.
    (seconds * units).round() as u64
}

impl Replica {
    /// The replica as it is now. Reads the store, so other work must not wait for the calling thread.
    #[must_use]
    pub fn status(&self) -> ReplicaStatus {
        let replica = self.local();
        let (controls, controls_total) = controls(replica);
        let metrics = &replica.state.metrics;
        let list = replica.state.members.list();
        let torn = replica.store.torn();
        let torn_named = torn.iter().take(TORN_NAMED);
        ReplicaStatus {
            slot: replica.slot().0,
            names: names(replica),
            witness: replica.state.is_witness,
            removed: replica.state.members.is_removed(),
            members_version: list.version,
            ready: replica.is_whole()
                && !replica.lease.is_barred()
                && !replica.state.members.is_removed(),
            durability: replica.state.settings.durability,
            peers: peers(replica),
            controls,
            controls_total,
            forwarded: metrics.forwarded.load(Ordering::Relaxed),
            served: metrics.served.load(Ordering::Relaxed),
            written_bytes: replica.store.statistics().bytes_written,
            shipped_content_bytes: metrics.content_bytes.load(Ordering::Relaxed),
            shipped_record_bytes: metrics.record_bytes.load(Ordering::Relaxed),
            dropped_grants: replica.lease.unbelieved(),
            refused_relays: metrics.relays_refused.load(Ordering::Relaxed),
            clock_jumps: replica.lease.jumps(),
            rejoining: (!replica.lease.is_up_to_date())
                .then(|| replica.state.peers.own_rejoin())
                .flatten(),
            recovering_files: metrics.recovering.load(Ordering::Relaxed),
            torn_files: torn.len() as u64,
            torn_paths: torn_named.map(|file| named(replica, *file)).collect(),
            short: free_space::shortages(replica)
                .into_iter()
                .map(|(by, of)| ShortView { by: by.0, of: of.0 })
                .collect(),
            kept_entries: kept_entries(replica) as u64,
            kept_bytes: replica.kept_bytes(),
            kept_bytes_max: replica.state.settings.kept_memory,
            too_slow: replica.awaited().map(|slot| slot.0),
            space_refusals: replica.state.free_space.refused(),
            rolled_back: replica.state.lineage.fault().map(|fault| fault.of_own()),
            view: Some(ViewStatus {
                audit: Vec::new(),
                ..self.view_status()
            }),
            scrub: Some(ScrubView {
                findings: Vec::new(),
                ..self.scrub_status()
            }),
        }
    }

    /// Only the other members.
    #[must_use]
    pub fn peers(&self) -> Vec<PeerView> {
        peers(self.local())
    }

    /// The state of the scrub.
    #[must_use]
    pub fn scrub_status(&self) -> ScrubView {
        self.local().state.scrub.view(&self.local().store)
    }

    /// Bytes sent to and received from all other members together since the start, as they went over the wire.
    #[must_use]
    pub fn wire_bytes(&self) -> (u64, u64) {
        let endpoint = self.local().endpoint.get();
        let peers = endpoint.map_or_else(Vec::new, peer::Endpoint::status);
        let sent = peers.iter().map(|peer| peer.sent_bytes).sum();
        let received = peers.iter().map(|peer| peer.received_bytes).sum();
        (sent, received)
    }
}

fn kept_entries(replica: &LocalReplica) -> usize {
    let kept = replica.engine.entries_kept();
    kept + replica.state.conversations.listed()
}

fn peers(replica: &LocalReplica) -> Vec<PeerView> {
    let lags = replica.engine.lags();
    let connected = connected(replica);
    let transport = replica
        .endpoint
        .get()
        .map_or_else(Vec::new, peer::Endpoint::status);
    let list = replica.state.members.list();
    let here = |slot| {
        slot != replica.slot()
            && replica.state.members.is_member(slot)
            && !replica.state.members.is_removed()
    };
    let members = list.members.iter();
    let others = members.filter(|member| here(ReplicaSlot(member.slot)));
    others
        .map(|member| {
            let slot = ReplicaSlot(member.slot);
            let wire = transport.iter().find(|status| status.slot == slot);
            let lag = lags.get(&slot);
            let bytes = lag.map_or(0, |lag| lag.bytes);
            let is_connected = connected.contains(&slot);
            // A witness has no space for contents, and needs none.
            let available = replica
                .state
                .peers
                .available_at(slot)
                .filter(|_| !member.witness);
            let (rejoining, nonsense, awaits_space, refused_bytes) =
                replica.state.peers.with(slot, |known| {
                    let space = &known.shipments;
                    (
                        known.rejoin.of_peer(),
                        known.nonsense.told(),
                        space.awaits_space(),
                        space.refused_bytes(),
                    )
                });
            PeerView {
                slot: member.slot,
                witness: member.witness,
                addresses: member.addresses.clone(),
                connected: is_connected,
                round_trip_us: wire
                    .and_then(|wire| wire.rtt)
                    .map(|rtt| scaled(rtt.as_secs_f64(), 1e6)),
                clock: clock_of(replica, slot),
                sent_bytes: wire.map_or(0, |wire| wire.sent_bytes),
                received_bytes: wire.map_or(0, |wire| wire.received_bytes),
                waiting_bytes: replica.state.outbound.waiting_bytes(slot),
                lag_updates: lag.map_or(0, |lag| lag.updates),
                lag_bytes: (bytes < u64::MAX).then_some(bytes),
                lag_files: lag.map_or(0, |lag| lag.files),
                resting_files: lag.map_or(0, |lag| lag.resting),
                lag_ms: lag.map_or(0, |lag| scaled(lag.seconds, 1e3)),
                update_waits_ms: update_waits(replica, slot),
                rejoining: rejoining.filter(|_| is_connected),
                available_bytes: available,
                awaits_space,
                refused_bytes,
                last_error: wire.and_then(|wire| wire.last_error.clone()),
                program: wire.and_then(|wire| wire.program.clone()),
                rolled_back: (replica.state.lineage.fault_of(slot))
                    .map(|fault| fault.of_other(slot.0)),
                nonsense,
                links: links_of(replica, slot),
                refused_messages: wire.map_or(0, |wire| wire.refused),
            }
        })
        .collect()
}

fn update_waits(replica: &LocalReplica, of: ReplicaSlot) -> Option<u64> {
    let inbox = replica.state.inboxes.get(of)?;
    let waits = inbox.stuck_for()?;
    Some(scaled(waits.as_secs_f64(), 1e3))
}

fn clock_of(replica: &LocalReplica, peer: ReplicaSlot) -> Option<ClockDifference> {
    let news = replica.state.peers.news();
    let lately = news
        .get(&peer)
        .filter(|news| news.heard.elapsed() < replica.state.settings.site_lease);
    lately?.clock.best()
}

/// A peer's recent report about its links to other members.
fn links_of(replica: &LocalReplica, peer: ReplicaSlot) -> Vec<LinkView> {
    let news = replica.state.peers.news();
    let said = news.get(&peer).and_then(|news| news.said.as_ref());
    let said = said.filter(|(_, at)| at.elapsed() < replica.state.settings.site_lease);
    let links = said.into_iter().flat_map(|(request, _)| &request.links);
    let is_third =
        |slot: ReplicaSlot| slot != replica.slot() && replica.state.members.is_member(slot);
    let thirds = links.filter(|link| is_third(ReplicaSlot(link.to)));
    thirds.copied().collect()
}

fn controls(replica: &LocalReplica) -> (Vec<ControlView>, u64) {
    let own = replica.slot();
    let (mut found, total) = replica.engine.controls(LISTED);
    found.sort_by_key(|(proposal, _)| (proposal.name.holder != own, proposal.name));
    let mut reasons = Vec::new();
    for some in found.chunks(REASONS_AT_ONCE) {
        let names = some.iter().map(|(proposal, _)| proposal.name);
        reasons.extend(replica.engine.held_because(names));
    }
    let views = found
        .into_iter()
        .zip(reasons)
        .map(|((proposal, age_seconds), held_because)| ControlView {
            name: proposal.name.to_string(),
            holder: proposal.name.holder.0,
            paths: claimed(replica, &proposal),
            deep: is_deep(&proposal),
            age_ms: scaled(age_seconds, 1e3),
            held_because: held_because.map(str::to_owned),
        });
    (views.collect(), total as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_sense_count_as_none() {
        for (seconds, ms) in [(0.0, 0), (1.2346, 1235), (-1.0, 0), (f64::NAN, 0)] {
            assert_eq!(scaled(seconds, 1e3), ms);
        }
    }
}
