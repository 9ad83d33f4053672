//! Executions from the list of counterexamples that concern file contents. Each fails without its rule.

use super::world::{DELAY, World};
use control::Moment;
use vfs::ObjectId;

/// A file of 20 bytes whose contents were read and sent, and have not arrived.
fn file_in_flight(world: &mut World) -> ObjectId {
    let file = world.create();
    world.write(file, 0..20, false);
    send_everything(world);
    file
}

/// Sends everything that is lacking. Nothing arrives.
fn send_everything(world: &mut World) {
    world.now = Moment(world.now.0 + DELAY);
    while world.take() {}
    while !world.taken.is_empty() {
        world.read(0, 0);
    }
}

fn without_the_rule_of_one_in_flight() -> World {
    let mut world = World::new();
    world.backlog.forget_in_flight = true;
    world
}

/// Counterexample 12: truncate to 10, write at 11; the bytes overtake the truncation, which erases them.
fn bytes_overtake_a_truncation(world: &mut World) -> bool {
    let file = world.create();
    world.write(file, 0..20, false);
    assert!(world.settle());
    world.resize(file, 10);
    world.write(file, 11..12, false);
    send_everything(world);
    while world.deliver_piece(0) {}
    while world.deliver_row() {}
    world.settle()
}

#[test]
fn counterexample_12_bytes_that_overtake_a_truncation_wait_for_it() {
    assert!(bytes_overtake_a_truncation(&mut World::new()));
    let mut world = World::new();
    world.pieces_wait = false;
    assert!(!bytes_overtake_a_truncation(&mut world), "without waiting");
}

/// Counterexample 12 the other way round: the truncation and the growth overtake the bytes.
fn a_truncation_overtakes_bytes(world: &mut World) -> bool {
    let file = file_in_flight(world);
    world.resize(file, 10);
    world.write(file, 15..16, false);
    while world.deliver_row() {}
    send_everything(world);
    world.settle()
}

#[test]
fn counterexample_12_bytes_that_a_truncation_overtakes_are_sent_again() {
    assert!(a_truncation_overtakes_bytes(&mut World::new()));
    let mut world = without_the_rule_of_one_in_flight();
    assert!(!a_truncation_overtakes_bytes(&mut world));
}

/// Counterexample 13: a late write refills a punched hole.
fn a_late_write_meets_a_hole(world: &mut World) -> bool {
    let file = file_in_flight(world);
    world.punch(file, 4..12, false);
    world.now = Moment(world.now.0 + DELAY);
    while world.take() {}
    while !world.taken.is_empty() {
        world.read(0, 1);
    }
    while world.deliver_row() {}
    while world.deliver_piece(1) {}
    while world.deliver_piece(0) {}
    world.settle()
}

#[test]
fn counterexample_13_a_late_write_does_not_refill_a_hole() {
    assert!(a_late_write_meets_a_hole(&mut World::new()));
    let mut world = without_the_rule_of_one_in_flight();
    assert!(!a_late_write_meets_a_hole(&mut world));
}

/// Counterexample 13: bytes arrive for an object that was removed meanwhile.
fn bytes_arrive_for_a_removed_object(world: &mut World) -> bool {
    let file = file_in_flight(world);
    world.remove(file);
    while world.deliver_row() {}
    while world.deliver_piece(0) {}
    world.make_stable();
    assert!(world.deliver_acknowledgement(0));
    world.settle()
}

#[test]
fn counterexample_13_bytes_for_a_removed_object_are_dropped_and_acknowledged() {
    assert!(bytes_arrive_for_a_removed_object(&mut World::new()));
    let mut world = World::new();
    world.receiver.clips = false;
    assert!(!bytes_arrive_for_a_removed_object(&mut world));
}

/// Counterexample 17: the primary loses bytes in a crash that the receiver has.
fn the_primary_loses_what_it_has_sent(world: &mut World) -> bool {
    let file = file_in_flight(world);
    assert!(world.settle());
    world.crash_primary(&(5..9));
    let lost = world.files[&file].clone();
    assert_ne!(world.receiver.content(file), Some(lost));
    world.settle()
}

#[test]
fn counterexample_17_bytes_that_the_primary_lost_are_lost_everywhere() {
    assert!(the_primary_loses_what_it_has_sent(&mut World::new()));
    let mut world = World::new();
    world.marked_before_written = false;
    assert!(!the_primary_loses_what_it_has_sent(&mut world));
}

/// Found with the model: the receiver applies a truncation, a growth and the bytes that follow, acknowledges the bytes, and crashes before the rows
/// are stable. It gets the rows again, and the truncation erases the bytes.
#[test]
fn bytes_are_acknowledged_only_with_the_rows_they_follow() {
    let mut world = World::new();
    let file = world.create();
    world.write(file, 0..20, false);
    assert!(world.settle());
    world.resize(file, 10);
    world.write(file, 11..12, false);
    send_everything(&mut world);
    while world.deliver_row() || world.deliver_piece(0) {}
    assert!(!world.deliver_acknowledgement(0), "nothing is stable");
    world.crash_receiver();
    world.check();
    assert!(world.settle());
}

/// Counterexample 89: the receiver is offered a file, and answers that it lacks a part. The file is removed before the answer arrives.
#[test]
fn counterexample_89_an_answer_about_a_removed_file_frees_what_it_took() {
    let mut world = World::new();
    let file = world.create();
    world.write(file, 0..20, false);
    world.crash_primary(&(0..0));
    send_everything(&mut world);
    while world.deliver_row() || world.deliver_piece(0) {}
    world.make_stable();
    world.remove(file);
    assert!(world.backlog.in_flight_bytes() > 0);
    while world.deliver_acknowledgement(0) {}
    assert_eq!(world.backlog.in_flight_bytes(), 0);
    assert!(world.settle());
}
