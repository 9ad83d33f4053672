//! What a proposal asks for: objects, how deep, and where the proposer believes they are.
//!
//! Pure values with the two comparisons the protocol needs of them: do two claims conflict (Figure 2),
//! and which of two competing proposals goes first.

use crate::name::ControlName;
use crate::tree::{Tree, ancestors};
use serde::{Deserialize, Serialize};
use vfs::{ObjectId, ReplicaSlot};

/// How far a control reaches (main paper, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Depth {
    /// The object alone.
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

    /// Whether the object lies below `directory`, as the proposer or this replica know it.
    pub fn is_below(&self, tree: &impl Tree, directory: ObjectId) -> bool {
        self.ancestors.contains(&directory) || tree.above(self.object).contains(&directory)
    }

    /// Whether one replica may not hold this claim while another replica holds `other` (Figure 2).
    pub fn conflicts_with(&self, tree: &impl Tree, other: &Claim) -> bool {
        self.object == other.object || self.reaches(tree, other) || other.reaches(tree, self)
    }

    fn reaches(&self, tree: &impl Tree, below: &Claim) -> bool {
        self.depth == Depth::Deep && below.is_below(tree, self.object)
    }
}

/// One replica asking the others to acknowledge its control of all the claims, or of none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Names the control, and the proposer.
    pub name: ControlName,
    /// What is asked for; no object occurs twice.
    pub claims: Vec<Claim>,
    /// Whether the proposer will be content with shallow control, and therefore lets others go first.
    pub downgradable: bool,
    /// Competitors that this proposal has made way for. No acceptor grants it before it has seen the
    /// end of each, even one that has not heard of them yet.
    pub behind: Vec<ControlName>,
}

impl Proposal {
    /// Who goes first when none of several competitors can win without another's retreat.
    pub fn rank(&self) -> Rank {
        Rank {
            firm: !self.downgradable,
            holder: self.name.holder,
        }
    }

    /// The same proposal as it is made again: its objects may have been moved since it was made first, and who
    /// hears of it now may not have heard of that.
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

    /// Whether two different holders' proposals exclude each other (Figure 2).
    pub fn conflicts_with(&self, tree: &impl Tree, other: &Proposal) -> bool {
        self.name.holder != other.name.holder
            && self.claims.iter().any(|mine| {
                let mut theirs = other.claims.iter();
                theirs.any(|claim| mine.conflicts_with(tree, claim))
            })
    }
}

/// The order among competitors: what cannot be downgraded before what can (rule "an undecided deep
/// proposal yields to a shallow one"), then the larger identifier (Figure 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rank {
    /// The proposal cannot be downgraded.
    pub firm: bool,
    /// The proposer.
    pub holder: ReplicaSlot,
}

/// A control that stands in the way of a proposal, as a refusal reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Obstacle {
    /// Where the holder stands in the order among competitors.
    pub rank: Rank,
    /// The control in the way.
    pub name: ControlName,
    /// Its holder has left the view, so waiting for a release would be in vain.
    pub frozen: bool,
}
