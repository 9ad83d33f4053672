//! The run: replicas, what is under way between them, and the order in which it happens.
//!
//! Every step takes one event, carries out everything the cores ask for, and checks every invariant.

mod execution;

use crate::invariants::{self, Closed};
use crate::network::{Lane, Links};
use crate::packet::Packet;
use crate::plan::Plan;
use crate::random::Random;
use crate::replica::{Content, Replica};
use crate::tree::{Edit, Intent, Outcome};
use crate::violation::Violation;
use crate::workload;
use control::{
    Command, ControlName, Epoch, Moment, OperationId, Position, ReplicaSlot, Update, View,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use vfs::ObjectId;

#[derive(Clone, Debug)]
enum Event {
    Deliver {
        from: ReplicaSlot,
        to: ReplicaSlot,
        packet: Packet,
    },
    Alarm(ReplicaSlot),
    Submit(u64),
    Write(ReplicaSlot, u64, Vec<ControlName>),
    Reconnect(ReplicaSlot, ReplicaSlot),
}

/// A client's operation: open, change, close, as one.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The replica its client is connected to.
    pub home: ReplicaSlot,
    /// What the client wants.
    pub intent: Intent,
    /// When it began.
    pub begun: Moment,
    /// How it ended, and when.
    pub outcome: Option<(Outcome, Moment)>,
    /// What control was asked for last.
    update: Option<Update>,
}

/// Marks the close of the operation whose number is in the remaining bits.
const CLOSE: u64 = 1 << 63;

/// A whole replication set.
#[derive(Clone, Debug)]
pub struct World {
    /// The replicas.
    pub replicas: BTreeMap<ReplicaSlot, Replica>,
    /// The operations of all clients; an operation's number is its place.
    pub operations: Vec<Operation>,
    /// The newest version of each object, at whichever primary made it.
    pub newest: BTreeMap<ObjectId, u64>,
    /// What clients were told is closed.
    pub closed: BTreeMap<ObjectId, Closed>,
    /// Files that some primary has removed; nobody can open them any more.
    removed: BTreeSet<ObjectId>,
    slowest_write: Duration,
    /// At most so long may an operation take for each operation that is served meanwhile, if limited.
    pub(crate) turn_limit: Option<Duration>,
    /// What was closed or moved in this step.
    pub(crate) just_closed: BTreeSet<ObjectId>,
    /// The virtual time.
    pub now: Moment,
    /// The links, which a scenario may change on the way.
    pub links: Links,
    /// Whether updates carry the operation they come from, so that a repeated one is not done again.
    pub origins_kept: bool,
    /// Whether to print every event.
    pub traced: bool,
    seed: u64,
    random: Random,
    events: BTreeMap<(Moment, u64), Event>,
    sequence: u64,
    broken: Option<Violation>,
}

impl World {
    /// Sets the stage of a plan, and lets clients begin what its seed says.
    #[must_use]
    pub fn new(plan: &Plan) -> World {
        let configured: BTreeSet<ReplicaSlot> = (1..=plan.present).map(ReplicaSlot).collect();
        let view = View {
            epoch: Epoch(1),
            active: configured.clone(),
            configured: configured.clone(),
        };
        let replicas = configured.iter().map(|slot| {
            let replica = Replica::new(*slot, view.clone(), plan.settings);
            (*slot, replica)
        });
        let mut world = World {
            replicas: replicas.collect(),
            operations: Vec::new(),
            newest: BTreeMap::new(),
            closed: BTreeMap::new(),
            removed: BTreeSet::new(),
            slowest_write: plan.slowest_write,
            turn_limit: plan.turn_limit(),
            just_closed: BTreeSet::new(),
            now: Moment(0),
            links: plan.links.clone(),
            origins_kept: true,
            traced: false,
            seed: plan.seed,
            random: Random::new(plan.seed ^ 0x5eed),
            events: BTreeMap::new(),
            sequence: 0,
            broken: None,
        };
        workload::prepare(&mut world, plan);
        world
    }

    /// Makes the same tree at every replica, before anything happens.
    pub fn plant(&mut self, edits: &[Edit]) {
        for replica in self.replicas.values_mut() {
            let complete = replica.apply(Moment(0), edits);
            assert!(complete, "a planted tree has every directory it needs");
        }
    }

    /// Lets a client of `home` begin an operation after a while. Returns its number.
    pub fn submit(&mut self, after: Duration, home: ReplicaSlot, intent: Intent) -> u64 {
        let number = self.operations.len() as u64;
        let begun = self.now.after(after);
        self.operations.push(Operation {
            home,
            intent,
            begun,
            outcome: None,
            update: None,
        });
        self.schedule(begun, Event::Submit(number));
        number
    }

    /// Lets two replicas lose and renew their connection after a while.
    pub fn reconnect(&mut self, after: Duration, one: ReplicaSlot, other: ReplicaSlot) {
        let at = self.now.after(after);
        self.schedule(at, Event::Reconnect(one, other));
    }

    /// Lets the home of a forwarded operation, having lost the answer, forward it once more after a while.
    pub fn forward_again(&mut self, after: Duration, number: u64, to: ReplicaSlot) {
        let from = self.operations[place(number)].home;
        let packet = Packet::Forward(number);
        let at = self.now.after(after);
        self.schedule(at, Event::Deliver { from, to, packet });
    }

    /// A new view takes effect at one replica.
    pub fn change_view(&mut self, slot: ReplicaSlot, view: View) {
        let now = self.now;
        let replica = self.replica(slot);
        replica.core.handle_view(now, &replica.tree, view);
        self.settle(slot);
    }

    /// The next random number of this run.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn schedule(&mut self, at: Moment, event: Event) {
        self.sequence += 1;
        self.events.insert((at, self.sequence), event);
    }

    /// Runs until nothing is left to happen, at most until `limit`, then checks that all is quiet.
    pub fn run(&mut self, limit: Duration) -> Result<(), Violation> {
        let limit = Moment(0).after(limit);
        while self.step_before(limit)? {}
        invariants::check_rest(self).map_err(|(invariant, sight)| self.violation(invariant, sight))
    }

    /// Runs what happens until `until`.
    pub fn run_until(&mut self, until: Duration) -> Result<(), Violation> {
        let until = Moment(0).after(until);
        while self.step_before(until)? {}
        self.now = self.now.max(until);
        Ok(())
    }

    fn step_before(&mut self, limit: Moment) -> Result<bool, Violation> {
        let Some(entry) = self
            .events
            .first_entry()
            .filter(|entry| entry.key().0 <= limit)
        else {
            return Ok(false);
        };
        let ((at, _), event) = entry.remove_entry();
        self.now = at;
        if self.traced {
            println!("{:>10} {event:?}", at.0);
        }
        self.just_closed.clear();
        let concerned = self.take(event);
        if let Some(violation) = self.broken.take() {
            return Err(violation);
        }
        for slot in concerned {
            invariants::check_step(self, slot)
                .map_err(|(invariant, sight)| self.violation(invariant, sight))?;
        }
        Ok(true)
    }

    /// Prints what every replica holds and what waits there, for a person who follows a trace.
    pub fn print_controls(&self) {
        for replica in self.replicas.values() {
            println!("replica {}:", replica.slot.0);
            for (name, proposal) in replica.core.own_controls() {
                println!("  own {name}: {:?}", proposal.claims);
            }
            for grant in replica.core.acknowledged() {
                println!("  acknowledges {}: {:?}", grant.name, grant.claims);
            }
            for (proposal, obstacles) in replica.core.waiting() {
                let names: Vec<_> = obstacles.iter().map(|obstacle| obstacle.name).collect();
                println!(
                    "  {} waits for {names:?}, is behind {:?}: {:?}",
                    proposal.name, proposal.behind, proposal.claims
                );
            }
        }
    }

    fn violation(&self, invariant: &'static str, sight: String) -> Violation {
        Violation {
            invariant,
            sight,
            at: (self.seed, self.now),
        }
    }

    fn report(&mut self, invariant: &'static str, sight: String) {
        let violation = self.violation(invariant, sight);
        self.broken.get_or_insert(violation);
    }

    /// Lets an event happen. Returns at which replicas it did.
    fn take(&mut self, event: Event) -> Vec<ReplicaSlot> {
        match event {
            Event::Deliver { from, to, packet } => {
                self.deliver(from, to, packet);
                self.settle(to);
                vec![to]
            }
            Event::Alarm(slot) => {
                let now = self.now;
                let replica = self.replica(slot);
                replica.core.handle_timer(now, &replica.tree);
                self.settle(slot);
                vec![slot]
            }
            Event::Submit(number) => {
                let home = self.operations[place(number)].home;
                self.begin(home, number);
                self.settle(home);
                vec![home]
            }
            Event::Write(slot, number, under) => {
                self.write(slot, number, &under);
                self.settle(slot);
                vec![slot]
            }
            Event::Reconnect(one, other) => {
                self.take_reconnect(one, other);
                vec![one, other]
            }
        }
    }

    /// A replica of this set by its slot.
    pub fn replica(&mut self, slot: ReplicaSlot) -> &mut Replica {
        self.replicas
            .get_mut(&slot)
            .expect("messages go to replicas of the set")
    }

    fn send(&mut self, from: ReplicaSlot, to: ReplicaSlot, packet: Packet) {
        if self.links.is_cut(from, to) {
            return;
        }
        let lane = packet.lane();
        let at = self
            .links
            .arrival(&mut self.random, self.now, from, to, lane);
        self.schedule(at, Event::Deliver { from, to, packet });
    }

    fn deliver(&mut self, from: ReplicaSlot, to: ReplicaSlot, packet: Packet) {
        let now = self.now;
        let replica = self.replica(to);
        match packet {
            Packet::Control(envelope) => {
                replica
                    .core
                    .handle_message(now, &replica.tree, from, envelope);
            }
            Packet::Update(position, update) => {
                let applied = replica.applied.get(&from).copied().unwrap_or(0);
                if position > applied {
                    replica.arrived.insert((from, position), update);
                } else {
                    self.send(to, from, Packet::Applied(Position(applied)));
                }
            }
            Packet::Applied(position) => {
                replica
                    .core
                    .handle_applied(now, &replica.tree, from, position);
            }
            Packet::Content(content) => replica.contents.push((from, content)),
            Packet::Stored(content) => self.note_stored(from, to, content),
            Packet::Forward(number) => self.begin(to, number),
            Packet::Returned(number) => self.begin(to, number),
            Packet::Finished(number, outcome) => self.finish(to, number, outcome),
        }
    }

    fn note_stored(&mut self, from: ReplicaSlot, to: ReplicaSlot, content: Content) {
        let now = self.now;
        let replica = self.replica(to);
        let Some((latest, missing)) = replica.unshipped.get_mut(&content.file) else {
            return;
        };
        if latest.version == content.version {
            missing.retain(|slot| *slot != from);
            if missing.is_empty() {
                replica.unshipped.remove(&content.file);
                replica
                    .core
                    .handle_data_shipped(now, &replica.tree, content.file);
            }
        }
    }

    /// Looks at an operation with the copy of the tree that `slot` has now.
    fn begin(&mut self, slot: ReplicaSlot, number: u64) {
        let now = self.now;
        let intent = self.operations[place(number)].intent;
        let origins_kept = self.origins_kept;
        let replica = self.replica(slot);
        if origins_kept && replica.done.contains(&number) {
            self.finish(slot, number, Outcome::Done);
            return;
        }
        let Some(update) = replica.tree.resolve(&intent) else {
            self.finish(slot, number, Outcome::Refused);
            return;
        };
        let id = OperationId(number);
        let accepted = replica
            .core
            .handle_operation(now, &replica.tree, id, &update);
        accepted.expect("a simulated run stays far below the capacity");
        self.operations[place(number)].update = Some(update);
    }

    fn finish(&mut self, slot: ReplicaSlot, number: u64, outcome: Outcome) {
        let now = self.now;
        let operation = &mut self.operations[place(number)];
        if operation.home == slot {
            operation.outcome = Some((outcome, now));
        } else {
            let home = operation.home;
            self.send(slot, home, Packet::Finished(number, outcome));
        }
    }

    /// Carries out everything the core of `slot` asks for, and applies what may be applied now.
    fn settle(&mut self, slot: ReplicaSlot) {
        let now = self.now;
        loop {
            if let Some(command) = self.replica(slot).core.next_command() {
                self.carry_out(slot, command);
            } else if let Some((origin, position, update)) = self.replica(slot).next_applicable() {
                self.apply_foreign(slot, origin, position, update);
            } else if !self.replica(slot).report_waiting_updates(now) {
                break;
            }
        }
        for (origin, content) in self.replica(slot).ready_contents() {
            let object = content.file;
            let version = content.version;
            self.replica(slot)
                .tree
                .apply(&Edit::Version { object, version });
            self.send(slot, origin, Packet::Stored(content));
        }
    }

    fn carry_out(&mut self, slot: ReplicaSlot, command: Command) {
        if self.traced {
            println!("             {}: {command:?}", slot.0);
        }
        match command {
            Command::Persist(_) => {}
            Command::Send { to, envelope, .. } => self.send(slot, to, Packet::Control(envelope)),
            Command::Admit { operation, .. } if operation.0 & CLOSE != 0 => {
                self.answer_close(slot, operation.0 & !CLOSE);
            }
            Command::Admit {
                operation, under, ..
            } => self.execute(slot, operation.0, under),
            Command::ForwardTo { operation, holder } => {
                let home = self.operations[place(operation.0)].home;
                let (to, packet) = if home == slot {
                    (holder, Packet::Forward(operation.0))
                } else {
                    (home, Packet::Returned(operation.0))
                };
                self.send(slot, to, packet);
            }
            Command::ArmTimer { at } => self.schedule(at, Event::Alarm(slot)),
        }
    }

    fn others(&self, slot: ReplicaSlot) -> Vec<ReplicaSlot> {
        let slots = self.replicas.keys().copied();
        slots.filter(|other| *other != slot).collect()
    }

    /// What was under way between the two is lost, kept or doubled; then each says again what the
    /// other has not confirmed. Forwarded operations are answered by a reliable call and stay.
    fn take_reconnect(&mut self, one: ReplicaSlot, other: ReplicaSlot) {
        let between = |event: &Event| match event {
            Event::Deliver { from, to, packet } => {
                let ends = (*from, *to);
                (ends == (one, other) || ends == (other, one)) && packet.lane() != Lane::Forward
            }
            _ => false,
        };
        let under_way = self.events.iter().filter(|(_, event)| between(event));
        let under_way: Vec<_> = under_way
            .map(|(key, event)| (*key, event.clone()))
            .collect();
        for ((at, sequence), event) in under_way {
            match self.random.below(3) {
                0 => drop(self.events.remove(&(at, sequence))),
                1 => {
                    let late = self.random.below(200_000);
                    self.schedule(Moment(at.0 + late), event);
                }
                _ => {}
            }
        }
        for (from, to) in [(one, other), (other, one)] {
            self.say_again(from, to);
            self.settle(from);
        }
    }

    fn say_again(&mut self, from: ReplicaSlot, to: ReplicaSlot) {
        let now = self.now;
        let already = self.replica(to).applied.get(&from).copied().unwrap_or(0);
        let replica = self.replica(from);
        replica.core.handle_connected(now, &replica.tree, to);
        let missing = replica.stream.iter().enumerate().skip(place(already));
        let mut packets: Vec<Packet> = missing
            .map(|(index, update)| Packet::Update(index as u64 + 1, update.clone()))
            .collect();
        let unshipped = replica.unshipped.values();
        let contents = unshipped.filter(|(_, missing)| missing.contains(&to));
        packets.extend(contents.map(|(content, _)| Packet::Content(*content)));
        let theirs = replica.applied.get(&to).copied().unwrap_or(0);
        packets.push(Packet::Applied(Position(theirs)));
        for packet in packets {
            self.send(from, to, packet);
        }
    }
}

fn place(number: u64) -> usize {
    usize::try_from(number).expect("a run has few operations")
}
