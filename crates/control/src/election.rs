//! The proposer's side of one election: it counts the answers, and decides to wait, win, or make way.
//!
//! A pure function of the answers received so far (Figure 1 and section 3.2 of the main paper). It sends nothing and
//! stores no time.

use crate::claim::{Obstacle, Rank};
use crate::name::ControlName;
use crate::view::View;
use std::collections::{BTreeMap, BTreeSet};
use vfs::ReplicaSlot;

/// The conclusion from the answers so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A majority of the configured replicas, including the proposer, acknowledges.
    Won,
    /// Undecided; other replicas will answer or make way.
    Wait,
    /// Deep control is impossible unless another proposer retreats; ask for shallow control instead.
    Downgrade,
    /// Another proposal goes first: a majority has acknowledged it, or its rank is higher.
    MakeWay(Vec<ControlName>),
}

/// The answers to one proposal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Election {
    acknowledged: BTreeSet<ReplicaSlot>,
    refused: BTreeMap<ReplicaSlot, Vec<Obstacle>>,
    turns: BTreeMap<ReplicaSlot, u64>,
}

impl Election {
    pub(crate) fn note_acknowledgement(&mut self, from: ReplicaSlot) {
        self.refused.remove(&from);
        self.acknowledged.insert(from);
    }

    /// A refusal changes nothing if a later acknowledgement or a later refusal has overtaken it.
    pub(crate) fn note_refusal(&mut self, from: ReplicaSlot, turn: u64, obstacles: Vec<Obstacle>) {
        let latest = self.turns.entry(from).or_default();
        if turn >= *latest && !self.acknowledged.contains(&from) {
            *latest = turn;
            self.refused.insert(from, obstacles);
        }
    }

    /// Drops obstacles of refusals that have ended in the meantime. A refusal without any other obstacle counts as
    /// outstanding: its sender will also hear of the end and answer again. If proposals made way for ended controls,
    /// two competitors could retreat from each other for ever.
    pub(crate) fn forget_obstacles(&mut self, has_ended: impl Fn(ControlName) -> bool) {
        self.refused.retain(|_, obstacles| {
            obstacles.retain(|obstacle| !has_ended(obstacle.name));
            !obstacles.is_empty()
        });
    }

    /// A replica that was inactive for a while has forgotten what it acknowledged.
    pub(crate) fn forget(&mut self, replica: ReplicaSlot) {
        self.acknowledged.remove(&replica);
        self.refused.remove(&replica);
        self.turns.remove(&replica);
    }

    pub(crate) fn acknowledged_by(&self, replica: ReplicaSlot) -> bool {
        self.acknowledged.contains(&replica)
    }

    pub(crate) fn acknowledged_by_all(&self, replicas: &BTreeSet<ReplicaSlot>) -> bool {
        replicas.is_subset(&self.acknowledged)
    }

    pub(crate) fn acknowledged(&self) -> &BTreeSet<ReplicaSlot> {
        &self.acknowledged
    }

    pub(crate) fn refused_by(&self, replica: ReplicaSlot) -> bool {
        self.refused.contains_key(&replica)
    }

    pub(crate) fn is_complete(&self, view: &View) -> bool {
        let mut active = view.active.iter();
        active.all(|replica| self.acknowledged_by(*replica) || self.refused_by(*replica))
    }

    /// Waits for the answers of these replicas again.
    pub(crate) fn begin_round(&mut self, asked: &BTreeSet<ReplicaSlot>) {
        self.refused.retain(|replica, _| !asked.contains(replica));
    }

    /// The controls that refusals have named.
    pub(crate) fn obstacles(&self) -> impl Iterator<Item = &Obstacle> {
        self.refused.values().flatten()
    }

    /// Judges a proposal of `rank` made by this replica. Nothing is decided while the outstanding answers could still
    /// make a majority, so that equal distances do not make all proposers retreat. Without its own acceptor a proposer
    /// cannot win, whatever the others say. But if the others are a majority, no conflicting proposer can win either,
    /// and each will notice that. If both retreated, they might do so for ever.
    pub(crate) fn judge(&self, view: &View, rank: Rank) -> Verdict {
        let majority = view.majority();
        let acknowledged = self.acknowledged.intersection(&view.configured).count();
        if acknowledged >= majority {
            return match self.acknowledged_by(rank.holder) {
                true => Verdict::Won,
                false => Verdict::Wait,
            };
        }
        let out_of_reach = view.configured.iter().filter(|replica| {
            !self.acknowledged_by(**replica)
                && (self.refused_by(**replica) || view.has_lost(**replica))
        });
        let possible = view.configured.len() - out_of_reach.count() >= majority;
        if possible {
            return Verdict::Wait;
        }
        if !rank.firm {
            return Verdict::Downgrade;
        }
        let first = self.goes_first(rank, majority);
        if first.is_empty() {
            Verdict::Wait
        } else {
            Verdict::MakeWay(first)
        }
    }

    fn goes_first(&self, rank: Rank, majority: usize) -> Vec<ControlName> {
        let mut seen: BTreeMap<Obstacle, usize> = BTreeMap::new();
        for obstacle in self.obstacles() {
            *seen.entry(*obstacle).or_default() += 1;
        }
        let ahead = seen
            .iter()
            .filter(|(obstacle, count)| **count >= majority || obstacle.rank > rank);
        ahead.map(|(obstacle, _)| obstacle.name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{Epoch, Incarnation};

    fn view(replicas: u16) -> View {
        let configured: BTreeSet<ReplicaSlot> = (1..=replicas).map(ReplicaSlot).collect();
        View::whole(Epoch(1), configured)
    }

    fn obstacle(holder: u16, firm: bool) -> Obstacle {
        let holder = ReplicaSlot(holder);
        Obstacle {
            rank: Rank { firm, holder },
            name: ControlName {
                holder,
                incarnation: Incarnation(1),
                number: 1,
            },
            frozen: false,
        }
    }

    fn rank(holder: u16) -> Rank {
        obstacle(holder, true).rank
    }

    fn election(acknowledged: &[u16], refused: &[(u16, Obstacle)]) -> Election {
        let mut election = Election::default();
        for replica in acknowledged {
            election.note_acknowledgement(ReplicaSlot(*replica));
        }
        for (replica, obstacle) in refused {
            election.note_refusal(ReplicaSlot(*replica), 1, vec![*obstacle]);
        }
        election
    }

    #[test]
    fn a_majority_without_oneself_is_not_enough() {
        let won = election(&[2, 3], &[]).judge(&view(3), rank(1));
        assert_eq!(won, Verdict::Wait);
        let won = election(&[1, 3], &[]).judge(&view(3), rank(1));
        assert_eq!(won, Verdict::Won);
    }

    #[test]
    fn a_majority_of_others_does_not_retreat_from_what_its_own_acceptor_has_granted() {
        let own = [(1, obstacle(3, true))];
        let waits = election(&[2, 3], &own).judge(&view(3), rank(1));
        assert_eq!(waits, Verdict::Wait);
    }

    #[test]
    fn nobody_retreats_while_a_majority_is_still_possible() {
        let open = election(&[1], &[(2, obstacle(3, true))]);
        assert_eq!(open.judge(&view(3), rank(1)), Verdict::Wait);
    }

    #[test]
    fn the_smaller_identifier_makes_way_and_the_largest_stays() {
        let others = [(2, obstacle(2, true)), (3, obstacle(3, true))];
        let smallest = election(&[1], &others).judge(&view(3), rank(1));
        let ahead = others.map(|(_, obstacle)| obstacle.name).to_vec();
        assert_eq!(smallest, Verdict::MakeWay(ahead));
        let others = [(1, obstacle(1, true)), (2, obstacle(2, true))];
        let largest = election(&[3], &others).judge(&view(3), rank(3));
        assert_eq!(largest, Verdict::Wait);
    }

    #[test]
    fn the_largest_makes_way_for_what_a_majority_accepted() {
        let others = [(1, obstacle(1, true)), (2, obstacle(1, true))];
        let largest = election(&[3], &others).judge(&view(3), rank(3));
        assert_eq!(largest, Verdict::MakeWay(vec![obstacle(1, true).name]));
    }

    #[test]
    fn a_shallow_proposal_does_not_make_way_for_a_larger_undecided_deep_one() {
        let others = [(2, obstacle(3, false)), (3, obstacle(3, false))];
        let mut five = view(5);
        five.configured.remove(&ReplicaSlot(5));
        five.active.remove(&ReplicaSlot(5));
        let shallow = election(&[1], &others).judge(&five, rank(1));
        assert_eq!(shallow, Verdict::Wait);
    }

    #[test]
    fn a_refusal_that_a_later_one_overtook_is_out_of_date() {
        let mut election = election(&[1], &[]);
        election.note_refusal(ReplicaSlot(2), 7, vec![obstacle(3, true)]);
        election.note_refusal(ReplicaSlot(2), 6, vec![obstacle(2, true)]);
        let named: Vec<&Obstacle> = election.obstacles().collect();
        assert_eq!(named, [&obstacle(3, true)]);
    }

    #[test]
    fn replicas_that_left_the_view_are_not_waited_for() {
        let mut view = view(3);
        view.active.remove(&ReplicaSlot(3));
        let alone = election(&[1], &[(2, obstacle(2, true))]).judge(&view, rank(1));
        assert_eq!(alone, Verdict::MakeWay(vec![obstacle(2, true).name]));
    }
}
