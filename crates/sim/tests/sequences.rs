//! Sequences of losing, starting, removing, giving up and joining, while clients of all replicas work. In the end nothing waits,
//! nothing that counts is lost, and of those who are gone nothing is left.
//!
//! Short ones are played all, in sets of four and five all of so many events as `SEQUENCE_LENGTH` says; of longer ones so many
//! as `SEQUENCE_SEEDS` says, from `SEQUENCE_FIRST` on.

mod stage;

use sim::{Fault, Intent, Random, Violation, World};
use stage::*;

/// So long after one event the next one happens, in milliseconds: sometimes before the set has gone on.
const PAUSES: [u64; 3] = [300, 2_000, 7_000];

/// One set in which something happens.
struct Run {
    world: World,
    /// Who runs, and who does not; the last of the latter has not come yet.
    up: Vec<u16>,
    down: Vec<u16>,
    at: u64,
    made: u64,
    /// The set has had the time to go on after the last event.
    rested: bool,
    played: Vec<Fault>,
}

impl Run {
    /// So many replicas, and one that comes later.
    fn of(size: u16, majority: bool) -> Run {
        let newcomer = size + 1;
        let mut world = set_the_stage_for_sequences(newcomer, size, majority);
        world.fail(ms(0), Fault::Crash(slot(newcomer)));
        Run {
            world,
            up: (1..=size).collect(),
            down: vec![newcomer],
            at: 2_000,
            made: 0,
            rested: true,
            played: Vec::new(),
        }
    }

    /// Whether a majority takes part and runs without one that is removed. Else nothing could be decided any more, not even
    /// that; or somebody would have to take its place, and if one of those who are left were started anew before that, all
    /// would wait for the one that is gone until somebody says that they are the whole set. The first replica is never
    /// removed.
    fn may_go(&self, raw: u16) -> bool {
        let views = self
            .world
            .replicas
            .values()
            .map(|replica| replica.core.view());
        let newest = views
            .max_by_key(|view| view.epoch)
            .expect("a set has replicas");
        let active = newest.active.iter();
        let left = active.filter(|one| one.0 != raw && self.up.contains(&one.0));
        raw != 1 && self.rested && left.count() >= newest.majority()
    }

    /// What can happen now.
    fn events(&self) -> Vec<Fault> {
        let up = self.up.iter().map(|raw| Fault::Crash(slot(*raw)));
        let down = self.down.iter().map(|raw| Fault::Start(slot(*raw)));
        let all = self.up.iter().chain(&self.down);
        let others = all.filter(|raw| self.may_go(**raw));
        let remove = others.map(|raw| Fault::Remove(slot(*raw)));
        let give_up = self.down.iter().map(|raw| Fault::GiveUp(slot(*raw)));
        up.chain(down).chain(remove).chain(give_up).collect()
    }

    fn play(&mut self, event: Fault, pause: u64) -> Result<(), Violation> {
        self.played.push(event);
        match event {
            Fault::Crash(gone) => move_to(&mut self.up, &mut self.down, gone.0),
            Fault::Start(back) => move_to(&mut self.down, &mut self.up, back.0),
            Fault::Remove(gone) => {
                self.up.retain(|raw| *raw != gone.0);
                self.down.retain(|raw| *raw != gone.0);
            }
            _ => {}
        }
        // Just before, so that some of it is under way; and at those who go on.
        for (raw, after) in [(1, 0), (2, 60), (3, 90)] {
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
        self.world.fail(ms(0), event);
        self.at += pause;
        self.rested = pause == PAUSES[2];
        self.world.run_until(ms(self.at))
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

/// The next of the events that may happen, and the pause behind it.
type Choice<'a> = dyn FnMut(&[Fault]) -> Option<(Fault, u64)> + 'a;

fn play_events(size: u16, majority: bool, choose: &mut Choice<'_>) {
    let mut run = Run::of(size, majority);
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
        panic!("{size} replicas, majority {majority}, {played:?}: {violation}");
    }
}

/// All sequences of so many events, each by its choices.
fn play_all(size: u16, majority: bool, length: usize) {
    let mut choices = vec![0; length];
    loop {
        let (mut step, mut widths) = (0, vec![1; length]);
        play_events(size, majority, &mut |events| {
            let at = *choices.get(step)?;
            widths[step] = events.len();
            step += 1;
            Some((events[at], PAUSES[2]))
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

#[test]
fn every_sequence_of_three_in_three() {
    play_all(3, false, 3);
}

#[test]
fn every_sequence_of_three_in_three_with_majority() {
    play_all(3, true, 3);
}

/// As long ones as `SEQUENCE_LENGTH` says.
#[test]
fn every_sequence_of_two_in_four_and_five() {
    let length = number("SEQUENCE_LENGTH").unwrap_or(2);
    let length = usize::try_from(length).expect("few events are played");
    for size in [4, 5] {
        play_all(size, false, length);
        play_all(size, true, length);
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn longer_sequences_by_seed() {
    let first = number("SEQUENCE_FIRST").unwrap_or(0);
    for seed in first..first + number("SEQUENCE_SEEDS").unwrap_or(60) {
        let mut random = Random::new(seed ^ 0x5e9);
        let size = 3 + u16::try_from(random.below(3)).unwrap();
        let (majority, length) = (random.chance(2), 3 + random.below(3));
        let mut left = length;
        play_events(size, majority, &mut |events| {
            left = left.checked_sub(1)?;
            let event = *random.pick(events)?;
            Some((event, *random.pick(&PAUSES)?))
        });
    }
}

/// Of three the last is lost with a control, and removed; nobody has settled its loss before.
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
