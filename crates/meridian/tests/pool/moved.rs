//! Files that move to other data servers while they are used, and while servers are killed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};

use nfs4::StableHow4;
use server::MovingStatus;

use super::*;

/// What the large file has.
const LARGE: usize = 12 << 20;

fn moving(metadata: &Site) -> Option<MovingStatus> {
    status(metadata).moving
}

/// Waits until a file is being copied that was not copied when this server started.
fn until_it_copies(metadata: &Site) {
    until("files are being copied", || {
        let moving = moving(metadata).unwrap();
        moving.path.is_some() && moving.bytes_copied > 0
    });
}

fn large_bytes() -> Vec<u8> {
    let words = (0..LARGE as u64 / 8).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_be_bytes).collect()
}

/// A program that rewrites pieces of a file, and reads them again, whatever becomes of the servers.
struct Program {
    at: Arc<Mutex<SocketAddr>>,
    ended: Arc<AtomicBool>,
    turns: Arc<AtomicU64>,
    runs: JoinHandle<Vec<u8>>,
}

impl Program {
    fn start(server: &Running, name: &'static str, bytes: Vec<u8>) -> Program {
        let at = Arc::new(Mutex::new(server.address));
        let ended = Arc::new(AtomicBool::new(false));
        let turns = Arc::new(AtomicU64::new(0));
        let (known, end, counted) = (at.clone(), ended.clone(), turns.clone());
        let runs = spawn(move || block_on(use_file(&known, (&end, &counted), name, bytes)));
        Program {
            at,
            ended,
            turns,
            runs,
        }
    }

    /// Waits until it has rewritten some pieces from now on.
    fn until_it_goes_on(&self) {
        let before = self.turns.load(Ordering::SeqCst);
        until("the program goes on", || {
            self.turns.load(Ordering::SeqCst) > before + 5
        });
    }

    /// What the file has.
    fn end(self) -> Vec<u8> {
        self.ended.store(true, Ordering::SeqCst);
        self.runs.join().unwrap()
    }
}

async fn use_file(
    at: &Mutex<SocketAddr>,
    (ended, turns): (&AtomicBool, &AtomicU64),
    name: &str,
    mut bytes: Vec<u8>,
) -> Vec<u8> {
    while !ended.load(Ordering::SeqCst) {
        let server = *at.lock().unwrap();
        // Whatever fails is done once more, over another session.
        if use_session(server, ended, name, (&mut bytes, turns))
            .await
            .is_err()
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    bytes
}

async fn use_session(
    server: SocketAddr,
    ended: &AtomicBool,
    name: &str,
    (bytes, turns): (&mut Vec<u8>, &AtomicU64),
) -> Result<(), nfs4_client::Error> {
    let client = Client::connect(Options::at(server)).await?;
    client.reclaim_complete().await?;
    let root = client.mount("/export").await?;
    let file = client.open(&root, name, &How::create(0o644)).await?;
    while !ended.load(Ordering::SeqCst) {
        let turn = turns.load(Ordering::SeqCst);
        let at = (turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize;
        let offset = at % (bytes.len() - 1);
        let length = (1 + at % (3 * UNIT))
            .min(bytes.len() - offset)
            .min(client.io_max() as usize);
        let piece: Vec<u8> = (0..length).map(|byte| (byte as u64 ^ turn) as u8).collect();
        let mut written = 0;
        while written < length {
            let rest = bytes::Bytes::copy_from_slice(&piece[written..]);
            let from = (offset + written) as u64;
            let write = client
                .write(&file, from, rest, StableHow4::FileSync)
                .await?;
            written += write.count as usize;
        }
        bytes[offset..offset + length].copy_from_slice(&piece);
        let read = client.read(&file, offset as u64, length as u32).await?;
        let read = read.data;
        assert!(
            !read.is_empty() && read[..] == piece[..read.len()],
            "turn {turn}"
        );
        turns.store(turn + 1, Ordering::SeqCst);
    }
    client.close(&file).await?;
    client.leave().await
}

#[test]
fn a_data_server_is_emptied_under_a_program_while_servers_are_killed() {
    let (metadata, mut names, machines, mut servers) = striping_over([2, 3, 4]);
    for (name, first) in [("one", 1), ("other", 20), ("third", 40)] {
        block_on(write(&names, name, &striped_bytes(first)));
    }
    block_on(write(&names, "large", &large_bytes()));
    let begins_with = striped_bytes(60);
    block_on(write(&names, "used", &begins_with));
    let program = Program::start(&names, "used", begins_with);
    let drain = |rate: &str| pool(&metadata, &["drain-data", "4", "--rate", rate]);
    refuse_rate(&drain("1 KiB"));
    let told = succeed(&drain("2 MiB"));
    assert!(told.contains("over it: 5\n"), "{told}");
    until_it_copies(&metadata);
    program.until_it_goes_on();
    let shown = succeed(&metadata.meridian(&["status"]));
    assert!(shown.contains("\n  moving       "), "{shown}");

    // The home dies in the middle of a copy, then a data server that is copied to, then the one that is emptied.
    names.kill();
    names = metadata.place.start();
    *program.at.lock().unwrap() = names.address;
    until_it_copies(&metadata);
    for at in [0, 2] {
        servers.remove(at).kill();
        let number = 2 + at as u16;
        until("it is missed", || !data_server(&metadata, number).serves);
        servers.insert(at, start(&machines[at]));
        until("it serves again", || data_server(&metadata, number).serves);
        until_it_copies(&metadata);
    }
    succeed(&drain("1 GiB"));
    until("nothing lies there", || {
        status(&machines[2]).holding.unwrap().contents == 0
    });
    until("nothing is left to be moved", || {
        let moving = moving(&metadata).unwrap();
        moving.files_left == Some(0) && moving.trouble.is_none()
    });
    program.until_it_goes_on();
    let used = program.end();
    assert!(stripes_in(&shelf(&machines[2])).is_empty());
    let check = |names: &Running| {
        for (name, first) in [("one", 1), ("other", 20), ("third", 40)] {
            assert_eq!(block_on(read(names, name)), striped_bytes(first));
        }
        assert!(block_on(read(names, "large")) == large_bytes());
        assert!(block_on(read(names, "used")) == used);
    };
    check(&names);
    until("that is known", || {
        let holding = data_server(&metadata, 4).holding;
        holding.is_some_and(|holding| holding.contents == 0)
    });
    succeed(&pool(&metadata, &["remove", "4"]));
    servers.remove(2).stop();
    assert_eq!(moving(&metadata), None);
    check(&names);
}

fn refuse_rate(output: &Output) {
    let message = complaint(output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("choose at least 1 MiB"), "{message}");
}

#[test]
fn files_are_spread_over_a_data_server_that_was_added() {
    let (metadata, mut names, machines, _servers) = striping_over([2]);
    for (name, first) in [("one", 1), ("other", 20)] {
        block_on(write(&names, name, &striped_bytes(first)));
    }
    block_on(write(&names, "large", &large_bytes()));
    let added = joined(&metadata);
    let _added = start(&added);
    until("new files lie there", || {
        data_server(&metadata, 3).new_files
    });
    assert!(stripes_in(&shelf(&added)).is_empty());
    let rebalance = |more: &[&str]| pool(&metadata, &[&["rebalance"], more].concat());
    let told = succeed(&rebalance(&["--rate", "2 MiB"]));
    assert!(
        told.starts_with("What is being spread over the data servers 2, 3: 3 files (13.1 MiB)."),
        "{told}"
    );
    until_it_copies(&metadata);
    // One may think better of it.
    assert!(succeed(&rebalance(&["--stop"])).contains("stay where they are"));
    until("nothing moves", || moving(&metadata).is_none());
    succeed(&rebalance(&[]));
    until_it_copies(&metadata);
    names.kill();
    names = metadata.place.start();
    let told = succeed(&rebalance(&["--rate", "1 GiB", "--json"]));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["over"], serde_json::json!([2, 3]));
    until("all are spread", || moving(&metadata).is_none());
    for (name, first) in [("one", 1), ("other", 20)] {
        assert_eq!(block_on(read(&names, name)), striped_bytes(first));
    }
    assert!(block_on(read(&names, "large")) == large_bytes());
    for machine in [&machines[0], &added] {
        until("each has its half", || {
            let stripes = stripes_in(&shelf(machine));
            let of = |range: std::ops::RangeInclusive<u8>| {
                stripes
                    .iter()
                    .filter(|stripe| range.contains(stripe))
                    .count()
            };
            let half = usize::from(STRIPES / 2)..=usize::from(STRIPES / 2) + 1;
            half.contains(&of(1..=STRIPES)) && half.contains(&of(20..=20 + STRIPES))
        });
    }
    assert!(
        succeed(&rebalance(&[])).starts_with("All files are spread over the data servers 2, 3")
    );
    until("that is seen", || moving(&metadata).is_none());
}
