//! Sequences of losing, starting, restarting, removing, replacing, giving up, joining and recovering, while clients of all
//! replicas work, in sets of two, of two and a witness, and of three to five. At the end nothing waits, nothing that counts is
//! lost, and nothing is left of removed replicas.
//!
//! All short sequences are run, with the length that each test gives, or `SEQUENCE_LENGTH`. Of longer ones,
//! `SEQUENCE_SEEDS` are run, from `SEQUENCE_FIRST` on.

use crate::harness::number;
use crate::stage::*;
use control::{ReplicaSlot, View};
use sim::{Fault, Intent, Random, Violation, World};

/// The times between two events, in milliseconds: some are too short for the set to recover.
const PAUSES: [u64; 3] = [300, 2_000, 7_000];

/// The start of a sequence.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    /// The number of replicas, including the witness.
    size: u16,
    /// The last of them is a witness.
    witness: bool,
    majority: bool,
}

/// An action on a set, or an event in it: faults, each with its delay after
/// the first in milliseconds.
type Event = Vec<(u64, Fault)>;

/// A set with its events.
struct Run {
    world: World,
    witness: Option<u16>,
    /// The replicas that run, and those that do not; the last of the latter has not joined yet.
    up: Vec<u16>,
    down: Vec<u16>,
    newcomer: u16,
    at: u64,
    made: u64,
    /// The set had time to recover after the last event.
    rested: bool,
    played: Vec<Event>,
}

impl Run {
    /// This number of replicas, and one that joins later.
    fn of(beginning: Beginning) -> Run {
        let Beginning {
            size,
            witness,
            majority,
        } = beginning;
        let newcomer = size + 1;
        let witness = witness.then_some(size);
        let mut world = set_the_stage_for_sequences(newcomer, size, witness, majority);
        world.fail(ms(0), Fault::Crash(slot(newcomer)));
        Run {
            world,
            witness,
            up: (1..=size).collect(),
            down: vec![newcomer],
            newcomer,
            at: 2_000,
            made: 0,
            rested: true,
            played: Vec::new(),
        }
    }

    fn newest_view(&self) -> View {
        let replicas = self.world.replicas.values();
        let views = replicas.map(|replica| replica.core.view());
        let newest = views.max_by_key(|view| view.epoch);
        newest.expect("a set has replicas").clone()
    }

    /// Whether a replica may be removed: the remaining running members can agree on it, and
    /// the active ones among them have everything. Otherwise nothing could be decided any more, not
    /// even the removal; or new members would wait for what the removed one still
    /// owed them, until an administrator says that the rest is the whole set. The first replica is never
    /// removed.
    fn may_go(&self, raw: u16) -> bool {
        let newest = self.newest_view();
        let others = self.up.iter().filter(|up| **up != raw);
        let others: Vec<u16> = others.copied().collect();
        let votes = |up: &&u16| newest.configured.contains(&slot(**up));
        let holds = |up: &u16| newest.active.contains(&slot(*up)) && Some(*up) != self.witness;
        let enough = others.iter().filter(votes).count() >= newest.majority();
        let mut taking_part = others
            .iter()
            .filter(|up| newest.active.contains(&slot(**up)));
        let whole = taking_part.all(|up| self.world.is_up_to_date(slot(*up)));
        raw != 1 && self.rested && enough && whole && others.iter().any(holds)
    }

    /// The events that can happen now.
    fn events(&self) -> Vec<Event> {
        let one = |fault: fn(ReplicaSlot) -> Fault| move |raw: &u16| vec![(0, fault(slot(*raw)))];
        let mut events: Vec<Event> = self.up.iter().map(one(Fault::Crash)).collect();
        // Its machine continues at once.
        let anew = |raw: &u16| {
            vec![
                (0, Fault::Crash(slot(*raw))),
                (200, Fault::Start(slot(*raw))),
            ]
        };
        events.extend(self.up.iter().map(anew));
        events.extend(self.down.iter().map(one(Fault::Start)));
        let all = self.up.iter().chain(&self.down);
        let others: Vec<u16> = all.filter(|raw| self.may_go(**raw)).copied().collect();
        events.extend(others.iter().map(one(Fault::Remove)));
        if self.down.contains(&self.newcomer) {
            let come = Fault::Start(slot(self.newcomer));
            let old = others.iter().filter(|raw| **raw != self.newcomer);
            events.extend(old.map(|raw| vec![(0, Fault::Remove(slot(*raw))), (0, come)]));
        }
        events.extend(self.down.iter().map(one(Fault::GiveUp)));
        let mut up = self.up.iter();
        let recovers = up.find(|raw| self.world.may_recover(slot(**raw)));
        events.extend(recovers.into_iter().map(one(Fault::Recover)));
        events
    }

    fn note(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(gone) => move_to(&mut self.up, &mut self.down, gone.0),
            Fault::Start(back) => move_to(&mut self.down, &mut self.up, back.0),
            Fault::Remove(gone) => {
                self.up.retain(|raw| *raw != gone.0);
                self.down.retain(|raw| *raw != gone.0);
            }
            _ => {}
        }
    }

    fn play(&mut self, event: Event, pause: u64) -> Result<(), Violation> {
        self.played.push(event.clone());
        // Just before, so that some work is active; and at replicas that remain.
        for (raw, after) in [(1, 0), (2, 60), (3, 90)] {
            if Some(raw) == self.witness || raw > self.newcomer || self.world.is_gone(slot(raw)) {
                continue;
            }
            self.made += 1;
            let new = Intent::Create {
                parent: object(if raw == 2 { D } else { E }),
                name: 1_000 + self.made,
                directory: false,
            };
            self.world.submit(ms(after), slot(raw), new);
            self.world
                .submit(ms(after + 5), slot(raw), Intent::Write(object(F)));
        }
        self.at += 100;
        self.world.run_until(ms(self.at))?;
        for (after, fault) in event {
            self.note(fault);
            self.world.fail(ms(after), fault);
        }
        self.at += pause;
        self.rested = pause == PAUSES[2];
        self.world.run_until(ms(self.at))?;
        // A replica that was given up with a majority never comes back.
        let world = &self.world;
        self.up.retain(|raw| !world.is_gone(slot(*raw)));
        self.down.retain(|raw| !world.is_gone(slot(*raw)));
        Ok(())
    }

    fn come_to_rest(&mut self) -> Result<(), Violation> {
        self.world.fail(ms(0), Fault::HealAll);
        self.world.run_to_rest(ms(self.at + 120_000))
    }
}

fn move_to(from: &mut Vec<u16>, to: &mut Vec<u16>, raw: u16) {
    from.retain(|other| *other != raw);
    to.push(raw);
}

/// Chooses the next of the possible events, and the pause after it.
type Choice<'a> = dyn FnMut(&[Event]) -> Option<(Event, u64)> + 'a;

fn play_events(beginning: Beginning, choose: &mut Choice<'_>) {
    let mut run = Run::of(beginning);
    let settled = run.world.run_until(ms(2_000));
    settled.expect("nothing has happened yet");
    let outcome = loop {
        let Some((event, pause)) = choose(&run.events()) else {
            break Ok(());
        };
        if let Err(violation) = run.play(event, pause) {
            break Err(violation);
        }
    };
    if let Err(violation) = outcome.and_then(|()| run.come_to_rest()) {
        for replica in run.world.replicas.values() {
            println!("replica {}: {:?}", replica.slot.0, replica.core.view());
        }
        run.world.print_controls();
        let played = run.played;
        panic!("{beginning:?}, {played:?}: {violation}");
    }
}

/// All sequences of `length` events, each by its choices.
fn play_all(beginning: Beginning, length: usize) {
    let mut choices = vec![0; length];
    loop {
        let (mut step, mut widths) = (0, vec![1; length]);
        play_events(beginning, &mut |events| {
            let at = *choices.get(step)?;
            widths[step] = events.len();
            step += 1;
            Some((events[at].clone(), PAUSES[2]))
        });
        let Some(next) = (0..length)
            .rev()
            .find(|step| choices[*step] + 1 < widths[*step])
        else {
            return;
        };
        choices[next] += 1;
        choices[next + 1..].fill(0);
    }
}

/// With both durabilities; `SEQUENCE_LENGTH` sets another length.
fn play_all_of(size: u16, witness: bool, length: u64) {
    let length = number("SEQUENCE_LENGTH").unwrap_or(length);
    let length = usize::try_from(length).expect("few events are played");
    for majority in [false, true] {
        let beginning = Beginning {
            size,
            witness,
            majority,
        };
        play_all(beginning, length);
    }
}

#[test]
fn every_sequence_in_two() {
    play_all_of(2, false, 3);
}

#[test]
fn every_sequence_in_two_and_a_witness() {
    play_all_of(3, true, 3);
}

#[test]
fn every_sequence_in_three() {
    play_all_of(3, false, 3);
}

#[test]
fn every_sequence_in_four_and_five() {
    play_all_of(4, false, 2);
    play_all_of(5, false, 2);
}

#[test]
fn longer_sequences_by_seed() {
    let first = number("SEQUENCE_FIRST").unwrap_or(0);
    for seed in first..first + number("SEQUENCE_SEEDS").unwrap_or(60) {
        let mut random = Random::new(seed ^ 0x5e9);
        let beginning = match random.below(5) {
            0 => (2, false),
            1 => (3, true),
            more => (u16::try_from(more).expect("sets are small") + 1, false),
        };
        let beginning = Beginning {
            size: beginning.0,
            witness: beginning.1,
            majority: random.chance(2),
        };
        let mut left = 3 + random.below(3);
        play_events(beginning, &mut |events| {
            left = left.checked_sub(1)?;
            let event = random.pick(events)?.clone();
            Some((event, *random.pick(&PAUSES)?))
        });
    }
}

/// The last of three is lost with a control, and removed; its loss was not settled before.
#[test]
fn counterexample_41_what_was_frozen_with_a_removed_replica_stands_for_ever() {
    let play = |settled: bool| {
        let mut world = set_the_stage_for_failures(3, all_rules);
        world.model.losses_settled_before_removal = settled;
        world.run_until(ms(2_000))?;
        world.submit(ms(0), slot(3), Intent::Write(object(F)));
        world.run_until(ms(2_100))?;
        world.fail(ms(0), Fault::Remove(slot(3)));
        world.run_until(ms(12_000))?;
        world.submit(ms(0), slot(2), Intent::Write(object(F)));
        world.fail(ms(0), Fault::HealAll);
        world.run_to_rest(ms(120_000))
    };
    play(true).unwrap();
    let broken = play(false).unwrap_err();
    assert_eq!(broken.invariant, "I8", "{broken}");
}

/// The second of three is away, and the others are gone for ever. It lacks what they made meanwhile, and continues alone.
#[test]
fn a_member_that_was_away_goes_on_alone_when_the_others_are_gone() {
    for (majority, pause) in [false, true].into_iter().zip(PAUSES.into_iter().rev()) {
        let beginning = Beginning {
            size: 3,
            witness: false,
            majority,
        };
        let mut faults = [
            Fault::Crash(slot(2)),
            Fault::Crash(slot(3)),
            Fault::Crash(slot(1)),
            Fault::Start(slot(2)),
            Fault::Recover(slot(2)),
            Fault::Start(slot(4)),
        ]
        .into_iter();
        play_events(beginning, &mut |events| {
            let event = vec![(0, faults.next()?)];
            assert!(events.contains(&event), "{event:?} of {events:?}");
            Some((event, pause))
        });
    }
}

/// A newcomer has a copy, and is away. The others give up what only the first two of five, which are lost, had. All three are back when
/// most of the others are away, so that they do not learn this. The newcomer gets from the first two what was given up, and then
/// from the others what they made since.
fn play_54(who_has_more_follows_nobody: bool) -> Result<(), Violation> {
    let mut run = Run::of(Beginning {
        size: 5,
        witness: false,
        majority: true,
    });
    run.world.model.who_has_more_follows_nobody = who_has_more_follows_nobody;
    run.world.run_until(ms(2_000))?;
    let faults = [
        (Fault::Start(slot(6)), PAUSES[0]),
        (Fault::Crash(slot(6)), PAUSES[1]),
        (Fault::Crash(slot(2)), PAUSES[1]),
        (Fault::Crash(slot(1)), PAUSES[2]),
        (Fault::Crash(slot(3)), PAUSES[1]),
    ];
    for (fault, pause) in faults {
        run.play(vec![(0, fault)], pause)?;
    }
    run.come_to_rest()
}

#[test]
fn counterexample_54_a_copy_with_more_than_was_kept_follows_nobody() {
    play_54(true).unwrap();
    let broken = play_54(false).unwrap_err();
    assert!(broken.invariant.starts_with("I4"), "{broken}");
}

/// The first three of five have shown versions of a file that the others do not know, and are gone for ever. The
/// others continue, and write the file.
fn play_55(recovered_pass_versions: bool) -> Result<(), Violation> {
    let mut world = set_the_stage_for_failures(5, all_rules);
    world.model.recovered_pass_versions = recovered_pass_versions;
    world.run_until(ms(2_000))?;
    for (gone, left) in [1, 2, 3].map(|gone| [(gone, 4), (gone, 5)]).concat() {
        world.fail(ms(0), Fault::Cut(slot(gone), slot(left)));
        world.fail(ms(0), Fault::Cut(slot(left), slot(gone)));
    }
    for number in 0..5 {
        world.submit(ms(20 * number + 1), slot(1), Intent::Write(object(F)));
    }
    world.run_until(ms(2_300))?;
    for gone in 1..=3 {
        world.fail(ms(0), Fault::Crash(slot(gone)));
    }
    world.fail(ms(10), Fault::Recover(slot(4)));
    for number in 0..400 {
        let at = ms(100 + 10 * number);
        world.submit(at, slot(5), Intent::Write(object(F)));
    }
    world.run_until(ms(10_000))?;
    world.fail(ms(0), Fault::HealAll);
    world.run_to_rest(ms(120_000))
}

#[test]
fn counterexample_55_who_is_left_makes_no_version_that_somebody_given_up_has_shown() {
    play_55(true).unwrap();
    let broken = play_55(false).unwrap_err();
    assert!(broken.invariant.starts_with("I3"), "{broken}");
}
