//! Whatever happens in whatever order, the receiver ends up like the primary.

use super::world::{LANES, World};
use control::Moment;
use proptest::prelude::*;
use std::ops::Range;
use vfs::ObjectId;

#[derive(Clone, Debug)]
enum Step {
    Create,
    Write(usize, Range<u64>, bool),
    Punch(usize, Range<u64>, bool),
    Resize(usize, u64),
    Remove(usize),
    TellLate,
    Expedite(usize),
    ExpediteAll,
    Owe,
    Wait(u64),
    Rest(bool),
    Take,
    Reach(usize, u64),
    Read(usize, usize),
    DeliverRow,
    DeliverPiece(usize),
    MakeStable,
    DeliverAcknowledgement(usize),
    EndSession,
    CrashReceiver,
    CrashPrimary(Range<u64>),
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0_u64..40, 1_u64..20).prop_map(|(start, count)| start..start + count);
    let which = || 0..64_usize;
    prop_oneof![
        2 => Just(Step::Create),
        12 => (which(), range(), any::<bool>()).prop_map(|(file, r, late)| Step::Write(file, r, late)),
        4 => (which(), range(), any::<bool>()).prop_map(|(file, r, late)| Step::Punch(file, r, late)),
        8 => (which(), 0_u64..50).prop_map(|(file, size)| Step::Resize(file, size)),
        1 => which().prop_map(Step::Remove),
        6 => Just(Step::TellLate),
        1 => which().prop_map(Step::Expedite),
        1 => Just(Step::ExpediteAll),
        2 => Just(Step::Owe),
        6 => (0_u64..10).prop_map(Step::Wait),
        4 => any::<bool>().prop_map(Step::Rest),
        16 => Just(Step::Take),
        6 => (which(), 0_u64..60).prop_map(|(index, end)| Step::Reach(index, end)),
        16 => (which(), 0..LANES).prop_map(|(index, lane)| Step::Read(index, lane)),
        12 => Just(Step::DeliverRow),
        16 => (0..LANES).prop_map(Step::DeliverPiece),
        8 => Just(Step::MakeStable),
        12 => which().prop_map(Step::DeliverAcknowledgement),
        1 => Just(Step::EndSession),
        1 => Just(Step::CrashReceiver),
        1 => range().prop_map(Step::CrashPrimary),
    ]
}

fn carry_out(world: &mut World, step: Step) {
    let files: Vec<ObjectId> = world.files.keys().copied().collect();
    let file = |choice: usize| files.get(choice % files.len().max(1)).copied();
    match step {
        Step::Create => drop(world.create()),
        Step::Write(choice, range, late) => {
            let file = file(choice).unwrap_or_else(|| world.create());
            world.write(file, range, late);
        }
        Step::Punch(choice, range, late) => {
            file(choice)
                .into_iter()
                .for_each(|file| world.punch(file, range.clone(), late));
        }
        Step::Resize(choice, size) => file(choice)
            .into_iter()
            .for_each(|file| world.resize(file, size)),
        Step::Remove(choice) => file(choice).into_iter().for_each(|file| world.remove(file)),
        Step::TellLate => drop(world.tell_late()),
        Step::Expedite(choice) => file(choice)
            .into_iter()
            .for_each(|file| world.expedite(file)),
        Step::ExpediteAll => world.expedite_all(),
        Step::Owe => world.owe(),
        Step::Wait(time) => world.now = Moment(world.now.0 + time),
        Step::Rest(busy) => world.rest_on(busy),
        Step::Take => drop(world.take()),
        Step::Reach(choice, end) => {
            if !world.taken.is_empty() {
                let index = choice % world.taken.len();
                // A piece that covers nothing is not sent.
                let end = end.max(world.taken[index].range.start + 1);
                world.reach(index, end);
            }
        }
        Step::Read(choice, lane) => {
            if !world.taken.is_empty() {
                world.read(choice % world.taken.len(), lane);
            }
        }
        Step::DeliverRow => drop(world.deliver_row()),
        Step::DeliverPiece(lane) => drop(world.deliver_piece(lane)),
        Step::MakeStable => world.make_stable(),
        Step::DeliverAcknowledgement(choice) => drop(world.deliver_acknowledgement(choice)),
        Step::EndSession => world.end_session(),
        Step::CrashReceiver => world.crash_receiver(),
        Step::CrashPrimary(range) => world.crash_primary(&range),
    }
}

fn run(steps: Vec<Step>) -> World {
    let mut world = World::new();
    for step in steps {
        carry_out(&mut world, step);
        world.check();
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn at_rest_the_receiver_is_like_the_primary(steps in prop::collection::vec(step(), 0..150)) {
        let mut world = run(steps);
        prop_assert!(world.settle());
        world.check();
    }
}
