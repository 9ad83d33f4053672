//! What one update costs a primary: 20,000 files are created and written under deep control, ten levels
//! down, while two peers answer 120 ms later. Prints microseconds per update, releases included, and how
//! many messages a file takes.
//!
//! `cargo run --release -p control --example burst`; with the argument `contended`, another replica wants to
//! move the directory above all the files as soon as they are written.

use control::*;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};
use vfs::ObjectId;

const FILES: u64 = 20_000;
const LEVELS: u64 = 10;
const LEAVES: u64 = 100;
const DELAY: Duration = Duration::from_millis(120);
const BETWEEN_FILES: Duration = Duration::from_micros(50);

/// A tree in memory that counts how often it is asked.
#[derive(Default)]
struct Parents {
    of: HashMap<ObjectId, ObjectId>,
    asked: Cell<u64>,
}

impl Tree for Parents {
    fn parents(&self, object: ObjectId) -> Vec<ObjectId> {
        self.asked.set(self.asked.get() + 1);
        self.of.get(&object).copied().into_iter().collect()
    }
}

enum Event {
    Message(ReplicaSlot, ReplicaSlot, Envelope),
    Applied(ReplicaSlot, Position),
    Shipped(ObjectId),
    Alarm,
}

struct Burst {
    cores: BTreeMap<ReplicaSlot, ControlCore>,
    tree: Parents,
    now: Moment,
    events: BTreeMap<(Moment, u64), Event>,
    sequence: u64,
    spent: Duration,
    messages: BTreeMap<&'static str, u64>,
    position: u64,
}

const PRIMARY: ReplicaSlot = ReplicaSlot(1);

fn id(raw: u64) -> ObjectId {
    ObjectId::from_u64(raw)
}

fn kind(message: &Message) -> &'static str {
    match message {
        Message::Propose { .. } => "Propose",
        Message::Acknowledge { .. } => "Acknowledge",
        Message::Refuse { .. } => "Refuse",
        Message::Release { .. } => "Release",
        Message::Ended { .. } => "Ended",
        _ => "other",
    }
}

impl Burst {
    fn new() -> Burst {
        let configured: BTreeSet<ReplicaSlot> = (1..=3).map(ReplicaSlot).collect();
        let view = View::whole(Epoch(1), configured.clone());
        let core = |slot: ReplicaSlot| {
            let core = ControlCore::new(slot, Incarnation(1), view.clone(), Settings::default());
            (slot, core)
        };
        Burst {
            cores: configured.iter().map(|slot| core(*slot)).collect(),
            tree: Parents::default(),
            now: Moment(0),
            events: BTreeMap::new(),
            sequence: 0,
            spent: Duration::ZERO,
            messages: BTreeMap::new(),
            position: 0,
        }
    }

    /// Calls the core of one replica; only the primary's time counts.
    fn call<T>(
        &mut self,
        slot: ReplicaSlot,
        body: impl FnOnce(&mut ControlCore, &Parents, Moment) -> T,
    ) -> T {
        let core = self.cores.get_mut(&slot).expect("three replicas");
        let begun = Instant::now();
        let answer = body(core, &self.tree, self.now);
        let commands: Vec<Command> = std::iter::from_fn(|| core.next_command()).collect();
        if slot == PRIMARY {
            self.spent += begun.elapsed();
        }
        for command in commands {
            match command {
                Command::Send { to, envelope, .. } => {
                    *self.messages.entry(kind(&envelope.message)).or_default() += 1;
                    self.later(DELAY / 2, Event::Message(slot, to, envelope));
                }
                Command::ArmTimer { at } if slot == PRIMARY => {
                    let delay = Duration::from_micros(at.0.saturating_sub(self.now.0));
                    self.later(delay, Event::Alarm);
                }
                _ => {}
            }
        }
        answer
    }

    fn later(&mut self, delay: Duration, event: Event) {
        self.sequence += 1;
        self.events
            .insert((self.now.after(delay), self.sequence), event);
    }

    fn run_until(&mut self, until: Moment) {
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > until {
                break;
            }
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            match event {
                Event::Message(from, to, envelope) => {
                    self.call(to, |core, tree, now| {
                        core.handle_message(now, tree, from, envelope)
                    });
                }
                Event::Applied(peer, position) => {
                    self.call(PRIMARY, |core, tree, now| {
                        core.handle_applied(now, tree, peer, position);
                    });
                }
                Event::Shipped(file) => {
                    self.call(PRIMARY, |core, tree, now| {
                        core.handle_data_shipped(now, tree, file);
                    });
                }
                Event::Alarm => self.call(PRIMARY, |core, tree, now| core.handle_timer(now, tree)),
            }
        }
        self.now = self.now.max(until);
    }

    fn create(&mut self, parent: ObjectId, file: ObjectId) {
        self.position += 1;
        let position = Position(self.position);
        let update = Update::Create { parent };
        let under = self.call(PRIMARY, |core, tree, now| {
            let admission = core.try_admit(now, tree, (&update, Asker::Own));
            let under = admission.expect("deep control above").under;
            let born = core.handle_created(now, tree, Subject::File(file), parent);
            assert!(born.is_none(), "deep control covers what is new");
            under
        });
        self.tree.of.insert(file, parent);
        self.call(PRIMARY, |core, tree, now| {
            core.handle_linked(now, tree, file, parent);
            core.handle_update(tree, &update, &under, position);
        });
        self.applied_later(position);
    }

    fn write(&mut self, file: ObjectId, number: u64) {
        self.position += 1;
        let position = Position(self.position);
        let update = Update::Change(Subject::File(file));
        self.call(PRIMARY, |core, tree, now| {
            core.handle_opened_for_writing(file);
            let admission = core.try_admit(now, tree, (&update, Asker::Own));
            let under = admission.expect("deep control above").under;
            core.hold(&under);
            core.handle_update(tree, &update, &under, position);
            core.handle_data_unshipped(file, &under);
            core.handle_let_go(now, tree, &under);
            core.handle_closed_for_writing(now, tree, file);
            let entry = Some(Position(position.0 - 1));
            let close = core.handle_close(now, tree, OperationId(number), file, entry);
            close.expect("closes are answered at once");
        });
        self.applied_later(position);
        self.later(DELAY, Event::Shipped(file));
    }

    /// Another replica wants to move the directory above all the files, and waits for each one's control.
    fn rename_from_elsewhere(&mut self) {
        let update = Update::Rename {
            from: id(LEVELS - 1),
            to: id(1),
            moved: Subject::Directory(id(LEVELS)),
            replaced: None,
        };
        self.call(ReplicaSlot(2), |core, tree, now| {
            let begun = core.handle_operation(now, tree, OperationId(0), (&update, Asker::Own));
            begun.expect("one operation fits");
        });
    }

    fn applied_later(&mut self, position: Position) {
        for peer in [2, 3] {
            self.later(DELAY, Event::Applied(ReplicaSlot(peer), position));
        }
    }
}

/// How long this thread has had a processor, where the system says so (Linux).
fn on_processor() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = stat.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

fn main() {
    let mut burst = Burst::new();
    for level in 2..=LEVELS {
        burst.tree.of.insert(id(level), id(level - 1));
    }
    for leaf in 0..LEAVES {
        burst.tree.of.insert(id(100 + leaf), id(LEVELS));
    }
    burst.call(PRIMARY, |core, tree, now| {
        let update = Update::Create { parent: id(2) };
        let begun = core.handle_operation(now, tree, OperationId(0), (&update, Asker::Own));
        begun.expect("one operation fits");
    });
    burst.run_until(Moment(200_000));
    burst.spent = Duration::ZERO;
    let (begun, had) = (Instant::now(), on_processor());
    burst.tree.asked.set(0);
    for number in 0..FILES {
        let (parent, file) = (id(100 + number % LEAVES), id(1000 + number));
        burst.create(parent, file);
        burst.write(file, number + 1);
        burst.run_until(burst.now.after(BETWEEN_FILES));
    }
    let foreground = burst.spent;
    if std::env::args().any(|argument| argument == "contended") {
        burst.rename_from_elsewhere();
    }
    burst.run_until(Moment(60_000_000));
    let left = burst.cores[&PRIMARY].unfinished();
    let updates = 2 * FILES;
    // On a busy machine only a part of the time that passes is spent in here.
    let share = match (had, on_processor()) {
        (Some(before), Some(after)) => (after - before).div_duration_f64(begun.elapsed()),
        _ => 1.0,
    };
    let each = |spent: Duration| spent.as_secs_f64() * share * 1e6 / updates as f64;
    println!("{updates} updates: {:.2} us each", each(burst.spent));
    println!("  with {:.0} % of a processor", share * 100.0);
    println!("  of these {:.2} us while clients write", each(foreground));
    println!(
        "  parents asked for, all three: {}",
        burst.tree.asked.get() / updates
    );
    println!("  controls left: {left}");
    for (kind, count) in &burst.messages {
        println!(
            "  {kind}: {:.3} per file and peer",
            *count as f64 / FILES as f64 / 2.0
        );
    }
}
