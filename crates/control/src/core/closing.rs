//! The close rule: a written file is not reported closed before every active replica would forward an
//! open of it here.
//!
//! The data need not have arrived anywhere. Sharing and locks are not this file's subject.

use super::ControlCore;
use crate::command::{Command, Mark, OperationId};
use crate::moment::Moment;
use crate::name::Position;
use crate::tree::Tree;
use crate::update::{Need, NeedKind};
use vfs::{ObjectId, ReplicaSlot};

/// A close, or the release of a byte-range lock, that waits to be answered.
#[derive(Clone, Debug)]
pub(super) struct Close {
    operation: OperationId,
    file: ObjectId,
    entry: Option<Position>,
}

impl ControlCore {
    /// Asks whether the close of a written file may be answered; [`Command::Admit`] says so, at once if
    /// every active replica knows of a control covering the file, and of one covering its directory or
    /// else the entry itself. `entry` is the place in this replica's stream of the file's creation, if it
    /// was made here and recently.
    pub fn handle_close(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        operation: OperationId,
        file: ObjectId,
        entry: Option<Position>,
    ) {
        self.closes.push(Close {
            operation,
            file,
            entry,
        });
        self.run(now, tree);
    }

    pub(super) fn answer_closes(&mut self, tree: &impl Tree) {
        let closes = std::mem::take(&mut self.closes);
        let (answered, waiting) = closes
            .into_iter()
            .partition(|close| self.is_known(tree, close));
        self.closes = waiting;
        let answered: Vec<Close> = answered;
        for close in answered {
            self.commands.push_back(Command::Admit {
                operation: close.operation,
                under: Vec::new(),
                after: Mark(0),
            });
        }
    }

    fn is_known(&self, tree: &impl Tree, close: &Close) -> bool {
        let rules = self.settings.rules;
        let mut others = self.view.active.iter().filter(|peer| **peer != self.slot);
        others.all(|peer| {
            (!rules.close_waits_for_file() || self.file_is_known(tree, *peer, close.file))
                && (!rules.close_waits_for_entry() || self.entry_is_known(tree, *peer, close))
        })
    }

    /// A file without own control has been given up, which happens only when its data is everywhere.
    fn file_is_known(&self, tree: &impl Tree, peer: ReplicaSlot, file: ObjectId) -> bool {
        let kind = match tree.parents(file).len() {
            0 | 1 => NeedKind::File,
            _ => NeedKind::LoneFile,
        };
        let need = Need { object: file, kind };
        self.own.meeting(tree, &need).is_empty() || self.cover_is_known(tree, peer, &need)
    }

    fn entry_is_known(&self, tree: &impl Tree, peer: ReplicaSlot, close: &Close) -> bool {
        let Some(entry) = close.entry else {
            return true;
        };
        let kind = NeedKind::Directory;
        let mut directories = tree.parents(close.file).into_iter();
        self.applied_by(peer) >= entry
            || directories.any(|object| self.cover_is_known(tree, peer, &Need { object, kind }))
    }

    /// Whether a peer would forward an open of the object here. Deep control tells a peer so only if the
    /// object is below in the peer's own copy as well: it must have applied the last rename that moved
    /// anything into the control.
    fn cover_is_known(&self, tree: &impl Tree, peer: ReplicaSlot, need: &Need) -> bool {
        let has_followed = self.applied_by(peer) >= self.last_crossing
            || !self.settings.rules.close_waits_for_moves();
        let covering = self.own.meeting(tree, need);
        covering.iter().any(|(_, own)| {
            own.election.acknowledged_by(peer) && (has_followed || own.claims_object(need.object))
        })
    }
}
