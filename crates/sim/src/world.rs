//! The run: the replicas, the events between them, and the order of the events.
//!
//! Every step takes one event, carries out all commands of the cores, and checks every invariant.

mod connections;
mod disk;
mod execution;
mod faults;
mod locks;
mod majority;
mod messages;
mod pauses;
mod reading;
mod recovering;
mod rejoining;
mod removing;
mod truth;
mod views;
mod witness;

pub use faults::{Fault, Model};

use crate::history::History;
use crate::invariants::{self, Closed};
use crate::locks::Locks;
use crate::network::Links;
use crate::packet::Packet;
use crate::plan::Plan;
use crate::random::Random;
use crate::reading::{Question, Reader};
use crate::replica::Replica;
use crate::site::{Change, Deferred};
use crate::traffic::Sent;
use crate::tree::{Edit, Intent, Outcome};
use crate::violation::Violation;
use crate::workload;
use control::{
    Asker, Command, ControlName, Epoch, LeaseSettings, Moment, OperationId, ReplicaSlot, Settings,
    Update, View,
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
        stamp: Stamp,
    },
    Alarm(ReplicaSlot),
    Submit(u64),
    /// A client looks up a name.
    Look(Question),
    Write(ReplicaSlot, u64, Vec<ControlName>),
    Reconnect(ReplicaSlot, ReplicaSlot),
    /// A disk has written everything that it got, in this incarnation.
    Flush(ReplicaSlot, u64),
    /// Asks for grants, checks for silent members, and continues to synchronise.
    Tick(ReplicaSlot, u64),
    /// The next decision may take effect.
    Enter(ReplicaSlot, u64),
    /// Retries what waits for a lease.
    Retry(ReplicaSlot, u64),
    /// The replica that forwarded this operation may have waited long enough. The second number
    /// is the number of times it was forwarded.
    Again(u64, u32),
    Fault(Fault),
    /// Survivors continue to exchange what they have of a lost stream.
    Settle(ReplicaSlot, u32),
}

/// The incarnations of two replicas between which a message travels, and the number of decisions in force
/// and known at its sender.
#[derive(Clone, Copy, Debug, Default)]
struct Stamp {
    from: u64,
    to: u64,
    entered: usize,
    learnt: usize,
}

/// A client's operation: open, change, close, as one.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The replica its client is connected to.
    pub home: ReplicaSlot,
    /// The intent of the client.
    pub intent: Intent,
    /// When it began.
    pub begun: Moment,
    /// Its outcome, and when it ended.
    pub outcome: Option<(Outcome, Moment)>,
    /// The update for which it asked control last.
    update: Option<Update>,
    /// The replica that handles it, and the incarnation of that replica.
    at: (ReplicaSlot, u64),
    /// How often it was forwarded or returned. Only the answer to the last time counts.
    handed: u32,
    /// The version that it has written at each replica, once that is stable: if a client's replica is silent, another
    /// replica carries the operation out.
    wrote: BTreeMap<ReplicaSlot, u64>,
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
    /// Clients that only read, with their caches; a client's number is its place.
    pub readers: Vec<Reader>,
    /// The newest version of each object, at whichever primary made it.
    pub newest: BTreeMap<ObjectId, u64>,
    /// The files that clients were told are closed.
    pub closed: BTreeMap<ObjectId, Closed>,
    locks: Locks,
    /// Files that a primary has removed; they cannot be opened any more.
    removed: BTreeSet<ObjectId>,
    /// The replica that made the newest version of each object.
    maker: BTreeMap<ObjectId, ReplicaSlot>,
    /// Operations that were given up together with what only a lost replica had.
    pub(crate) discarded: BTreeSet<u64>,
    /// The operation that made each version that other replicas may have seen.
    made: BTreeMap<(ObjectId, u64), u64>,
    /// Whether replicas fail, so that disks, leases and views count.
    pub(crate) failures: bool,
    /// Whether durability is `majority`, in the whole tree; otherwise it is `relaxed`.
    pub(crate) majority: bool,
    /// The model's own rules.
    pub model: Model,
    agreed: History,
    lease: LeaseSettings,
    settings: Settings,
    slowest_write: Duration,
    /// The longest time of an operation per operation served meanwhile, if limited.
    pub(crate) turn_limit: Option<Duration>,
    /// Replicas that are removed, or will be: they never run again, and no replica waits for them or for their clients.
    pub(crate) gone: BTreeSet<ReplicaSlot>,
    pub(crate) witnesses: BTreeSet<ReplicaSlot>,
    /// An administrator has said that a majority is gone: answered operations that only its members had may be lost.
    pub(crate) recovered: bool,
    /// The replicas given up this way whose streams are not settled yet.
    unsettled: BTreeSet<ReplicaSlot>,
    /// What was closed or moved in this step.
    pub(crate) just_closed: BTreeSet<ObjectId>,
    /// The virtual time.
    pub now: Moment,
    /// The links, which a scenario may change during the run.
    pub links: Links,
    /// Whether updates carry their operation, so that a repeated operation is not done again.
    pub origins_kept: bool,
    /// Whether to print every event.
    pub traced: bool,
    /// Whether every step is checked. Large sets that only count messages are checked only at rest.
    pub steps_checked: bool,
    /// Everything that was sent, if the caller wants to know it.
    pub sent: Option<Vec<Sent>>,
    /// Controls whose end was announced to some replica.
    pub(crate) ended: BTreeSet<ControlName>,
    seed: u64,
    random: Random,
    events: BTreeMap<(Moment, u64), Event>,
    sequence: u64,
    broken: Option<Violation>,
}

impl World {
    /// Sets up a world for a plan, and schedules the clients' operations of its seed.
    #[must_use]
    pub fn new(plan: &Plan) -> World {
        let founders = plan.founders.min(plan.present);
        let mut view = View::whole(Epoch(1), (1..=founders).map(ReplicaSlot).collect());
        if plan.joins && founders == plan.present && founders > 2 {
            view.active.pop_last();
        }
        let replicas = (1..=plan.present).map(ReplicaSlot).map(|slot| {
            let replica = Replica::new(slot, view.clone(), plan.settings);
            (slot, replica)
        });
        let mut world = World {
            replicas: replicas.collect(),
            operations: Vec::new(),
            readers: Vec::new(),
            newest: BTreeMap::new(),
            closed: BTreeMap::new(),
            locks: Locks::default(),
            removed: BTreeSet::new(),
            maker: BTreeMap::new(),
            discarded: BTreeSet::new(),
            made: BTreeMap::new(),
            failures: plan.failures,
            majority: plan.majority,
            model: plan.model,
            agreed: History::new(view),
            lease: plan.lease,
            settings: plan.settings,
            slowest_write: plan.slowest_write,
            turn_limit: plan.turn_limit(),
            gone: BTreeSet::new(),
            witnesses: plan.witnesses.clone(),
            recovered: false,
            unsettled: BTreeSet::new(),
            just_closed: BTreeSet::new(),
            now: Moment(0),
            links: plan.links.clone(),
            origins_kept: true,
            traced: false,
            steps_checked: true,
            sent: None,
            ended: BTreeSet::new(),
            seed: plan.seed,
            random: Random::new(plan.seed ^ 0x5eed),
            events: BTreeMap::new(),
            sequence: 0,
            broken: None,
        };
        if plan.failures {
            world.begin_failures(plan);
        }
        workload::prepare(&mut world, plan);
        world
    }

    /// Makes the same tree at every replica, before anything happens.
    pub fn plant(&mut self, edits: &[Edit]) {
        for replica in self.replicas.values_mut() {
            if replica.site.cut {
                continue;
            }
            let complete = replica.apply(Moment(0), edits);
            replica.site.stable.tree = replica.tree.clone();
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
            at: (home, 0),
            handed: 0,
            wrote: BTreeMap::new(),
        });
        self.schedule(begun, Event::Submit(number));
        number
    }

    /// Lets two replicas lose and renew their connection after a while.
    pub fn reconnect(&mut self, after: Duration, one: ReplicaSlot, other: ReplicaSlot) {
        let at = self.now.after(after);
        self.schedule(at, Event::Reconnect(one, other));
    }

    /// A new view takes effect at one replica.
    pub fn change_view(&mut self, slot: ReplicaSlot, view: View) {
        let now = self.local(slot);
        let replica = self.replica(slot);
        replica.core.handle_view(now, &replica.tree, view);
        self.settle(slot);
    }

    /// The random numbers of this run.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn schedule(&mut self, at: Moment, event: Event) {
        self.sequence += 1;
        self.events.insert((at, self.sequence), event);
    }

    /// Runs until no event is left, at most until `limit`, then checks that the set is at rest.
    pub fn run(&mut self, limit: Duration) -> Result<(), Violation> {
        let limit = Moment(0).after(limit);
        while self.step_before(limit)? {}
        invariants::check_rest(self).map_err(|(invariant, sight)| self.violation(invariant, sight))
    }

    /// Runs until the set is at rest, although leases are renewed all the time; at most until `limit`.
    pub fn run_to_rest(&mut self, limit: Duration) -> Result<(), Violation> {
        let limit = Moment(0).after(limit);
        while self.now < limit && invariants::check_rest(self).is_err() {
            let next = Moment(limit.0.min(self.now.0 + 500_000));
            while self.step_before(next)? {}
            self.now = self.now.max(next);
        }
        invariants::check_rest(self).map_err(|(invariant, sight)| self.violation(invariant, sight))
    }

    /// Runs the events until `until`.
    pub fn run_until(&mut self, until: Duration) -> Result<(), Violation> {
        let until = Moment(0).after(until);
        while self.step_before(until)? {}
        self.now = self.now.max(until);
        Ok(())
    }

    /// Runs until an operation has ended, at most until `limit`. Returns its outcome, and when it ended.
    pub fn run_until_ended(
        &mut self,
        number: u64,
        limit: Duration,
    ) -> Result<Option<(Outcome, Moment)>, Violation> {
        let limit = Moment(0).after(limit);
        while self.operations[place(number)].outcome.is_none() && self.step_before(limit)? {}
        Ok(self.operations[place(number)].outcome)
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
        if !self.steps_checked {
            return Ok(true);
        }
        for slot in concerned {
            invariants::check_step(self, slot)
                .map_err(|(invariant, sight)| self.violation(invariant, sight))?;
        }
        Ok(true)
    }

    /// Prints what every replica holds and what waits there, for readers of a trace.
    pub fn print_controls(&self) {
        for replica in self.replicas.values() {
            let lack = self.unrest(replica).unwrap_or("lacks nothing");
            println!("replica {}, which {lack}:", replica.slot.0);
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

    /// Handles an event. Returns the replicas that it concerns.
    fn take(&mut self, event: Event) -> Vec<ReplicaSlot> {
        if let Some(until) = self.put_off(&event) {
            self.schedule(until, event);
            return Vec::new();
        }
        match event {
            Event::Deliver {
                from,
                to,
                packet,
                stamp,
            } => {
                if !self.arrives(from, to, &packet, stamp) {
                    return Vec::new();
                }
                self.learn(to, stamp.learnt);
                if !self.arrives(from, to, &packet, stamp) {
                    return vec![to];
                }
                let quiet = packet.is_quiet();
                self.deliver(from, to, packet, stamp);
                self.settle(to);
                if quiet { Vec::new() } else { vec![to] }
            }
            Event::Alarm(slot) => {
                let now = self.local(slot);
                let replica = self.replica(slot);
                if replica.site.up {
                    replica.core.handle_timer(now, &replica.tree);
                    self.settle(slot);
                }
                vec![slot]
            }
            Event::Submit(number) => {
                let home = self.operations[place(number)].home;
                self.note_client(number);
                self.begin(home, number);
                self.settle(home);
                vec![home]
            }
            Event::Look(question) => {
                let home = self.readers[question.reader].home;
                self.take_question(home, question);
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
            event => self.take_of_failures(event),
        }
    }

    /// The replicas that were not removed.
    pub(crate) fn remaining(&self) -> impl Iterator<Item = &Replica> {
        let all = self.replicas.values();
        all.filter(|replica| !self.gone.contains(&replica.slot))
    }

    /// A replica of this set by its slot.
    pub fn replica(&mut self, slot: ReplicaSlot) -> &mut Replica {
        self.replicas
            .get_mut(&slot)
            .expect("messages go to replicas of the set")
    }

    /// Begins an operation with the present copy of the tree at `slot`.
    fn begin(&mut self, slot: ReplicaSlot, number: u64) {
        let now = self.local(slot);
        if !self.may_begin(slot, number) {
            return;
        }
        let intent = self.operations[place(number)].intent;
        let asker = match self.operations[place(number)].home == slot {
            true => Asker::Own,
            false => Asker::Other,
        };
        let origins_kept = self.origins_kept;
        let replica = self.replica(slot);
        if origins_kept && replica.done.contains(&number) {
            self.finish_when_stable(slot, number);
            return;
        }
        let Some(update) = replica.tree.resolve(&intent) else {
            self.finish(slot, number, Outcome::Refused);
            return;
        };
        let id = OperationId(number);
        let accepted = replica
            .core
            .handle_operation(now, &replica.tree, id, (&update, asker));
        accepted.expect("a simulated run stays far below the capacity");
        let incarnation = self.replica(slot).site.incarnation;
        let operation = &mut self.operations[place(number)];
        operation.update = Some(update);
        operation.at = (slot, incarnation);
    }

    fn finish(&mut self, slot: ReplicaSlot, number: u64, outcome: Outcome) {
        let now = self.now;
        let operation = &self.operations[place(number)];
        let home = operation.home;
        if home == slot {
            if !self.failures || operation.outcome.is_none() {
                let outcome = self.tell_of_lock(number, outcome);
                self.operations[place(number)].outcome = Some((outcome, now));
            }
        } else {
            self.send(slot, home, Packet::Finished(number, outcome));
        }
    }

    /// Carries out all commands of the core of `slot`, and applies the updates that may be applied now.
    fn settle(&mut self, slot: ReplicaSlot) {
        let now = self.local(slot);
        if !self.replica(slot).site.up {
            return;
        }
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
            self.store(slot, Change::Stored(object, version));
            self.when_stable(slot, Deferred::Send(origin, Packet::Stored(content)));
        }
    }

    fn carry_out(&mut self, slot: ReplicaSlot, command: Command) {
        if self.traced {
            println!("             {}: {command:?}", slot.0);
        }
        match command {
            Command::Persist(record) => self.store(slot, Change::Control(record)),
            Command::Send {
                to,
                envelope,
                after,
            } => self.send_after(slot, to, envelope, after),
            Command::Admit { operation, .. } if operation.0 & CLOSE != 0 => {
                self.answer_close(slot, operation.0 & !CLOSE);
            }
            Command::Admit {
                operation, under, ..
            } => self.execute(slot, operation.0, under),
            Command::ForwardTo { operation, holder } if self.is_lost(slot, holder) => {
                self.park(slot, operation.0);
            }
            Command::ForwardTo { operation, holder } => {
                let home = self.operations[place(operation.0)].home;
                let (to, packet) = if home == slot {
                    (holder, Packet::Forward(operation.0))
                } else {
                    (home, Packet::Returned(operation.0))
                };
                self.send(slot, to, packet);
                self.expect_answer(operation.0);
            }
            Command::ArmTimer { at } => {
                let at = self.moment_of(slot, at);
                self.schedule(at, Event::Alarm(slot));
            }
        }
    }
}

fn place(number: u64) -> usize {
    usize::try_from(number).expect("a run has few operations")
}
