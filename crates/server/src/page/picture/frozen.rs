//! The frozen objects, whose deciding replica is lost, and what an administrator can do.
//!
//! What must never enter: doing it.

use std::path::Path;

use super::names::{quoted, visible};
use super::reach;
use crate::status::{FrozenView, LossView, ReplicaStatus, Rows, moment};

/// The maximum number of listed objects; `meridian frozen` has the others.
const LISTED: usize = 50;

/// Everything that is frozen.
pub(super) struct FrozenPart {
    pub(super) objects: Vec<FrozenObjects>,
    /// The number of objects that are not listed.
    pub(super) more: usize,
    /// One for each lost replica.
    pub(super) ways: Vec<Way>,
}

/// Objects under one control of a lost replica.
pub(super) struct FrozenObjects {
    pub(super) paths: String,
    pub(super) reach: &'static str,
    pub(super) slot: u16,
    pub(super) since: String,
    pub(super) open_questions: String,
}

/// How to thaw what one lost replica keeps frozen.
pub(super) struct Way {
    pub(super) slot: u16,
    /// The command that gives up what only that replica had.
    pub(super) command: String,
    /// What has to happen before that; empty for nothing.
    pub(super) waits_for: String,
}

/// The part of the page, if anything is frozen.
pub(super) fn part(
    frozen: &Rows<FrozenView>,
    replication: &ReplicaStatus,
    data: &Path,
) -> Option<FrozenPart> {
    let losses = replication.view.iter().flat_map(|view| &view.losses);
    let freezing = losses.filter(|loss| loss.frozen_controls > 0);
    let ways: Vec<Way> = freezing.map(|loss| way(loss, data)).collect();
    (!frozen.rows.is_empty()).then(|| FrozenPart {
        objects: frozen.rows.iter().take(LISTED).map(objects).collect(),
        more: frozen.total().saturating_sub(LISTED),
        ways,
    })
}

fn objects(frozen: &FrozenView) -> FrozenObjects {
    FrozenObjects {
        paths: visible(&frozen.paths.join(", ")),
        reach: reach(frozen.deep),
        slot: frozen.slot,
        since: moment(frozen.since_unix_s),
        open_questions: visible(&frozen.open_questions),
    }
}

fn way(loss: &LossView, data: &Path) -> Way {
    let data = visible(&quoted(&data.to_string_lossy()));
    Way {
        slot: loss.slot,
        command: format!(
            "meridian thaw --discard {} --reason 'WHY' --data {data}",
            loss.slot
        ),
        waits_for: visible(loss.waits_for.as_deref().unwrap_or_default()),
    }
}
