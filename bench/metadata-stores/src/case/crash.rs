//! Killing a process in the middle of its work, and looking at what it left behind.
//!
//! Each client works in a directory of its own and counts its operations in the directory's
//! object row, so that the row tells which operations must be there, and that no other may be.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::figure;
use super::population::verify as verify_population;
use crate::group::with_clients;
use crate::rows::{Key, ObjectId, Operation, entry_child, link_child, object_version, scramble};
use crate::store::{Durability, Kind, Limits, Snapshot, Store};

const CLIENTS: u64 = 4;
const ROUNDS: u64 = 20;
/// Bytes of one acknowledgement on the pipe: client and operation number.
const ACKNOWLEDGEMENT_BYTES: usize = 16;

fn home(client: u64) -> ObjectId {
    (client + 1) << 48
}

/// Every third operation removes what the one before it created.
fn operation(client: u64, number: u64) -> Operation {
    let home = home(client);
    if number.is_multiple_of(3) {
        Operation::remove(home, home + number - 1, number)
    } else {
        Operation::create(home, home + number, number)
    }
}

/// The files that exist after operations 1 to `last`.
fn expected_files(client: u64, last: u64) -> impl Iterator<Item = ObjectId> {
    (1..=last)
        .filter(move |number| match number % 3 {
            0 => false,
            1 => true,
            // It is there only as long as its removal has not happened.
            _ => *number == last,
        })
        .map(move |number| home(client) + number)
}

/// How many operations of a client the store knows, by the row of the client's directory.
fn operations_done(snapshot: &dyn Snapshot, client: u64) -> Result<u64> {
    let mut version = None;
    snapshot.read(&Key::object(home(client)), &mut |row| {
        version = object_version(row)
    })?;
    Ok(version.map_or(0, |(_, version)| version))
}

/// The process that will be killed: works and acknowledges on its standard output.
pub fn victim(kind: Kind, directory: &Path, durability: Durability, limits: Limits) -> Result<()> {
    let store = kind.open(directory, durability, limits)?;
    with_clients(
        &*store,
        durability,
        store.writing(),
        CLIENTS,
        |client, group| {
            let mut number = operations_done(&*store.snapshot()?, client)?;
            loop {
                number += 1;
                group.execute(operation(client, number))?;
                let mut acknowledgement = [0; ACKNOWLEDGEMENT_BYTES];
                acknowledgement[..8].copy_from_slice(&client.to_be_bytes());
                acknowledgement[8..].copy_from_slice(&number.to_be_bytes());
                // One write for one acknowledgement, so that a kill cannot leave half of it.
                std::io::stdout().lock().write_all(&acknowledgement)?;
                std::io::stdout().lock().flush()?;
            }
        },
    )
}

/// When a victim is killed.
#[derive(Clone, Copy)]
enum Death {
    /// So long after its first acknowledgement.
    AtWork(Duration),
    /// So long after its start, which may be while it still recovers from the last kill.
    AfterStart(Duration),
}

/// Starts a victim, kills it, and returns the last operation each client was told is done.
fn kill_a_victim(kind: Kind, directory: &Path, mode: &str, death: Death) -> Result<Vec<u64>> {
    let mut victim = Command::new(std::env::current_exe()?)
        .args(["victim", kind.name()])
        .arg(directory)
        .arg(mode)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = victim
        .stdout
        .take()
        .context("the victim's output is a pipe")?;
    let (began, beginning) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; ACKNOWLEDGEMENT_BYTES];
        if output.read_exact(&mut bytes).is_err() {
            return Ok(Vec::new());
        }
        // Nobody waits for the beginning of a victim that dies at a fixed time.
        began.send(()).ok();
        output.read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    match death {
        Death::AtWork(lifetime) => {
            beginning
                .recv()
                .context("the victim ended before it did anything")?;
            std::thread::sleep(lifetime);
        }
        Death::AfterStart(lifetime) => std::thread::sleep(lifetime),
    }
    victim.kill()?;
    victim.wait()?;
    let bytes = reader
        .join()
        .map_err(|_| anyhow::anyhow!("the reading thread panicked"))??;
    let mut last = vec![0; CLIENTS as usize];
    for acknowledgement in bytes.chunks_exact(ACKNOWLEDGEMENT_BYTES) {
        let (client, number) = acknowledgement.split_at(8);
        let client = u64::from_be_bytes(client.try_into()?) as usize;
        *last
            .get_mut(client)
            .context("an acknowledgement names no client")? =
            u64::from_be_bytes(number.try_into()?);
    }
    Ok(last)
}

/// What a store still has of the operations it did.
#[derive(Default)]
pub struct Survival {
    /// Operations that are there, of all clients.
    pub done: u64,
    /// Operations that were acknowledged and are not there.
    pub lost: u64,
}

/// Counts what is there and what is lost; fails if any operation is there in part or out of turn.
pub fn survey(store: &dyn Store, acknowledged: &[u64]) -> Result<Survival> {
    let snapshot = store.snapshot()?;
    let mut survival = Survival::default();
    for (client, acknowledged) in (0..).zip(acknowledged) {
        let done = operations_done(&*snapshot, client)?;
        verify_client(&*snapshot, client, done)
            .with_context(|| format!("client {client} after operation {done}"))?;
        survival.done += done;
        survival.lost += acknowledged.saturating_sub(done);
    }
    Ok(survival)
}

fn verify_client(snapshot: &dyn Snapshot, client: u64, done: u64) -> Result<()> {
    let (home, next_home) = (home(client), home(client + 1));
    let expected: BTreeSet<ObjectId> = expected_files(client, done).collect();
    let object = |_: &[u8], row: &[u8]| object_version(row).map(|(id, _)| id);
    let objects = scan_files(snapshot, Key::object(home), Key::object(next_home), object)?;
    ensure!(
        objects == expected,
        "{} objects, not {}",
        objects.len(),
        expected.len()
    );
    let entry = |_: &[u8], row: &[u8]| entry_child(row);
    let entries = scan_files(
        snapshot,
        Key::entry(home, 0),
        Key::entry(home + 1, 0),
        entry,
    )?;
    ensure!(
        entries == expected,
        "{} entries, not {}",
        entries.len(),
        expected.len()
    );
    let link = |key: &[u8], _: &[u8]| link_child(key);
    let (first, end) = (Key::link(home, 0, 0), Key::link(next_home, 0, 0));
    let links = scan_files(snapshot, first, end, link)?;
    ensure!(
        links == expected,
        "{} links, not {}",
        links.len(),
        expected.len()
    );
    Ok(())
}

/// The files that `file` finds in the rows between two keys.
fn scan_files(
    snapshot: &dyn Snapshot,
    after: Key,
    end: Key,
    file: impl Fn(&[u8], &[u8]) -> Option<ObjectId>,
) -> Result<BTreeSet<ObjectId>> {
    let mut files = BTreeSet::new();
    snapshot.scan(&after, &end, &mut |key, row| {
        files.insert(file(key, row).context("a row is too short to name its file")?);
        Ok(true)
    })?;
    Ok(files)
}

/// Kills the store again and again under load, in both modes, and checks it each time.
///
/// With `Durability::Async` a store may lose what it acknowledged, which is then counted.
pub fn run(kind: Kind, directory: &Path) -> Result<()> {
    for (mode, durability) in [("sync", Durability::Sync), ("async", Durability::Async)] {
        let directory = directory.join(mode);
        let (mut done, mut lost) = (0, 0);
        for round in 0..ROUNDS {
            let lifetime = Duration::from_millis(scramble(round) % 400);
            let death = match round % 4 {
                3 => Death::AfterStart(lifetime / 4),
                _ => Death::AtWork(lifetime),
            };
            let acknowledged = kill_a_victim(kind, &directory, mode, death)?;
            let store = kind.open(&directory, durability, Limits::TINY)?;
            let survival = survey(&*store, &acknowledged)
                .with_context(|| format!("{} {mode}, round {round}", kind.name()))?;
            ensure!(
                survival.done >= done,
                "round {round} undid earlier operations"
            );
            done = survival.done;
            lost += survival.lost;
        }
        ensure!(
            durability == Durability::Async || lost == 0,
            "{lost} acknowledged are lost"
        );
        figure(&format!("crash_{mode}_operations"), done as f64);
        figure(&format!("crash_{mode}_lost"), lost as f64);
    }
    Ok(())
}

/// Kills a store that holds the population, and measures how long the next start takes.
pub fn restart(kind: Kind, directory: &Path) -> Result<()> {
    let death = Death::AtWork(Duration::from_secs(1));
    let acknowledged = kill_a_victim(kind, directory, "population", death)?;
    let start = Instant::now();
    let store = kind.open(directory, Durability::Sync, Limits::SMALL)?;
    figure("reopen_ms", start.elapsed().as_secs_f64() * 1e3);
    verify_population(&*store)?;
    let lost = survey(&*store, &acknowledged)?.lost;
    ensure!(lost == 0, "{lost} acknowledged operations are lost");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store_with(operations: &[Operation]) -> (tempfile::TempDir, Box<dyn Store>) {
        let directory = tempfile::tempdir().unwrap();
        let store = Kind::Redb
            .open(directory.path(), Durability::Sync, Limits::TINY)
            .unwrap();
        store.commit(operations).unwrap();
        (directory, store)
    }

    #[test]
    fn whole_operations_are_counted_and_missing_ones_are_lost() {
        let operations: Vec<_> = (1..=7).map(|number| operation(0, number)).collect();
        let (_directory, store) = store_with(&operations);
        let survival = survey(&*store, &[9, 0, 0, 0]).unwrap();
        assert_eq!((survival.done, survival.lost), (7, 2));
    }

    #[test]
    fn any_row_missing_from_an_operation_is_noticed() {
        for missing in 0..3 {
            let mut torn = operation(0, 1);
            torn.changes.remove(missing);
            let (_directory, store) = store_with(&[torn]);
            assert!(survey(&*store, &[0, 0, 0, 0]).is_err(), "row {missing}");
        }
    }

    #[test]
    fn an_operation_without_its_parents_row_is_noticed() {
        let mut torn = operation(0, 1);
        torn.changes.pop();
        let (_directory, store) = store_with(&[torn]);
        assert!(survey(&*store, &[0, 0, 0, 0]).is_err());
    }
}
