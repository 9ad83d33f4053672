//! Clients that read and cache entries under the change attribute of their directory, while others change it.

use crate::stage::*;
use control::ReplicaSlot;
use sim::{Intent, Lane, Plan, Random, Violation, World};
use std::time::Duration;
use vfs::ObjectId;

/// A controls D and gives the name 100 to a new object, which C does not know yet. A client of C sees the new change
/// attribute at A, and looks up the name.
fn play_20(same_copy: bool) -> Result<World, Violation> {
    let mut world = set_the_stage(3, shallow_only(), all_rules);
    world.model.entries_from_copy_of_attributes = same_copy;
    slow(&mut world, 1, 3, Lane::Stream, ms(2000));
    let create = Intent::Create {
        parent: object(D),
        name: 100,
        directory: false,
    };
    world.submit(ms(0), slot(1), create);
    let reader = world.reader(slot(3));
    world.look(ms(100), reader, object(D), 100);
    world.run(ms(60_000))?;
    Ok(world)
}

#[test]
fn counterexample_20_entries_come_from_the_same_copy_as_the_change_attribute() {
    let world = play_20(true).unwrap();
    let made = world.replicas[&slot(3)].tree.entries(object(D));
    let made = made.and_then(|entries| entries.get(&100)).copied();
    let kept = &world.readers[0].kept[&object(D)];
    assert_eq!(kept.entries[&100].object, made);
    assert!(made.is_some());

    let broken = play_20(false).unwrap_err();
    assert_eq!(
        broken.invariant, "I3 (clients keep no stale entries)",
        "{broken}"
    );
}

/// A random run in which a client at every replica looks up random names.
fn run_with_readers(seed: u64, same_copy: bool) -> Result<(), Violation> {
    let plan = Plan::draw(seed);
    let mut world = World::new(&plan);
    world.model.entries_from_copy_of_attributes = same_copy;
    let planted = world.replicas[&slot(1)].tree.clone();
    let directories: Vec<ObjectId> = planted
        .objects()
        .filter(|object| planted.entries(*object).is_some())
        .collect();
    let mut random = Random::new(seed);
    for home in 1..=plan.present {
        let reader = world.reader(ReplicaSlot(home));
        for _ in 0..60 {
            let after = Duration::from_micros(random.below(plan.span.as_micros() as u64));
            let directory = *random.pick(&directories).unwrap_or(&ObjectId::ROOT);
            world.look(after, reader, directory, random.below(6));
        }
    }
    world.run(Duration::from_secs(60))
}

#[test]
fn random_runs_leave_no_stale_entries_with_clients() {
    for seed in 0..200 {
        if let Err(violation) = run_with_readers(seed, true) {
            panic!("{violation}");
        }
    }
    let broken = (0..200).find_map(|seed| run_with_readers(seed, false).err());
    let broken = broken.expect("some client keeps a stale entry");
    assert_eq!(
        broken.invariant, "I3 (clients keep no stale entries)",
        "{broken}"
    );
}
