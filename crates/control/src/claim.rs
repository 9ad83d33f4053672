//! The content of a proposal: the objects, the depth, and the proposer's ancestors of the objects.
//!
//! Pure values with the two comparisons that the protocol needs: do two claims conflict (Figure 2), and which of two
//! competing proposals goes first?

use crate::name::ControlName;
use crate::tree::{Tree, ancestors};
use serde::{Deserialize, Serialize};
use vfs::{ObjectId, ReplicaSlot};

/// The extent of a control (main paper, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Depth {
    /// Only the object.
    Shallow,
    /// A directory and everything below it.
    Deep,
}

/// One object of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The file or directory to be controlled.
    pub object: ObjectId,
    /// Whether the claim reaches below the object.
    pub depth: Depth,
    /// The directories above the object in the proposer's copy, ascending by identifier. The acceptor
    /// adds those of its own copy, since either copy may lag behind.
    pub ancestors: Vec<ObjectId>,
}

impl Claim {
    /// A claim with the ancestors that `tree` shows now.
    pub fn new(tree: &impl Tree, object: ObjectId, depth: Depth) -> Claim {
        Claim {
            object,
            depth,
            ancestors: ancestors(tree, object).into_iter().collect(),
        }
    }

    /// Whether the object is below `directory`, according to the proposer or to this replica.
    pub fn is_below(&self, tree: &impl Tree, directory: ObjectId) -> bool {
        self.ancestors.contains(&directory) || tree.above(self.object).contains(&directory)
    }

    /// Whether two replicas may not hold this claim and `other` at the same time (Figure 2).
    pub fn conflicts_with(&self, tree: &impl Tree, other: &Claim) -> bool {
        self.object == other.object || self.reaches(tree, other) || other.reaches(tree, self)
    }

    fn reaches(&self, tree: &impl Tree, below: &Claim) -> bool {
        self.depth == Depth::Deep && below.is_below(tree, self.object)
    }
}

/// The request of one replica that the others acknowledge its control of all the claims, or of none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Names the control, and the proposer.
    pub name: ControlName,
    /// The claims; no object occurs twice.
    pub claims: Vec<Claim>,
    /// Whether shallow control is enough for the proposer, so that it lets others go first.
    pub downgradable: bool,
    /// Competitors that this proposal has made way for. An acceptor grants it only after it has seen the end of each,
    /// even of one that it did not know yet.
    pub behind: Vec<ControlName>,
}

impl Proposal {
    /// The rank, which decides between competitors when none can win unless another one retreats.
    pub fn rank(&self) -> Rank {
        Rank {
            firm: !self.downgradable,
            holder: self.name.holder,
        }
    }

    /// The proposal as it is repeated. Its objects may have been moved since the first time, and a replica that gets it
    /// only now may not know that.
    pub(crate) fn told_again(&self, tree: &impl Tree) -> Proposal {
        let mut told = self.clone();
        for claim in &mut told.claims {
            let known = std::mem::take(&mut claim.ancestors);
            let mut above = ancestors(tree, claim.object);
            above.extend(known);
            claim.ancestors = above.into_iter().collect();
        }
        told
    }

    /// Whether the proposals of two different holders conflict (Figure 2).
    pub fn conflicts_with(&self, tree: &impl Tree, other: &Proposal) -> bool {
        self.name.holder != other.name.holder
            && self.claims.iter().any(|mine| {
                let mut theirs = other.claims.iter();
                theirs.any(|claim| mine.conflicts_with(tree, claim))
            })
    }
}

/// The order among competitors: proposals that cannot be downgraded go before those that can (rule "an undecided deep
/// proposal yields to a shallow one"); then the larger identifier goes first (Figure 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rank {
    /// The proposal cannot be downgraded.
    pub firm: bool,
    /// The proposer.
    pub holder: ReplicaSlot,
}

/// A control that blocks a proposal, as a refusal reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Obstacle {
    /// The holder's rank among competitors.
    pub rank: Rank,
    /// The blocking control.
    pub name: ControlName,
    /// Its holder has left the view, so waiting for a release is useless.
    pub frozen: bool,
}
