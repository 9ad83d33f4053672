//! Clients that send any operations with any arguments, several requests at a time, over several sessions and connections, that repeat
//! requests, break off, come back, and let their leases run out. No request meets a fault of the server, or has an error that the
//! protocol does not name; requests that are repeated have their answer of before; and when all clients have gone nothing is left of
//! their state, in memory, on record, or behind the file system boundary.
//!
//! `HOSTILE_SEED` chooses other clients, `HOSTILE_CROWDS` how many crowds of them come, one after the other (3 of each kind).

mod arguments;
mod crowd;
mod errors;

use std::sync::atomic::Ordering;

use crate::fixture::Fixture;
use crowd::Crowd;

/// How many clients a crowd has.
const CLIENTS: usize = 3;
/// How often they come, ask, and go in part.
const ROUNDS: usize = 60;

fn number_from(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(default, |given| given.parse().expect("a number"))
}

/// The seeds of the crowds, which are printed so that one can be looked at by itself.
fn seeds() -> impl Iterator<Item = u64> {
    let first = number_from("HOSTILE_SEED", 0);
    (first..first + number_from("HOSTILE_CROWDS", 3)).inspect(|seed| println!("seed {seed}"))
}

#[tokio::test]
async fn nothing_is_left_of_clients_that_send_anything() {
    for seed in seeds() {
        let fixture = Fixture::new();
        let service = fixture.service.clone();
        let records = fixture.records.clone();
        Crowd::new(&fixture, service, records, seed)
            .await
            .play()
            .await;
    }
}

#[tokio::test]
async fn nothing_is_left_of_clients_that_come_after_a_restart() {
    for seed in seeds() {
        let fixture = Fixture::new();
        let records = fixture.records.clone();
        let known = ["client 0", "client 1", "somebody else"];
        let service = fixture.restarted_recording(records.clone(), &known);
        Crowd::new(&fixture, service, records, seed)
            .await
            .play()
            .await;
    }
}

/// The same while nothing can be recorded of clients for part of the time.
#[tokio::test]
async fn nothing_is_left_of_clients_whose_records_cannot_be_written() {
    for seed in seeds() {
        let fixture = Fixture::new();
        let (service, records) = (fixture.service.clone(), fixture.records.clone());
        let mut crowd = Crowd::new(&fixture, service, records.clone(), seed).await;
        records.is_full.store(true, Ordering::SeqCst);
        crowd.rounds(ROUNDS / 4).await;
        records.is_full.store(false, Ordering::SeqCst);
        crowd.play().await;
    }
}
