//! Clients: their requests and repeats.

use super::world::{Asked, BUSY_US, Event, World};
use ::homes::{Call, Look, Origin, Tree, Wish};
use vfs::{Name, ObjectId};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Clients remember the objects of this many states.
pub(super) const REMEMBERED: usize = 12;

impl World {
    pub(super) fn client(&mut self, place: usize) {
        if self.clients[place].asked.is_none() {
            if self.now > BUSY_US {
                return;
            }
            let home = self.clients[place].home;
            let call = self.draw_call(home);
            let client = &mut self.clients[place];
            client.number += 1;
            client.asked = Some(Asked {
                call,
                since: self.now,
                at: None,
            });
        }
        self.ask(place);
        self.at(50_000, Event::Client(place));
    }

    /// Asks, or repeats. It asks another server only when the run that it asked before has ended.
    pub(super) fn ask(&mut self, place: usize) {
        let mut home = self.clients[place].home;
        let is_up = |world: &World, home: usize| world.homes[home].server.is_some();
        let run = self.homes[home].run;
        let Some(asked) = self.clients[place].asked.clone() else {
            return;
        };
        let ended = asked.at.is_some_and(|at| at != (home, run)) || !is_up(self, home);
        if ended {
            home = self.place();
        }
        if !is_up(self, home)
            || (asked.at == Some((home, self.homes[home].run)) && !self.random.chance(4))
        {
            return;
        }
        let client = &mut self.clients[place];
        client.home = home;
        let run = self.homes[home].run;
        if let Some(asked) = &mut client.asked {
            asked.at = Some((home, run));
        }
        let origin = Origin {
            client: u64::try_from(place).unwrap_or(0),
            number: client.number,
        };
        self.turn(home, |server, now, disk| {
            server.call(now, disk, origin, asked.call)
        });
    }

    pub(super) fn name(&mut self) -> Name {
        let name = *self.random.pick(&NAMES).unwrap_or(&"a");
        Name::new(name.as_bytes().to_vec()).unwrap_or_else(|_| unreachable!("a plain name"))
    }

    pub(super) fn object(&mut self, is_directory: bool) -> ObjectId {
        let back = if self.random.chance(6) {
            usize::try_from(self.random.below(REMEMBERED as u64)).unwrap_or(0)
        } else {
            0
        };
        let at = self.states.len().saturating_sub(1 + back);
        let is_wanted = |row: &::homes::Row| (row.kind == ::homes::Kind::Directory) == is_directory;
        let rows = self.states[at]
            .1
            .rows
            .iter()
            .filter(|(_, row)| is_wanted(row));
        let objects: Vec<ObjectId> = rows.map(|(object, _)| *object).collect();
        self.random
            .pick(&objects)
            .copied()
            .unwrap_or(ObjectId::ROOT)
    }

    pub(super) fn named(&mut self) -> (ObjectId, Name) {
        let entries: Vec<_> = self.latest().entries.keys().cloned().collect();
        if self.random.chance(5) {
            return (self.object(true), self.name());
        }
        let named = self.random.pick(&entries).cloned();
        named.unwrap_or_else(|| (ObjectId::ROOT, self.name()))
    }

    pub(super) fn draw_call(&mut self, home: usize) -> Call {
        let (directory, name) = (self.object(true), self.name());
        let any_kind = self.random.chance(3);
        let object = self.object(any_kind);
        let (named, to) = (self.named(), self.named());
        Call::Change(match self.random.below(20) {
            0 | 1 => Wish::Create { directory, name },
            2 | 3 => Wish::Mkdir {
                directory,
                name,
                child: self.homes[home].disk.allocate(),
            },
            4 | 5 => Wish::Link {
                object,
                directory,
                name,
            },
            6 => Wish::Remove {
                directory: named.0,
                name: named.1,
            },
            7 => Wish::Rmdir {
                directory: named.0,
                name: named.1,
            },
            8 | 9 => Wish::Rename {
                from: named,
                to: (directory, name),
            },
            10 => Wish::Rename { from: named, to },
            11 => Wish::SetMode {
                object,
                mode: u32::try_from(self.random.below(512)).unwrap_or(0),
            },
            12 => Wish::Touch { object },
            13 | 14 => return Call::Look(Look::Attributes(object)),
            15 => return Call::Look(Look::Acquire(object)),
            16 | 17 => return Call::Look(Look::Lookup(directory, name)),
            _ => return Call::Look(Look::Lookup(named.0, named.1)),
        })
    }
}
