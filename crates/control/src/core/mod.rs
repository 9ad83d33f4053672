//! The main type: the replication control of one replica, and the contract for its caller.
//!
//! The inputs are in the files beside this one, by subject: operations, peers, relinquishing, closing, and changes of
//! the tree and of the view. Nothing in here waits, sends or stores.

mod candidates;
mod changes;
mod closing;
mod contents;
mod holding;
mod may_end;
mod operations;
mod peers;
mod previous;
mod proposing;
mod relinquish;
mod reports;
mod retiring;
mod sizes;
mod standing_back;
mod views;

use crate::acceptor::{Acceptor, Answer};
use crate::claim::{Obstacle, Proposal};
use crate::command::{Command, Mark, Record};
use crate::message::{Envelope, Message};
use crate::moment::Moment;
use crate::name::{ControlName, Epoch, Incarnation, Position};
use crate::own::{Ending, OwnControls};
use crate::settings::Settings;
use crate::tree::Tree;
use crate::update::Subject;
use crate::view::View;
pub use sizes::Sizes;

use candidates::{Candidates, Unknown};
use closing::Closes;
use contents::Contents;
use previous::Previous;
use reports::Reports;
use standing_back::StandingBack;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use vfs::{ObjectId, ReplicaSlot};

/// One replica's replication control: proposer, holder and acceptor in one.
///
/// # Contract
///
/// **Inputs** are the `handle_*` methods. Each takes the current time, if it matters, and the caller's own copy of the
/// tree. Time never runs backwards.
///
/// **Outputs** are [`Command`]s. After *every* `handle_*` call the caller takes all of them with
/// [`ControlCore::next_command`], in order, until there are none. Before that it calls another `handle_*` only as part
/// of executing a command.
///
/// - [`Command::Persist`]: stored in order; several may share one commit. The core continues as if it had
///   happened. Outputs that must not be seen before it is stable carry a [`Mark`].
/// - [`Command::Send`]: delivery may be late, repeated, out of order or fail. When there is a new connection to a
///   peer, the caller reports it with [`ControlCore::handle_connected`], and everything unanswered is sent again.
///   Nothing else polls.
/// - [`Command::Admit`]: the caller checks the operation again (it may have waited while the tree changed),
///   executes it at once, reports the changed links, and reports the update's position in its stream with
///   [`ControlCore::handle_update`]. An operation whose needs have changed is submitted again.
/// - [`Command::ForwardTo`]: the operation leaves this core; it may be submitted again.
/// - [`Command::ArmTimer`]: one alarm at a time.
///
/// **Updates of others** are applied only when [`ControlCore::may_apply`] allows it for the controls that they were made under. While it refuses, the caller
/// calls [`ControlCore::handle_update_waiting`]. After applying, it reports every change of links with [`ControlCore::handle_linked`] and
/// [`ControlCore::handle_unlinked`], so that the ancestry table follows the tree.
///
/// **After a restart** a new core begins with a larger [`Incarnation`]. First, the caller passes it with
/// [`ControlCore::restore`] what it had acknowledged. The core must not get a message before the replica has
/// synchronised; the caller ensures this. Once all replicas have everything that was made under the controls of
/// previous incarnations, [`ControlCore::handle_previous_settled`] ends them.
///
/// **Bounds**: at most [`Settings::capacity`] own controls and waiting operations, and as many waiting proposals of
/// each peer. Beyond that, operations are refused with [`Overloaded`].
#[derive(Clone, Debug)]
pub struct ControlCore {
    slot: ReplicaSlot,
    incarnation: Incarnation,
    view: View,
    settings: Settings,
    acceptor: Acceptor,
    own: OwnControls,
    endings: BTreeMap<u64, Ending>,
    previous: Previous,
    /// This replica joined the view again in this incarnation, so it does not know which controls ended before.
    joined: bool,
    next_number: u64,
    /// Own controls with smaller numbers were proposed, and perhaps won, in an earlier configuration.
    since_configuration: u64,
    /// The position up to which each peer has applied this replica's stream.
    applied: BTreeMap<ReplicaSlot, Position>,
    /// The last update of this replica that moved an object.
    last_move: Position,
    contents: Contents,
    open_for_writing: BTreeMap<ObjectId, u32>,
    closes: Closes,
    /// Directories whose control had to be given up. Until this moment no deep control is proposed there.
    back_off: BTreeMap<ObjectId, Moment>,
    /// When to examine a control again; at most one entry for each. It may be too early.
    deadlines: BTreeSet<(Moment, u64)>,
    armed: Option<Moment>,
    /// Links were removed since the waiting proposals were examined.
    links_unsettled: bool,
    /// Controls that should end once all replicas have everything that was made under them.
    candidates: Candidates,
    standing_back: StandingBack,
    /// The replica is about to stop.
    retiring: bool,
    unknown: Unknown,
    reports: Reports,
    /// What this replica had acknowledged before it left the view. Kept until it knows again what others hold.
    set_aside: BTreeMap<ControlName, Proposal>,
    /// Peers whose messages of a later view were dropped here, with the last such view of each.
    ahead_of_us: BTreeMap<ReplicaSlot, Epoch>,
    answers: VecDeque<Answer>,
    to_judge: BTreeSet<u64>,
    commands: VecDeque<Command>,
    persisted: Mark,
    refusals: u64,
}

/// The core holds the maximum number of operations or controls; the client has to try again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overloaded;

impl fmt::Display for Overloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many operations wait for replication control; try again later")
    }
}

impl std::error::Error for Overloaded {}

impl ControlCore {
    /// Begins a new incarnation of replica `slot`, with no controls.
    #[must_use]
    pub fn new(
        slot: ReplicaSlot,
        incarnation: Incarnation,
        view: View,
        settings: Settings,
    ) -> ControlCore {
        ControlCore {
            slot,
            incarnation,
            view,
            acceptor: Acceptor::new(slot, settings.rules),
            settings,
            own: OwnControls::default(),
            endings: BTreeMap::new(),
            previous: Previous::Unsettled,
            joined: false,
            next_number: 1,
            since_configuration: 1,
            applied: BTreeMap::new(),
            last_move: Position(0),
            contents: Contents::default(),
            open_for_writing: BTreeMap::new(),
            closes: Closes::default(),
            back_off: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            armed: None,
            links_unsettled: false,
            candidates: Candidates::default(),
            standing_back: StandingBack::default(),
            retiring: false,
            unknown: Unknown::default(),
            reports: Reports::default(),
            set_aside: BTreeMap::new(),
            ahead_of_us: BTreeMap::new(),
            answers: VecDeque::new(),
            to_judge: BTreeSet::new(),
            commands: VecDeque::new(),
            persisted: Mark(0),
            // Later refusals are numbered after all refusals of previous incarnations.
            refusals: incarnation.0 << 32,
        }
    }

    /// The next command, or `None` when there is none.
    pub fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Whether this replica may admit updates of the object now: it holds a control of the object, or a deep control
    /// above it.
    pub fn controls(&self, tree: &impl Tree, subject: Subject) -> bool {
        let needs = crate::update::Update::Change(subject).needs(self.settings.rules);
        self.coverage(tree, &needs).is_some()
    }

    /// The control by which another replica is primary for the object, as known here. Reads are forwarded there. With
    /// `None` they are answered from the local copy.
    pub fn foreign_control(&self, tree: &impl Tree, object: ObjectId) -> Option<ControlName> {
        let question = self.question(tree, object);
        let conflicts = self.acceptor.table().conflicts(tree, &question);
        conflicts.first().copied()
    }

    /// Whether an update that another primary made under these controls may be applied here: each control has been
    /// granted here, or has ended since.
    #[must_use]
    pub fn may_apply(&self, under: &[ControlName]) -> bool {
        !self.settings.rules.grant_before_apply()
            || under
                .iter()
                .all(|name| self.acceptor.acknowledges(*name) || self.acceptor.has_ended(*name))
    }

    /// The controls this replica acknowledges now, for status pages and for checking invariants.
    pub fn acknowledged(&self) -> impl Iterator<Item = &Proposal> {
        self.acceptor.table().grants()
    }

    /// Whether a control that was acknowledged before the start is not acknowledged again for now, because a
    /// conflicting one may have been won. It blocks all other proposals.
    #[must_use]
    pub fn is_in_dispute(&self, name: ControlName) -> bool {
        self.acceptor.is_disputed(name)
    }

    /// The number of controls of other replicas that are acknowledged here. With none, no read is forwarded.
    #[must_use]
    pub fn foreign_grants(&self) -> usize {
        self.acceptor.table().foreign_to(self.slot)
    }

    /// The waiting proposals, each with its obstacles.
    pub fn waiting(&self) -> impl Iterator<Item = (&Proposal, &[Obstacle])> {
        self.acceptor.waiting()
    }

    /// Whether the ancestry table, and the data derived from it for waiting proposals, equal a new computation from the
    /// controls and the tree (I6).
    pub fn ancestry_is_exact(&self, tree: &impl Tree) -> bool {
        self.acceptor.is_exact(tree)
    }

    /// The number of own controls in any state, of own ends that some replica has not noted, and of operations that stand back. Zero when nothing is in
    /// progress.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.own.len() + self.endings.len() + self.standing_back.len()
    }

    fn name_of(&self, number: u64) -> ControlName {
        ControlName {
            holder: self.slot,
            incarnation: self.incarnation,
            number,
        }
    }

    /// The own number of a name, unless it belongs to another replica or incarnation.
    fn own_number(&self, name: ControlName) -> Option<u64> {
        let ours = name.holder == self.slot && name.incarnation == self.incarnation;
        ours.then_some(name.number)
    }

    /// Every own control with a smaller number has ended at all replicas.
    fn floor(&self) -> u64 {
        let live = self.own.first_number().unwrap_or(self.next_number);
        let ending = self.endings.keys().next().copied();
        live.min(ending.unwrap_or(self.next_number))
    }

    fn persist(&mut self, record: Record) -> Mark {
        self.persisted = Mark(self.persisted.0 + 1);
        self.commands.push_back(Command::Persist(record));
        self.persisted
    }

    fn send(&mut self, to: ReplicaSlot, message: Message, after: Mark) {
        let epoch = self.view.epoch;
        self.commands.push_back(Command::Send {
            to,
            envelope: Envelope { epoch, message },
            after,
        });
    }

    fn send_to_all(&mut self, peers: &BTreeSet<ReplicaSlot>, message: &Message) {
        for peer in peers {
            self.send(*peer, message.clone(), Mark(0));
        }
    }

    fn peers(&self) -> BTreeSet<ReplicaSlot> {
        let mut peers = self.view.active.clone();
        peers.remove(&self.slot);
        peers
    }

    /// Processes the consequences until nothing changes any more. Every `handle_*` ends with it.
    fn run(&mut self, now: Moment, tree: &impl Tree) {
        self.advance(now, tree);
        while self.step_forward(now, tree) {
            self.advance(now, tree);
        }
        self.answer_closes(tree);
        self.arm_timer();
    }

    /// Delivers every answer of the acceptor, judges the affected elections, and ends the controls that should and may
    /// end.
    fn advance(&mut self, now: Moment, tree: &impl Tree) {
        loop {
            if let Some(answer) = self.answers.pop_front() {
                self.carry(now, tree, answer);
            } else if let Some(number) = self.to_judge.pop_first() {
                self.judge(now, tree, number);
            } else if let Some(file) = self.contents.next_stale() {
                self.review_contents(tree, file);
            } else if let Some(number) = self.candidates.next() {
                self.examine(now, tree, number);
            } else {
                break;
            }
        }
    }

    fn carry(&mut self, now: Moment, tree: &impl Tree, answer: Answer) {
        match answer {
            Answer::Granted(proposal) => {
                let name = proposal.name;
                let held_up = self.acceptor.held_up_by(self.slot, &proposal);
                self.to_judge.extend(held_up.map(|name| name.number));
                let durable = self.persist(Record::Granted(proposal));
                self.acknowledge(tree, name, durable);
            }
            Answer::GrantedBefore(name) => self.acknowledge(tree, name, self.persisted),
            Answer::Refused(name, obstacles) => self.refuse(now, name, obstacles),
        }
    }

    fn acknowledge(&mut self, tree: &impl Tree, name: ControlName, durable: Mark) {
        let Some(number) = self.own_number(name) else {
            self.send(name.holder, Message::Acknowledge { name }, durable);
            return;
        };
        if let Some(control) = self.own.find_mut(number) {
            control.durable = durable;
            self.note_acknowledgement(tree, number, name.holder);
        }
    }

    /// A replica, perhaps this one, acknowledges an own control.
    fn note_acknowledgement(&mut self, tree: &impl Tree, number: u64, from: ReplicaSlot) {
        let Some(control) = self.own.find_mut(number) else {
            return;
        };
        control.election.note_acknowledgement(from);
        self.to_judge.insert(number);
        let deep = control.is_deep();
        for object in control.objects() {
            self.closes.wake_at(object, deep);
        }
        self.review(tree, number);
    }

    /// A waiting competitor has the same effect as a revoke of what it waits for.
    fn refuse(&mut self, now: Moment, name: ControlName, obstacles: Vec<Obstacle>) {
        self.refusals += 1;
        let turn = self.refusals;
        let Some(number) = self.own_number(name) else {
            for obstacle in &obstacles {
                if let Some(ours) = self.own_number(obstacle.name) {
                    self.revoke(now, ours);
                }
            }
            let message = Message::Refuse {
                name,
                turn,
                obstacles,
            };
            if self.settings.rules.refusals_are_sent() {
                self.send(name.holder, message, Mark(0));
            }
            return;
        };
        if let Some(control) = self.own.find_mut(number) {
            control.election.note_refusal(name.holder, turn, obstacles);
            self.to_judge.insert(number);
        }
    }

    fn arm_timer(&mut self) {
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        let Some(at) = deadline.into_iter().chain(self.standing_back.until).min() else {
            return;
        };
        if self.armed.is_none_or(|armed| at < armed) {
            self.armed = Some(at);
            self.commands.push_back(Command::ArmTimer { at });
        }
    }
}
