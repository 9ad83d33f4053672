//! Random work at several sites at once, on one small tree: nothing may hang, and in the end all copies
//! are the same.

use crate::fixture::{PATIENCE, ROOT, Set, Site};
use vfs::{Error, ObjectId};

/// A sequence of numbers that looks random and is the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What two sites that work on the same names may do to each other.
fn expected(outcome: Result<(), Error>) {
    match outcome {
        Ok(())
        | Err(
            Error::NotFound
            | Error::Exists
            | Error::Stale
            | Error::NotEmpty
            | Error::NotDirectory
            | Error::IsDirectory
            | Error::WrongKind
            | Error::Invalid(_),
        ) => {}
        Err(error) => panic!("no client should see this: {error:?}"),
    }
}

/// A directory of the tree, found by chance and by name.
async fn somewhere(site: &Site, dice: &mut Dice) -> ObjectId {
    let mut place = ROOT;
    for _ in 0..dice.below(3) {
        match site.find(place, &format!("d{}", dice.below(3))).await {
            Ok(found) => place = found.id,
            Err(_) => break,
        }
    }
    place
}

async fn step(site: &Site, dice: &mut Dice) -> Result<(), Error> {
    let here = somewhere(site, dice).await;
    let directory = format!("d{}", dice.below(3));
    let file = format!("f{}", dice.below(4));
    match dice.below(12) {
        0 | 1 => site.directory(here, &directory).await.map(|_| ()),
        2..=5 => {
            let length = dice.below(9000) as usize;
            let content = vec![dice.below(256) as u8; length];
            site.save(here, &file, &content).await.map(|_| ())
        }
        6 => site.remove(here, &file).await,
        7 => site.remove(here, &directory).await,
        8 => {
            let there = somewhere(site, dice).await;
            site.rename((here, &file), (there, &file)).await
        }
        9 => {
            let there = somewhere(site, dice).await;
            site.rename((here, &directory), (there, &directory)).await
        }
        10 => {
            let found = site.find(here, &file).await?;
            let there = somewhere(site, dice).await;
            site.link(found.id, there, &format!("f{}", dice.below(4)))
                .await
        }
        _ => {
            let found = site.find(here, &file).await?;
            site.truncate(found.id, dice.below(5000)).await?;
            site.write(found.id, dice.below(8000), &[7; 100]).await
        }
    }
}

async fn work(site: &Site, seed: u64, steps: usize) {
    let mut dice = Dice(seed | 1);
    for _ in 0..steps {
        expected(step(site, &mut dice).await);
    }
}

async fn all_work(set: &Set, seed: u64, steps: usize) {
    let workers = async {
        tokio::join!(
            work(&set.sites[0], seed, steps),
            work(&set.sites[1], seed.wrapping_mul(31), steps),
            work(&set.sites[2], seed.wrapping_mul(1021), steps),
        )
    };
    let worked = tokio::time::timeout(10 * PATIENCE, workers).await;
    assert!(worked.is_ok(), "the work with seed {seed} hangs");
}

fn seeds() -> Vec<u64> {
    match std::env::var("WORK_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => vec![11, 23],
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_work_at_three_sites_ends_with_equal_copies() {
    for seed in seeds() {
        let set = Set::unsuspected(3).await;
        all_work(&set, seed, 150).await;
        set.assert_equal().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_work_between_restarts_ends_with_equal_copies() {
    let mut set = Set::unsuspected(3).await;
    for (round, seed) in seeds().into_iter().enumerate() {
        all_work(&set, seed + 100, 60).await;
        set.restart(round % 3).await;
    }
    set.assert_equal().await;
}
