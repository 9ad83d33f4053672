//! Locks whose holders' replica is lost: they stay until their client has come to another replica, or has stayed away.

use crate::stage::*;
use sim::{Fault, Intent, Model, Outcome, Plan, Random, Scenario, Violation, World};
use vfs::ObjectId;

/// Clients of the replicas A and B.
const K1: u64 = 1;
const K2: u64 = 2;

fn lock(client: u64) -> Intent {
    let file = object(F);
    Intent::Lock { file, client }
}

fn unlock(client: u64) -> Intent {
    let file = object(F);
    Intent::Unlock { file, client }
}

fn outcome(world: &World, number: u64) -> Option<Outcome> {
    let operation = &world.operations[number as usize];
    operation.outcome.map(|(outcome, _)| outcome)
}

/// K1 has a lock at A when A is lost. What A controlled is given up, and K2 wants the lock at B.
fn lose_the_lock_s_primary(switch: fn(&mut Model)) -> Result<World, Violation> {
    let mut world = set_the_stage_for_failures(3, all_rules);
    switch(&mut world.model);
    world.run_until(ms(2_000))?;
    let first = world.submit(ms(0), slot(1), lock(K1));
    world.run_until(ms(2_200))?;
    assert_eq!(outcome(&world, first), Some(Outcome::Done));
    world.fail(ms(0), Fault::Crash(slot(1)));
    world.fail(ms(5_000), Fault::GiveUp(slot(1)));
    world.run_until(ms(8_000))?;
    assert!(world.replicas[&slot(2)].core.frozen().next().is_none());
    Ok(world)
}

/// K1 comes to C, reclaims its lock, and gives it back. K2 asks before and after.
fn play_25(switch: fn(&mut Model)) -> Result<Vec<Option<Outcome>>, Violation> {
    let mut world = lose_the_lock_s_primary(switch)?;
    let numbers = [
        world.submit(ms(0), slot(2), lock(K2)),
        world.submit(ms(1_000), slot(3), lock(K1)),
        world.submit(ms(2_000), slot(2), lock(K2)),
        world.submit(ms(3_000), slot(3), unlock(K1)),
        world.submit(ms(4_000), slot(2), lock(K2)),
    ];
    world.run_until(ms(20_000))?;
    world.fail(ms(0), Fault::HealAll);
    world.run_to_rest(ms(60_000))?;
    let outcomes = numbers.map(|number| outcome(&world, number));
    Ok(outcomes.to_vec())
}

#[test]
fn counterexample_25_a_lock_is_nobody_else_s_before_its_holder_could_reclaim_it() {
    use Outcome::{Done, Refused};
    let outcomes = play_25(|_| {}).unwrap();
    assert_eq!(outcomes, [Refused, Done, Refused, Done, Done].map(Some));
    let broken = play_25(|model| model.locks_are_in_every_copy = false).unwrap_err();
    assert_eq!(broken.invariant, "NFS (a lock has one holder)", "{broken}");
}

/// K2 asks repeatedly. Returns when it is told that it has the lock, in milliseconds, if K1 never comes.
fn play_25_without_the_holder(switch: fn(&mut Model)) -> Result<u64, Violation> {
    let mut world = lose_the_lock_s_primary(switch)?;
    let asked: Vec<u64> = (0..40)
        .map(|turn| world.submit(ms(250 * turn), slot(2), lock(K2)))
        .collect();
    world.run_until(ms(30_000))?;
    world.fail(ms(0), Fault::HealAll);
    world.run_to_rest(ms(60_000))?;
    let mut answers = asked.into_iter().filter_map(|number| {
        let (outcome, at) = world.operations[number as usize].outcome?;
        (outcome == Outcome::Done).then_some(at.0 / 1000)
    });
    Ok(answers.next().expect("it has the lock in the end"))
}

#[test]
fn counterexample_25_what_its_holder_left_is_given_up_after_a_client_lease_and_not_before() {
    let given = play_25_without_the_holder(|_| {}).unwrap();
    assert!(given > 2_200 + 8_000, "{given}");
    let broken = play_25_without_the_holder(|model| model.absent_clients_have_a_lease = false);
    let broken = broken.unwrap_err();
    assert_eq!(broken.invariant, "NFS (a lock has one holder)", "{broken}");
}

/// A client that sends one request after another, and sometimes goes to another replica.
struct Client {
    number: u64,
    home: u16,
    asked: Option<u64>,
    locked: Option<ObjectId>,
}

impl Client {
    /// Sends the next request when the outcome of the last one is known.
    fn go_on(&mut self, world: &mut World, random: &mut Random, files: &[ObjectId]) {
        if let Some(asked) = self.asked {
            let Some(outcome) = outcome(world, asked) else {
                return;
            };
            let intent = world.operations[asked as usize].intent;
            self.locked = match (intent, outcome) {
                (Intent::Lock { file, .. }, Outcome::Done) => Some(file),
                _ => None,
            };
            self.asked = None;
        }
        if random.chance(8) {
            self.home = 1 + random.below(world.replicas.len() as u64) as u16;
            // It reclaims what it has.
            self.locked.inspect(|file| self.lock(world, *file));
        } else if random.chance(2) {
            match self.locked {
                Some(file) => self.ask(
                    world,
                    Intent::Unlock {
                        file,
                        client: self.number,
                    },
                ),
                None => self.lock(world, *random.pick(files).unwrap_or(&ObjectId::ROOT)),
            }
        }
    }

    fn lock(&mut self, world: &mut World, file: ObjectId) {
        self.ask(
            world,
            Intent::Lock {
                file,
                client: self.number,
            },
        );
    }

    fn ask(&mut self, world: &mut World, intent: Intent) {
        self.asked = Some(world.submit(ms(0), slot(self.home), intent));
    }
}

/// A random run with failures in which clients also lock files. Returns the number of locks they got.
fn run_with_locks(seed: u64, switch: fn(&mut Model)) -> Result<usize, Violation> {
    let mut plan = Plan::draw_failing(seed);
    switch(&mut plan.model);
    let mut world = World::new(&plan);
    let planted = world.replicas[&slot(1)].tree.clone();
    let is_file = |object: &ObjectId| planted.entries(*object).is_none();
    let files: Vec<ObjectId> = planted.objects().filter(is_file).take(2).collect();
    let mut random = Random::new(seed);
    let mut clients = [1, 2, 3, 4].map(|number| Client {
        number,
        home: 1 + number as u16 % 3,
        asked: None,
        locked: None,
    });
    for turn in 1..100 {
        for client in &mut clients {
            client.go_on(&mut world, &mut random, &files);
        }
        world.run_until(ms(turn * 300))?;
    }
    Scenario::run_world(&mut world)?;
    let got = world.operations.iter().filter(|operation| {
        let done = matches!(operation.outcome, Some((Outcome::Done, _)));
        done && matches!(operation.intent, Intent::Lock { .. })
    });
    Ok(got.count())
}

#[test]
fn random_runs_with_failures_keep_locks_apart() {
    let mut got = 0;
    for seed in 0..150 {
        match run_with_locks(seed, |_| {}) {
            Ok(more) => got += more,
            Err(violation) => panic!("{violation}"),
        }
    }
    assert!(got > 2_000, "{got}");
    let without = |seed| run_with_locks(seed, |model| model.locks_are_in_every_copy = false);
    let named = |broken: &Violation| broken.invariant == "NFS (a lock has one holder)";
    let broken = (0..150).find_map(|seed| without(seed).err().filter(named));
    broken.expect("some lock has two holders");
}
