//! Members that crash and are started in any order and number, all at once too, while clients work: in the end all have the same, and
//! whatever was answered is there. Seeds are drawn from `STORM_FIRST` on, `STORM_SEEDS` of them.

use std::time::Duration;

use crate::fixture::{Crashed, PATIENCE, ROOT, Set, Site};
use replica::Durability;
use vfs::ObjectId;

/// How many things happen.
const STEPS: u64 = 14;

/// So few updates are kept for those who are away that they often need a whole copy.
const KEPT: u64 = 12;

/// A client waits so long for an answer.
const CLIENT: Duration = Duration::from_millis(2500);

/// A sequence of numbers that looks random and is the same for the same seed.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % limit as u64).unwrap()
    }
}

/// Which set.
#[derive(Clone, Copy, Debug)]
struct Kind {
    replicas: usize,
    witness: bool,
    durability: Durability,
}

struct Storm {
    set: Set,
    dice: Dice,
    directory: ObjectId,
    crashed: Vec<Crashed>,
    /// The names of files whose contents, the name, are closed.
    answered: Vec<String>,
    happened: Vec<String>,
}

impl Storm {
    async fn new(kind: Kind, seed: u64) -> Storm {
        let mut set =
            Set::failing_with(kind.replicas, |settings| settings.kept_updates = KEPT).await;
        if kind.witness {
            set.add_witness().await;
        }
        let durability = Some(kind.durability);
        let asked = set.sites[0].replica.set_durability(ROOT, durability);
        asked.await.unwrap();
        let directory = set.sites[0].directory(ROOT, "shared").await.unwrap();
        set.rest().await;
        Storm {
            set,
            dice: Dice::new(seed),
            directory,
            crashed: Vec::new(),
            answered: Vec::new(),
            happened: Vec::new(),
        }
    }

    fn note(&mut self, what: String) {
        eprintln!("storm: {what}");
        self.happened.push(what);
    }

    async fn crash(&mut self, at: usize) {
        let slot = self.set.sites[at].replica.status().slot;
        self.note(format!("replica {slot} crashes"));
        let crashed = self.set.crash(at).await;
        self.crashed.push(crashed);
    }

    async fn start(&mut self) {
        let at = self.dice.below(self.crashed.len());
        let crashed = self.crashed.swap_remove(at);
        let place = self.set.sites.len();
        self.set.revive(place, crashed).await;
        let slot = self.set.sites[place].replica.status().slot;
        self.note(format!("replica {slot} is started"));
    }

    /// A few clients write a file each, anywhere.
    async fn work(&mut self) {
        for _ in 0..=self.dice.below(12) {
            if self.set.sites.is_empty() {
                return;
            }
            let at = self.dice.below(self.set.sites.len());
            let name = format!("file-{}", self.happened.len() * 100 + self.answered.len());
            let site = &self.set.sites[at];
            if site.replica.is_witness() || !site.replica.ready() {
                continue;
            }
            let saved = site.save(self.directory, &name, name.as_bytes());
            // What is not answered may be there or not.
            if let Ok(Ok(_)) = tokio::time::timeout(CLIENT, saved).await {
                self.answered.push(name);
            }
            self.note(format!("{} files are saved", self.answered.len()));
        }
    }

    async fn step(&mut self) {
        let up = self.set.sites.len();
        match self.dice.below(10) {
            0 | 1 if up > 0 => {
                let at = self.dice.below(up);
                self.crash(at).await;
            }
            2 => {
                while !self.set.sites.is_empty() {
                    self.crash(0).await;
                }
            }
            3..=5 if !self.crashed.is_empty() => self.start().await,
            6 => {
                let pause = self.dice.below(3000) as u64;
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            _ => self.work().await,
        }
        self.set.start_anew().await;
    }

    /// All are started again, in any order.
    async fn end(mut self) {
        while !self.crashed.is_empty() {
            self.start().await;
        }
        let back = async {
            while !self.set.sites.iter().all(|site| site.replica.ready()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
                self.set.start_anew().await;
            }
        };
        if tokio::time::timeout(2 * PATIENCE, back).await.is_err() {
            let say = |site: &Site| (site.replica.status().slot, site.replica.view_status());
            let views: Vec<_> = self.set.sites.iter().map(say).collect();
            panic!(
                "not all take part again: {views:#?} after {:?}",
                self.happened
            );
        }
        // A witness is first in no comparison.
        self.set.sites.sort_by_key(|site| site.replica.is_witness());
        for name in &self.answered {
            for site in self
                .set
                .sites
                .iter()
                .filter(|site| !site.replica.is_witness())
            {
                let loaded = site.load(self.directory, name).await;
                assert_eq!(
                    loaded.as_deref(),
                    Ok(name.as_bytes()),
                    "{name}: {:?}",
                    self.happened
                );
            }
        }
        self.set.assert_equal().await;
    }
}

fn number(variable: &str, otherwise: u64) -> u64 {
    let said = std::env::var(variable);
    said.map_or(otherwise, |said| said.parse().unwrap())
}

async fn storms(kind: Kind) {
    let first = number("STORM_FIRST", 1);
    for seed in first..first + number("STORM_SEEDS", 1) {
        eprintln!("storm: seed {seed} of {kind:?}");
        let mut storm = Storm::new(kind, seed).await;
        for _ in 0..STEPS {
            storm.step().await;
        }
        storm.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_in_a_storm_lose_nothing() {
    storms(Kind {
        replicas: 3,
        witness: false,
        durability: Durability::Relaxed,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_in_a_storm_lose_nothing_with_majority() {
    storms(Kind {
        replicas: 3,
        witness: false,
        durability: Durability::Majority,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_and_a_witness_in_a_storm_lose_nothing() {
    storms(Kind {
        replicas: 2,
        witness: true,
        durability: Durability::Relaxed,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_and_a_witness_in_a_storm_lose_nothing_with_majority() {
    storms(Kind {
        replicas: 2,
        witness: true,
        durability: Durability::Majority,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_in_a_storm_lose_nothing_with_majority() {
    storms(Kind {
        replicas: 4,
        witness: false,
        durability: Durability::Majority,
    })
    .await;
}
