//! The start of scripted executions: a small tree, equal distances, and the chosen rules.

use control::{ReplicaSlot, Rules, Settings};
use sim::{Edit, Lane, Plan, Violation, World};
use std::time::Duration;
use vfs::ObjectId;

/// Directories `D`, `E` below the root, directory `X` in `D`, file `F` in `E`, file `G` in `D`.
pub const D: u64 = 1;
pub const E: u64 = 2;
pub const X: u64 = 3;
pub const F: u64 = 4;
pub const G: u64 = 5;

/// The name that each planted object has in its directory is its number.
pub fn object(number: u64) -> ObjectId {
    ObjectId::new(ReplicaSlot(u16::MAX), number).expect("planted objects have small numbers")
}

pub fn slot(raw: u16) -> ReplicaSlot {
    ReplicaSlot(raw)
}

pub fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// How a test changes the rules that are in force.
pub type Switch = fn(&mut Rules);

pub fn all_rules(_: &mut Rules) {}

pub fn shallow_only() -> Settings {
    let mut settings = Settings::default();
    settings.strategies.deep_control = false;
    settings.strategies.upgrade = false;
    settings
}

pub fn set_the_stage(replicas: u16, settings: Settings, switch: Switch) -> World {
    stage_of(Plan::still(replicas, ms(10), settings), switch, None)
}

/// The same with disks, leases and views, and with only `founders` replicas configured from the
/// start.
pub fn set_the_stage_for_joining(replicas: u16, founders: u16, switch: Switch) -> World {
    let mut plan = Plan::still(replicas, ms(10), Settings::default());
    plan.founders = founders;
    stage_of(plan, switch, Some(Vec::new()))
}

/// The same with either durability, and perhaps a witness.
pub fn set_the_stage_for_sequences(
    replicas: u16,
    founders: u16,
    witness: Option<u16>,
    majority: bool,
) -> World {
    let mut plan = Plan::still(replicas, ms(10), Settings::default());
    plan.founders = founders;
    plan.witnesses = witness.into_iter().map(slot).collect();
    plan.majority = majority;
    stage_of(plan, all_rules, Some(Vec::new()))
}

/// The same with disks, leases and views.
pub fn set_the_stage_for_failures(replicas: u16, switch: Switch) -> World {
    set_the_stage_for_joining(replicas, replicas, switch)
}

/// The same with clocks that run faster or slower than true time, each by its number of millionths.
pub fn set_the_stage_with_clocks(drifts: &[i64]) -> World {
    let replicas = u16::try_from(drifts.len()).expect("sets are small");
    let plan = Plan::still(replicas, ms(10), Settings::default());
    stage_of(plan, all_rules, Some(drifts.to_vec()))
}

pub fn stage_of(mut plan: Plan, switch: Switch, clocks: Option<Vec<i64>>) -> World {
    switch(&mut plan.settings.rules);
    plan.failures = clocks.is_some();
    plan.drifts = clocks.unwrap_or_default();
    let mut world = World::new(&plan);
    let places = [
        (ObjectId::ROOT, D, true),
        (ObjectId::ROOT, E, true),
        (object(D), X, true),
        (object(E), F, false),
        (object(D), G, false),
    ];
    let enter = |(parent, number, directory)| Edit::Enter {
        parent,
        name: number,
        object: object(number),
        birth: Some(directory),
    };
    world.plant(&places.map(enter));
    world
}

/// Makes one lane from one replica to another slow.
pub fn slow(world: &mut World, from: u16, to: u16, lane: Lane, delay: Duration) {
    world.links.set(slot(from), slot(to), lane, delay);
}

pub fn to_rest(mut world: World) -> Result<(), Violation> {
    world.run(Duration::from_secs(60))
}
