//! The settings of a run, drawn from its seed.

use super::client::{Kind, Session};
use super::disk::CELLS;
use super::event::Node;
use crate::random::Random;
use pool::Rules;
use std::time::Duration;
use vfs::ObjectId;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The node loses what its disk does not have, and is restarted after a while.
    Crash(Node, Duration),
    /// The data server stands still, its clock does not, and requests queue up.
    Suspend(usize, Duration),
    /// Cuts the connection between two nodes.
    Cut(Node, Node, Duration),
    /// Takes a snapshot of the disk.
    Snapshot(usize),
    /// Restores the disk from the snapshot, if the home has heard from the data server since: otherwise nothing could notice it.
    Restore(usize),
}

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything else.
    pub seed: u64,
    /// The number of data servers.
    pub servers: usize,
    /// The tasks of each client.
    pub(super) clients: Vec<Vec<Session>>,
    /// The faults and their times.
    pub faults: Vec<(Duration, Fault)>,
    /// A node crashes when the event with this number has happened.
    pub crash_at: Option<(u64, Node)>,
    /// The files that are moved, and when: the number of new data servers, and the first of them.
    pub moves: Vec<(Duration, (ObjectId, usize, usize))>,
    /// Whether changes of a file that is being moved are copied again.
    pub copies_changes: bool,
    /// Whether changes beyond the end of such a file are copied once the file reaches them.
    pub keeps_changes_beyond: bool,
    /// Whether there is a pause before each copied cell.
    pub copies_slowly: bool,
    /// How long the home seals handles with one key.
    pub key_life: Duration,
    /// The rules in force.
    pub rules: Rules,
    /// How much faster clocks run, in millionths: the home's clock, then those of data
    /// servers.
    pub(super) drifts: Vec<i64>,
}

/// The files of a run.
pub(super) const FILES: [ObjectId; 2] = [ObjectId::from_u64(2), ObjectId::from_u64(3)];

fn span(random: &mut Random, least_ms: u64, most_ms: u64) -> Duration {
    Duration::from_millis(least_ms + random.below(most_ms - least_ms))
}

fn session(random: &mut Random, last: bool) -> Session {
    let file = if random.chance(4) { FILES[1] } else { FILES[0] };
    let kind = match random.below(12) {
        0..=4 => Kind::Write {
            cells: (0..1 + random.below(4))
                .map(|_| random.below(CELLS))
                .collect(),
            sync: random.chance(2),
            commit: !random.chance(4),
            claim: random.chance(3),
        },
        5 | 6 => Kind::Truncate(random.below(CELLS)),
        7 => Kind::Punch(random.below(CELLS)),
        8 if last => Kind::Remove,
        _ => Kind::Read(random.below(CELLS)),
    };
    Session {
        file,
        kind,
        obedient: !random.chance(4),
        abandoned: random.chance(6),
        held_up: random.chance(3),
        pause: span(random, 0, 2500),
    }
}

fn fault(random: &mut Random, servers: usize, clients: usize) -> Fault {
    let server = random.below(servers as u64) as usize;
    let client = random.below(clients as u64) as usize;
    match random.below(8) {
        0 | 1 => Fault::Crash(Node::Home, span(random, 50, 5000)),
        2 => Fault::Crash(Node::Server(server), span(random, 50, 8000)),
        3 | 4 => Fault::Suspend(server, span(random, 100, 14_000)),
        5 => Fault::Cut(Node::Home, Node::Server(server), span(random, 100, 12_000)),
        6 => Fault::Cut(Node::Home, Node::Client(client), span(random, 100, 12_000)),
        _ => Fault::Cut(
            Node::Server(server),
            Node::Client(client),
            span(random, 100, 12_000),
        ),
    }
}

fn a_move(random: &mut Random, servers: usize) -> (Duration, (ObjectId, usize, usize)) {
    let file = if random.chance(4) { FILES[1] } else { FILES[0] };
    let count = 1 + random.below(servers as u64) as usize;
    let first = random.below(servers as u64) as usize;
    (span(random, 500, 20_000), (file, count, first))
}

impl Plan {
    /// Moves every file soon, and one of them back.
    pub fn move_all(&mut self) {
        let at = |ms, file, first| (Duration::from_millis(ms), (file, self.servers, first));
        self.moves = vec![
            at(1500, FILES[0], 1),
            at(2500, FILES[1], 1),
            at(4000, FILES[0], 0),
        ];
    }

    /// The settings for a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let servers = 1 + random.below(3) as usize;
        let count = 2 + random.below(3) as usize;
        let program = |random: &mut Random| {
            let sessions = 3 + random.below(6);
            (0..sessions)
                .map(|turn| session(random, turn + 1 == sessions))
                .collect()
        };
        let clients = (0..count).map(|_| program(&mut random)).collect();
        let mut faults: Vec<(Duration, Fault)> = (0..random.below(6))
            .map(|_| {
                (
                    span(&mut random, 100, 25_000),
                    fault(&mut random, servers, count),
                )
            })
            .collect();
        if random.chance(6) {
            let server = random.below(servers as u64) as usize;
            let kept = span(&mut random, 100, 8000);
            faults.push((kept, Fault::Snapshot(server)));
            faults.push((
                kept + span(&mut random, 1100, 15_000),
                Fault::Restore(server),
            ));
        }
        let drift = |random: &mut Random| random.below(200_001).cast_signed() - 100_000;
        let drifts = (0..=servers).map(|_| drift(&mut random)).collect();
        let moves = (0..random.below(4)).map(|_| a_move(&mut random, servers));
        let moves = moves.collect();
        Plan {
            seed,
            servers,
            clients,
            faults,
            crash_at: None,
            moves,
            copies_changes: true,
            keeps_changes_beyond: true,
            copies_slowly: !seed.is_multiple_of(2),
            key_life: Duration::from_secs(match seed % 4 {
                0 => 4,
                1 => 9,
                2 => 20,
                _ => 24 * 3600,
            }),
            rules: Rules::ALL,
            drifts,
        }
    }
}
