//! Every sequence of losing, starting, removing, joining, thawing and recovering, in small sets: what the set agrees on, by the real state and
//! the real next step. About the data of replicas the model knows only whether a lost one leaves something that no other replica has. No replica
//! listens to a member to be removed, even if it runs: it has no vote, and no replica waits for its reports.
//!
//! After each event everything happens that needs no event. Then nothing may wait that could go on, and nothing may be left of replicas that are
//! gone. `SEQUENCES` sets how long the sequences are, up to five events.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use peer::set::{Member, MemberList};
use vfs::ReplicaSlot;
use view::{Decision, DecisionKind, Kind, MemberState, Outcome, SettledBy, Settlement, ViewState};

use super::{Step, next};
use crate::driver::silence::is_silent;

const FOUNDER: ReplicaSlot = ReplicaSlot(1);

/// A replica without an answer for longer is silent.
const SUSPICION: Duration = Duration::from_secs(1);

/// At most this many replicas join in one run.
const COMING: u16 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Lose(ReplicaSlot),
    Start(ReplicaSlot),
    Remove(ReplicaSlot),
    Join,
    Thaw(ReplicaSlot),
    /// The first that keeps contents goes on with only the keeper of the authority, while both are stopped.
    Recover,
}

/// What is true of lost replicas.
#[derive(Clone, Copy, Debug)]
struct Circumstances {
    /// A lost replica leaves something.
    leave_something: bool,
    /// The survivors take that over by themselves.
    majority: bool,
}

#[derive(Clone, Debug)]
struct Run {
    how: Circumstances,
    /// The keeper of the authority.
    keeper: ReplicaSlot,
    state: ViewState,
    list: MemberList,
    up: BTreeSet<ReplicaSlot>,
    incarnations: BTreeMap<ReplicaSlot, u64>,
    came: u16,
    played: Vec<Event>,
}

impl Run {
    /// A set whose authority a replica keeps, or the witness.
    fn of((data, witness): (u16, bool), keeper: ReplicaSlot, how: Circumstances) -> Run {
        let size = data + u16::from(witness);
        let slots: Vec<ReplicaSlot> = (1..=size).map(ReplicaSlot).collect();
        let is_witness = |slot: ReplicaSlot| witness && slot.0 == size;
        let member = |slot: ReplicaSlot| MemberState {
            kind: match is_witness(slot) {
                true => Kind::Witness,
                false => Kind::Data,
            },
            active: true,
            since_epoch: 1,
            incarnation: 1,
            was_active: true,
            excluded: None,
        };
        let listed = |slot: ReplicaSlot| Member {
            slot: slot.0,
            addresses: Vec::new(),
            client_addresses: Vec::new(),
            revoked: false,
            witness: is_witness(slot),
            metadata_server: false,
            name: String::new(),
        };
        Run {
            how,
            keeper,
            state: ViewState {
                epoch: 1,
                members: slots.iter().map(|slot| (*slot, member(*slot))).collect(),
                ..ViewState::default()
            },
            list: MemberList {
                members: slots.iter().map(|slot| listed(*slot)).collect(),
                ..MemberList::default()
            },
            up: slots.iter().copied().collect(),
            incarnations: slots.iter().map(|slot| (*slot, 1)).collect(),
            came: 0,
            played: Vec::new(),
        }
    }

    fn is_revoked(&self, slot: ReplicaSlot) -> bool {
        let mut members = self.list.members.iter();
        members.any(|member| member.slot == slot.0 && member.revoked)
    }

    /// Whether the others listen to it, and it answers.
    fn is_heard(&self, slot: ReplicaSlot) -> bool {
        self.up.contains(&slot) && !self.is_revoked(slot)
    }

    fn is_silent(&self, slot: ReplicaSlot) -> bool {
        let unheard = match self.up.contains(&slot) {
            true => Duration::ZERO,
            false => 2 * SUSPICION,
        };
        // What was known of a member to be removed is forgotten.
        let removed = self.is_revoked(slot);
        is_silent(removed, (!removed).then_some(unheard), SUSPICION)
    }

    fn is_open(&self, slot: ReplicaSlot) -> bool {
        self.state.losses.contains_key(&slot) && !self.state.is_settled(slot)
    }

    /// The events that are possible now.
    fn events(&self) -> Vec<Event> {
        let listed = || {
            let here = self.list.members.iter().filter(|member| !member.revoked);
            here.map(|member| ReplicaSlot(member.slot))
        };
        let (up, down): (Vec<_>, Vec<_>) = listed().partition(|slot| self.up.contains(slot));
        let mut events: Vec<Event> = up.into_iter().map(Event::Lose).collect();
        events.extend(down.into_iter().map(Event::Start));
        events.extend(
            listed()
                .filter(|slot| *slot != self.keeper)
                .map(Event::Remove),
        );
        let open = self.state.losses.keys().copied();
        events.extend(open.filter(|slot| self.is_open(*slot)).map(Event::Thaw));
        if self.came < COMING {
            events.push(Event::Join);
        }
        if !self.has_majority() {
            events.push(Event::Recover);
        }
        events
    }

    fn play(&mut self, event: Event) {
        self.played.push(event);
        match event {
            Event::Lose(slot) => drop(self.up.remove(&slot)),
            Event::Start(slot) => {
                self.up.insert(slot);
                *self.incarnations.entry(slot).or_default() += 1;
            }
            Event::Remove(slot) => {
                let mut members = self.list.members.iter_mut();
                if let Some(member) = members.find(|member| member.slot == slot.0) {
                    member.revoked = true;
                }
            }
            Event::Join => {
                self.came += 1;
                let slot = self.list.members.last().map_or(0, |last| last.slot) + 1;
                self.list.members.push(Member {
                    slot,
                    addresses: Vec::new(),
                    client_addresses: Vec::new(),
                    revoked: false,
                    witness: false,
                    metadata_server: false,
                    name: String::new(),
                });
                self.up.insert(ReplicaSlot(slot));
                self.incarnations.insert(ReplicaSlot(slot), 1);
            }
            Event::Thaw(slot) => {
                if self.is_whole() {
                    self.settle(slot);
                }
            }
            Event::Recover => self.recover(),
        }
        self.come_to_rest();
        self.check();
    }

    fn recover(&mut self) {
        let mut members = self.state.members.keys().copied();
        let by = members.find(|slot| self.state.holds_data(*slot) && !self.is_revoked(*slot));
        let Some(by) = by else {
            return;
        };
        let survivors = BTreeSet::from([by, self.keeper]);
        self.up.extend(&survivors);
        self.decide(&Decision {
            by,
            at_unix_s: 0,
            seen_epoch: 0,
            kind: DecisionKind::Recover { survivors },
        });
        for member in &mut self.list.members {
            member.revoked |= self.state.removed.contains(&ReplicaSlot(member.slot));
        }
    }

    /// Whether enough voters are heard to decide something.
    fn has_majority(&self) -> bool {
        let voters = self.state.voters().into_iter();
        voters.filter(|slot| self.is_heard(*slot)).count() >= self.state.majority()
    }

    /// Whether all active members are heard, so that all know the same.
    fn is_whole(&self) -> bool {
        self.has_majority() && self.state.active().all(|slot| self.is_heard(slot))
    }

    /// Whether a majority of the voters is active.
    fn majority_takes_part(&self) -> bool {
        let (active, voters): (BTreeSet<_>, _) =
            (self.state.active().collect(), self.state.voters());
        active.intersection(&voters).count() >= self.state.majority()
    }

    /// Makes a decision, if it holds. Survivors that an administrator names may have been outside the view, and become active only when they are
    /// admitted. Before that no majority is active, and no replica answers.
    fn decide(&mut self, decision: &Decision) -> bool {
        let before = self.state.voters();
        let took_part = self.majority_takes_part();
        let held = self.state.decide(decision) == Outcome::Applied;
        self.state.audit.clear();
        if held && !matches!(decision.kind, DecisionKind::Recover { .. }) {
            let voters = self.state.voters();
            assert!(self.majority_takes_part() || !took_part, "{self:?}");
            assert!(
                before.symmetric_difference(&voters).count() <= 1,
                "{self:?}"
            );
        }
        held
    }

    fn settle(&mut self, slot: ReplicaSlot) -> bool {
        let Some(by) = self.state.active().find(|by| self.is_heard(*by)) else {
            return false;
        };
        let settlement = Settlement {
            through: 7,
            incarnation_below: u64::MAX,
            names: None,
            by: SettledBy::Takeover,
            at_unix_s: 0,
            id: 0,
        };
        self.decide(&Decision {
            by,
            at_unix_s: 0,
            seen_epoch: self.state.epoch,
            kind: DecisionKind::Settle { slot, settlement },
        })
    }

    fn come_to_rest(&mut self) {
        for _ in 0..64 {
            if !self.has_majority() || !self.go_on() {
                return;
            }
        }
        panic!("it never comes to rest: {self:?}");
    }

    /// One step that needs no event.
    fn go_on(&mut self) -> bool {
        self.exclude_silent()
            || self.is_whole() && (self.admit() || self.take_over())
            || self.configure()
    }

    fn exclude_silent(&mut self) -> bool {
        let state = &self.state;
        let out: BTreeSet<ReplicaSlot> = state
            .active()
            .filter(|slot| self.is_silent(*slot))
            .collect();
        let removed = out.iter().find(|slot| self.is_revoked(**slot));
        let by = state.active().find(|slot| self.is_heard(*slot));
        let (Some(first), Some(by)) = (removed.or(out.first()).copied(), by) else {
            return false;
        };
        let (seen_epoch, reason, at_unix_s) = (state.epoch, String::new(), 0);
        let exclude = Decision {
            by,
            at_unix_s,
            seen_epoch,
            kind: DecisionKind::Exclude {
                slot: first,
                reason: reason.clone(),
            },
        };
        let mut waiting = state.voters();
        waiting.retain(|slot| self.is_heard(*slot) && !state.is_active(*slot));
        let waiting = waiting.into_iter();
        let admitted = waiting
            .map(|slot| (slot, self.incarnations[&slot]))
            .collect();
        let replace = Decision {
            by,
            at_unix_s,
            seen_epoch,
            kind: DecisionKind::Replace {
                out,
                admitted,
                reason,
            },
        };
        self.decide(&exclude) || self.decide(&replace)
    }

    /// A replica that is back or new asks by itself.
    fn admit(&mut self) -> bool {
        let members = self.state.members.iter();
        let waits = members.filter(|(slot, member)| {
            let anew = self.incarnations[slot] > member.incarnation;
            self.is_heard(**slot) && (!member.active || anew)
        });
        let waiting: Vec<ReplicaSlot> = waits.map(|(slot, _)| *slot).collect();
        waiting.into_iter().any(|slot| {
            self.decide(&Decision {
                by: slot,
                at_unix_s: 0,
                seen_epoch: self.state.epoch,
                kind: DecisionKind::Admit {
                    slot,
                    incarnation: self.incarnations[&slot],
                },
            })
        })
    }

    fn take_over(&mut self) -> bool {
        let open: Vec<ReplicaSlot> = self.state.losses.keys().copied().collect();
        let open = open.into_iter().filter(|slot| self.is_open(*slot));
        let open: Vec<ReplicaSlot> = open.collect();
        self.how.majority
            && self.how.leave_something
            && open.into_iter().any(|slot| self.settle(slot))
    }

    fn configure(&mut self) -> bool {
        if !self.up.contains(&self.keeper) || !self.state.is_active(self.keeper) {
            return false;
        }
        let leaves_something = |_| self.how.leave_something;
        let step = next(
            &self.list,
            &self.state,
            (self.keeper, 0),
            leaves_something,
            |_| true,
        );
        match step {
            // All active members must report for these.
            Some(Step::Settle(_) | Step::Change(_)) if !self.is_whole() => false,
            Some(Step::Settle(slot)) => self.settle(slot),
            // It must be reached first.
            Some(Step::Change(Decision {
                kind: DecisionKind::Configure { slot, .. },
                ..
            })) if !self.up.contains(&slot) => false,
            Some(Step::Change(decision)) => self.decide(&decision),
            Some(Step::Exclude(slot)) => self.decide(&Decision {
                by: self.keeper,
                at_unix_s: 0,
                seen_epoch: self.state.epoch,
                kind: DecisionKind::Exclude {
                    slot,
                    reason: String::new(),
                },
            }),
            None => false,
        }
    }

    fn check(&self) {
        self.check_ghosts();
        if self.has_majority() {
            self.check_nobody_waits();
        }
    }

    /// Nothing is left of replicas that are gone, except how their streams ended.
    fn check_ghosts(&self) {
        let state = &self.state;
        for slot in &state.removed {
            assert!(!state.members.contains_key(slot), "{self:?}");
            assert!(state.is_gone(*slot) || self.is_open(*slot), "{self:?}");
            let recovered = self.played.contains(&Event::Recover);
            assert!(state.is_gone(*slot) || recovered, "{self:?}");
        }
        for slot in state.losses.keys() {
            assert!(!state.is_active(*slot), "{self:?}");
        }
        let numbers: Vec<u64> = state
            .settled_streams()
            .map(|(_, end)| end.settlement)
            .collect();
        let different: BTreeSet<u64> = numbers.iter().copied().collect();
        assert_eq!(numbers.len(), different.len(), "{self:?}");
        assert!(
            numbers
                .into_iter()
                .all(|number| number <= state.settlements)
        );
    }

    /// If a majority is heard, exactly the heard replicas are active. Members to be removed are gone, unless an administrator must say what
    /// becomes of what they had.
    fn check_nobody_waits(&self) {
        let state = &self.state;
        // Only the last active members with a copy can say what was acknowledged.
        let mut holders = state.active().filter(|slot| self.is_heard(*slot));
        let known = holders.any(|slot| state.holds_data(slot));
        assert!(self.is_whole() || !known, "{self:?}");
        if !self.is_whole() {
            return;
        }
        let keeper = self.up.contains(&self.keeper) && state.is_active(self.keeper);
        for (slot, member) in &state.members {
            let outside = self.is_heard(*slot) && !member.active;
            assert!(!outside, "{self:?}");
            let waits_for_a_word =
                self.is_open(*slot) && self.how.leave_something && !self.how.majority;
            let goes = self.is_revoked(*slot) && keeper;
            assert!(!goes || waits_for_a_word, "{self:?}");
        }
        let comes = self.list.members.iter().find(|member| {
            let slot = ReplicaSlot(member.slot);
            self.is_heard(slot) && !state.members.contains_key(&slot)
        });
        // Another replica has joined before and does not answer, or must be reached first.
        let held_up = state.newcomer().is_some() || self.came == COMING;
        assert!(comes.is_none() || !keeper || held_up, "{self:?}");
    }
}

/// Plays all sequences of this many more events. Returns their number.
fn play_all(run: &Run, events: usize) -> usize {
    if events == 0 {
        return 1;
    }
    let events_now = run.events().into_iter();
    events_now
        .map(|event| {
            let mut run = run.clone();
            run.play(event);
            play_all(&run, events - 1)
        })
        .sum()
}

fn length(unless_set: usize) -> usize {
    let set = std::env::var("SEQUENCES").ok();
    set.and_then(|set| set.parse().ok()).unwrap_or(unless_set)
}

fn play_in(data: u16, witness: bool, events: usize) {
    let keepers = [FOUNDER, ReplicaSlot(data + 1)].into_iter();
    for keeper in keepers.filter(|slot| slot.0 <= data || witness) {
        for (leave_something, majority) in [(false, false), (true, false), (true, true)] {
            let how = Circumstances {
                leave_something,
                majority,
            };
            let played = play_all(&Run::of((data, witness), keeper, how), length(events));
            assert!(played > 0);
        }
    }
}

#[test]
fn every_sequence_in_two_with_a_witness() {
    play_in(2, true, 4);
}

#[test]
fn every_sequence_in_three_with_a_witness() {
    play_in(3, true, 3);
}

#[test]
fn every_sequence_in_three() {
    play_in(3, false, 4);
}

#[test]
fn every_sequence_in_four() {
    play_in(4, false, 4);
}

#[test]
fn every_sequence_in_five() {
    play_in(5, false, 3);
}
