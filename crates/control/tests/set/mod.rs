//! A replication set in one place: cores, one shared tree, and messages delivered in the order sent.
//!
//! It serves the tests that repeat figures; delays, loss and lagging copies belong to the simulation.

use control::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use vfs::ObjectId;

/// A tree written down as child and parents.
#[derive(Clone, Debug, Default)]
pub struct Map(pub BTreeMap<ObjectId, Vec<ObjectId>>);

impl Tree for Map {
    fn parents(&self, object: ObjectId) -> Vec<ObjectId> {
        self.0.get(&object).cloned().unwrap_or_default()
    }
}

impl Map {
    /// Reads pairs of child and parent.
    pub fn of(links: &[(u64, u64)]) -> Map {
        let mut map = Map::default();
        for (child, parent) in links {
            map.0.entry(id(*child)).or_default().push(id(*parent));
        }
        map
    }
}

pub fn id(raw: u64) -> ObjectId {
    ObjectId::from_u64(raw)
}

pub fn slot(raw: u16) -> ReplicaSlot {
    ReplicaSlot(raw)
}

pub fn name(holder: u16, number: u64) -> ControlName {
    ControlName {
        holder: slot(holder),
        incarnation: Incarnation(1),
        number,
    }
}

pub fn create(parent: u64) -> Update {
    Update::Create { parent: id(parent) }
}

pub fn write(file: u64) -> Update {
    Update::Change(Subject::File(id(file)))
}

pub fn view(replicas: u16) -> View {
    let configured: BTreeSet<ReplicaSlot> = (0..replicas).map(ReplicaSlot).collect();
    View::whole(Epoch(1), configured)
}

pub fn core(replica: u16, replicas: u16, settings: Settings) -> ControlCore {
    ControlCore::new(slot(replica), Incarnation(1), view(replicas), settings)
}

pub fn commands(core: &mut ControlCore) -> Vec<Command> {
    std::iter::from_fn(|| core.next_command()).collect()
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Admitted { at: u16, under: Vec<ControlName> },
    Forwarded { at: u16, to: u16 },
}

/// Several cores and what is under way between them.
pub struct Set {
    pub cores: Vec<ControlCore>,
    pub tree: Map,
    pub now: Moment,
    pub outcomes: BTreeMap<u64, Outcome>,
    pub alarms: BTreeMap<u16, Moment>,
    pub wire: VecDeque<(u16, u16, Envelope)>,
}

impl Set {
    pub fn new(replicas: u16, tree: Map, settings: Settings) -> Set {
        Set {
            cores: (0..replicas).map(|r| core(r, replicas, settings)).collect(),
            tree,
            now: Moment(0),
            outcomes: BTreeMap::new(),
            alarms: BTreeMap::new(),
            wire: VecDeque::new(),
        }
    }

    /// A client of a replica asks for an operation.
    pub fn submit(&mut self, replica: u16, operation: u64, update: Update) {
        self.submit_for(Asker::Own, replica, operation, update);
    }

    /// The same, or another replica has forwarded it.
    pub fn submit_for(&mut self, asker: Asker, replica: u16, operation: u64, update: Update) {
        let core = &mut self.cores[usize::from(replica)];
        let id = OperationId(operation);
        let accepted = core.handle_operation(self.now, &self.tree, id, (&update, asker));
        accepted.expect("a few operations are never too many");
        self.drain(replica);
    }

    /// Delivers everything, and what that causes, in the order it was sent.
    pub fn deliver(&mut self) {
        while let Some((from, to, envelope)) = self.wire.pop_front() {
            let core = &mut self.cores[usize::from(to)];
            core.handle_message(self.now, &self.tree, slot(from), envelope);
            self.drain(to);
        }
    }

    /// Lets alarms go off and their messages arrive until `until`.
    pub fn run_until(&mut self, until: Moment) {
        self.deliver();
        while let Some((replica, at)) = self.next_alarm().filter(|(_, at)| *at <= until) {
            self.alarms.remove(&replica);
            self.now = self.now.max(at);
            self.cores[usize::from(replica)].handle_timer(self.now, &self.tree);
            self.drain(replica);
            self.deliver();
        }
        self.now = until;
    }

    fn next_alarm(&self) -> Option<(u16, Moment)> {
        let alarms = self.alarms.iter().map(|(replica, at)| (*replica, *at));
        alarms.min_by_key(|(_, at)| *at)
    }

    pub fn drain(&mut self, replica: u16) {
        for command in commands(&mut self.cores[usize::from(replica)]) {
            match command {
                Command::Persist(_) => {}
                Command::Send { to, envelope, .. } => {
                    self.wire.push_back((replica, to.0, envelope));
                }
                Command::Admit {
                    operation, under, ..
                } => {
                    let at = replica;
                    self.outcomes
                        .insert(operation.0, Outcome::Admitted { at, under });
                }
                Command::ForwardTo { operation, holder } => {
                    let (at, to) = (replica, holder.0);
                    self.outcomes
                        .insert(operation.0, Outcome::Forwarded { at, to });
                }
                Command::ArmTimer { at } => {
                    self.alarms.insert(replica, at);
                }
            }
        }
    }

    /// Claims that every replica acknowledges, as (holder, object, depth).
    pub fn agreed(&self) -> Vec<(u16, u64, Depth)> {
        let mut common: Option<BTreeSet<(u16, u64, Depth)>> = None;
        for core in &self.cores {
            let held = core.acknowledged().flat_map(|proposal| {
                let holder = proposal.name.holder.0;
                let claims = proposal.claims.iter();
                claims.map(move |claim| (holder, claim.object.as_u64(), claim.depth))
            });
            let held: BTreeSet<_> = held.collect();
            common = Some(match common {
                None => held,
                Some(common) => common.intersection(&held).copied().collect(),
            });
        }
        common.into_iter().flatten().collect()
    }
}

/// Root 1, directory 2 in it, file 3 in that.
pub fn tree() -> Map {
    Map::of(&[(2, 1), (3, 2)])
}

/// How a test changes the rules that are in force.
pub type Switch = fn(&mut Rules);

pub fn all_rules(_: &mut Rules) {}

/// Three replicas with such rules and that tree.
pub fn three(switch: Switch) -> Set {
    let mut settings = Settings::default();
    switch(&mut settings.rules);
    Set::new(3, tree(), settings)
}

/// A view of `configured` replicas in which only these take part.
pub fn without(configured: u16, epoch: u64, active: &[u16], since: &[(u16, u64)]) -> View {
    let since = since.iter();
    View {
        epoch: Epoch(epoch),
        active: active.iter().copied().map(slot).collect(),
        since: since
            .map(|(member, epoch)| (slot(*member), Epoch(*epoch)))
            .collect(),
        ..view(configured)
    }
}

/// A replica enters a view.
pub fn enter_view(set: &mut Set, replica: u16, view: &View) {
    let (now, tree) = (set.now, set.tree.clone());
    set.cores[usize::from(replica)].handle_view(now, &tree, view.clone());
    set.drain(replica);
}

/// What a replica takes for frozen of an object.
pub fn frozen_at(set: &Set, replica: u16, object: u64) -> Option<ControlName> {
    let core = &set.cores[usize::from(replica)];
    let control = core.foreign_control(&set.tree, id(object))?;
    core.frozen()
        .any(|frozen| frozen.name == control)
        .then_some(control)
}
