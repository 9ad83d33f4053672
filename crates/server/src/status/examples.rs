//! Statuses of replicas for tests.

use std::collections::BTreeSet;

use replica::{
    ClockDifference, ControlView, Durability, LinkView, LossView, MemberView, PeerView, RejoinView,
    ReplicaStatus, ScrubView, Stage, ViewStatus,
};

/// A replica with one peer that lags and one that is away.
pub(crate) fn replica() -> ReplicaStatus {
    let near = PeerView {
        slot: 1,
        witness: false,
        addresses: vec!["alpha:7643".to_owned()],
        connected: true,
        round_trip_us: Some(120_345),
        clock: Some(ClockDifference {
            ahead_us: -12_300,
            within_us: 60_200,
        }),
        sent_bytes: 3 << 20,
        received_bytes: 5 << 10,
        waiting_bytes: 512,
        lag_updates: 12,
        lag_bytes: Some(1 << 20),
        lag_files: 2,
        resting_files: 1,
        lag_ms: 4200,
        update_waits_ms: None,
        rejoining: Some(rejoin()),
        available_bytes: Some(3 << 30),
        awaits_space: false,
        refused_bytes: 0,
        refused_messages: 0,
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
    let away = PeerView {
        slot: 3,
        witness: true,
        addresses: vec!["gamma:7643".to_owned()],
        connected: false,
        round_trip_us: None,
        clock: None,
        lag_updates: 0,
        lag_files: 0,
        resting_files: 0,
        rejoining: None,
        last_error: Some("connection refused".to_owned()),
        links: Vec::new(),
        ..near.clone()
    };
    ReplicaStatus {
        slot: 2,
        names: [(1, "alpha".to_owned())].into(),
        witness: false,
        removed: false,
        members_version: 3,
        ready: true,
        durability: Durability::Relaxed,
        peers: vec![near, away],
        controls: controls(),
        controls_total: 2,
        forwarded: 7,
        served: 9,
        written_bytes: 4 << 20,
        shipped_content_bytes: 2 << 20,
        shipped_record_bytes: 64 << 10,
        dropped_grants: 1,
        refused_relays: 2,
        clock_jumps: 2,
        rejoining: None,
        recovering_files: 0,
        torn_files: 0,
        torn_paths: Vec::new(),
        short: Vec::new(),
        kept_entries: 0,
        kept_bytes: 3 << 10,
        kept_bytes_max: 1 << 30,
        too_slow: None,
        space_refusals: 0,
        rolled_back: None,
        view: Some(view()),
        scrub: Some(ScrubView {
            last_finished_unix_s: Some(0),
            ..ScrubView::default()
        }),
    }
}

/// One of its own controls, and one of another replica.
fn controls() -> Vec<ControlView> {
    let own = ControlView {
        name: "2.1.7".to_owned(),
        holder: 2,
        paths: vec!["/src".to_owned()],
        deep: true,
        age_ms: 12_300,
        held_because: Some("updates are not everywhere".to_owned()),
    };
    let foreign = ControlView {
        name: "1.1.9".to_owned(),
        holder: 1,
        paths: vec!["/notes/today".to_owned()],
        deep: false,
        age_ms: 80,
        held_because: None,
    };
    vec![own, foreign]
}

/// A view of three members, one of which has left with controls.
pub(crate) fn view() -> ViewStatus {
    let present = MemberView {
        slot: 1,
        kind: "data".to_owned(),
        active: true,
        since_epoch: 1,
        excluded_at_unix_s: None,
        excluded_by: None,
        reason: None,
        complete: true,
    };
    let away = MemberView {
        slot: 3,
        active: false,
        since_epoch: 6,
        excluded_at_unix_s: Some(1_790_000_000),
        excluded_by: Some(1),
        reason: Some("it does not answer".to_owned()),
        complete: false,
        ..present.clone()
    };
    ViewStatus {
        epoch: 6,
        leader: Some(1),
        takes_part: true,
        up_to_date: true,
        obstacle: None,
        lease_ms: Some(4230),
        names: [(3, "gamma".to_owned())].into(),
        voters: BTreeSet::new(),
        voters_change: false,
        members: vec![present.clone(), MemberView { slot: 2, ..present }, away],
        losses: vec![LossView {
            slot: 3,
            since_unix_s: 1_790_000_000,
            frozen_controls: 2,
            leaves_something: true,
            settled: false,
            ready_to_settle: true,
            waits_for: None,
        }],
        audit: Vec::new(),
    }
}

/// A return with three of ten files received.
pub(crate) fn rejoin() -> RejoinView {
    RejoinView {
        stage: Stage::Contents,
        objects_done: 3,
        objects_left: 7,
        bytes_done: 4 << 20,
        bytes_left: Some(6 << 20),
        seconds_left: Some(12),
    }
}
