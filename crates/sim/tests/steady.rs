//! Clients that change a directory in one operation after another, without a pause, while another client needs
//! more control than they give up at a time.

use crate::stage::*;
use control::{Contention, Settings};
use sim::{Intent, Lane, World};
use std::time::Duration;
use vfs::ObjectId;

/// A client that makes files in one directory and writes each, one after another.
struct Writer {
    replica: u16,
    directory: ObjectId,
    made: u64,
    under_way: Option<u64>,
    writes: Option<ObjectId>,
}

impl Writer {
    fn new(replica: u16, directory: ObjectId) -> Writer {
        Writer {
            replica,
            directory,
            made: 0,
            under_way: None,
            writes: None,
        }
    }

    /// Begins the next operation if the last one is done.
    fn work(&mut self, world: &mut World) {
        if self.under_way.is_some_and(|number| !is_done(world, number)) {
            return;
        }
        let intent = match self.next_to_write(world) {
            Some(file) => Intent::Write(file),
            None => {
                self.made += 1;
                Intent::Create {
                    parent: self.directory,
                    name: u64::from(self.replica) * 100_000 + self.made,
                    directory: false,
                }
            }
        };
        self.writes = match intent {
            Intent::Write(file) => Some(file),
            _ => None,
        };
        self.under_way = Some(world.submit(ms(1), slot(self.replica), intent));
    }

    /// The file just made, unless it was written already. A file made at another replica may not be known here yet.
    fn next_to_write(&self, world: &mut World) -> Option<ObjectId> {
        self.under_way?;
        let name = u64::from(self.replica) * 100_000 + self.made;
        let tree = &world.replica(slot(self.replica)).tree;
        let file = *tree.entries(self.directory)?.get(&name)?;
        (self.writes != Some(file)).then_some(file)
    }
}

fn is_done(world: &World, number: u64) -> bool {
    world.operations[usize::try_from(number).expect("there are few")]
        .outcome
        .is_some()
}

/// How long it takes to move X while other clients make files in it and below it, 120 ms away; `None`: too
/// long.
fn move_under_writers(settings: Settings) -> Option<Duration> {
    let mut world = set_the_stage(3, settings, all_rules);
    for (one, other) in [(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)] {
        for lane in [Lane::Control, Lane::Stream, Lane::Forward] {
            slow(&mut world, one, other, lane, ms(60));
        }
        // Contents rest for a while before they are sent.
        slow(&mut world, one, other, Lane::Data, ms(260));
    }
    let below = Intent::Create {
        parent: object(X),
        name: 100,
        directory: true,
    };
    world.submit(ms(0), slot(3), below);
    world.run_until(ms(5_000)).expect("nothing else breaks");
    let below = world
        .replica(slot(3))
        .tree
        .entries(object(X))
        .expect("it is a directory")[&100];
    let mut writers = [Writer::new(2, object(X)), Writer::new(3, below)];
    let begin = 8_000;
    let mut moved = None;
    for at in 5_000..begin + 15_000 {
        world.run_until(ms(at)).expect("nothing else breaks");
        for writer in &mut writers {
            writer.work(&mut world);
        }
        if at == begin {
            let rename = Intent::Rename {
                from: object(D),
                name: X,
                to: object(E),
                new: X,
            };
            moved = Some(world.submit(ms(0), slot(1), rename));
        }
        if moved.is_some_and(|number| is_done(&world, number)) {
            return Some(ms(at - begin));
        }
    }
    None
}

#[test]
fn a_directory_is_moved_while_others_write_below_without_a_pause() {
    for directory_contention in [Contention::Forward, Contention::Wait] {
        let settings = Settings {
            directory_contention,
            ..Settings::default()
        };
        let took = move_under_writers(settings).expect("nobody waits so long");
        assert!(took < settings.standing_back, "it took {took:?}");
        let nobody_stands_back = Settings {
            standing_back: Duration::ZERO,
            ..settings
        };
        assert_eq!(move_under_writers(nobody_stands_back), None);
    }
}
