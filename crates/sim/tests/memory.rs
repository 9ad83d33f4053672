//! Memory stays bounded no matter which member is away (rule 29): one is away for days, while
//! clients of the others continue.

use crate::stage::*;
use control::{LeaseSettings, ReplicaSlot, Settings, Sizes};
use sim::{Fault, Intent, Plan, Violation, World};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

/// From then on it is out of the view.
const AWAY_FROM: Duration = Duration::from_secs(3_000);

/// How long it is away.
const HOURS: u32 = 72;

/// The maximum of what a replica of three remembers, no matter which member is away and for
/// how long. Clients change a few files and names at a time, and one file stays open for
/// writing.
const LIMITS: Sizes = Sizes {
    own: 8,
    endings: 8,
    grants: 12,
    ancestry: 12,
    waiting: 4,
    ended: 12,
    contents: 4,
    timers: 24,
    peers: 4,
};

fn is_within(sizes: Sizes) -> bool {
    sizes.max(LIMITS) == LIMITS
}

/// Leases are long, since nothing interesting happens in between.
fn set_the_stage_for_days() -> World {
    let settings = Settings {
        // One control is kept for days, too.
        open_file_control_idle: Duration::MAX,
        ..Settings::default()
    };
    let mut plan = Plan::still(3, ms(10), settings);
    plan.lease = LeaseSettings {
        length: Duration::from_secs(120),
        ..LeaseSettings::default()
    };
    let mut world = stage_of(plan, all_rules, Some(Vec::new()));
    world.steps_checked = false;
    world
}

/// In every hour clients of both change names and files a number of times.
fn work_for_an_hour(world: &mut World, hour: u32, largest: &mut Sizes) -> Result<(), Violation> {
    for turn in 0..60_u32 {
        let home = slot(1 + u16::try_from(turn % 2).expect("two take turns"));
        let name = u64::from(hour * 60 + turn);
        let intents = [
            Intent::Create {
                parent: object(D),
                name: 1_000 + name,
                directory: false,
            },
            Intent::Write(object(G)),
            Intent::Remove {
                parent: object(D),
                name: 999 + name,
            },
        ];
        let begun = HOUR * hour + HOUR * turn / 60 + AWAY_FROM;
        for (after, intent) in (0..).zip(intents) {
            world.submit(ms(after * 500), home, intent);
        }
        for moment in (0..50).map(|step| begun + ms(30 * step)) {
            world.run_until(moment)?;
            for other in [1, 2] {
                let sizes = world.replica(slot(other)).core.sizes();
                *largest = largest.max(sizes);
            }
        }
        world.run_until(begun + HOUR / 60)?;
    }
    Ok(())
}

#[test]
fn counterexample_43_a_member_that_is_away_for_days_costs_a_bounded_amount_of_memory() {
    let mut world = set_the_stage_for_days();
    world.run_until(ms(2_000)).unwrap();
    world
        .replica(slot(1))
        .core
        .handle_opened_for_writing(object(F));
    world.submit(ms(0), slot(1), Intent::Write(object(F)));
    world.run_until(ms(3_000)).unwrap();
    world.fail(ms(0), Fault::Crash(slot(3)));
    world.run_until(AWAY_FROM).unwrap();
    let away =
        |world: &World, at: ReplicaSlot| !world.replicas[&at].core.view().active.contains(&slot(3));
    assert!(away(&world, slot(1)) && away(&world, slot(2)));
    let mut largest = Sizes::default();
    for hour in 0..HOURS {
        work_for_an_hour(&mut world, hour, &mut largest).unwrap();
        let unshipped = world
            .replicas
            .values()
            .map(|replica| replica.unshipped.len());
        assert!(unshipped.max() <= Some(1));
    }
    println!("{largest:?} after {} operations", world.operations.len());
    assert!(is_within(largest), "{largest:?}");
    let done = world.operations.iter().filter(|one| one.outcome.is_some());
    assert!(done.count() + 3 > world.operations.len());
}
