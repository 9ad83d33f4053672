//! A metadata server that has joined answers from copies what it has asked before, and shows whatever was answered anywhere.

use nfs4::{LayoutIomode4, NfsFh4, StableHow4};
use nfs4_client::ops;
use rustix::process::Signal;
use server::CopiesStatus;

use super::*;

fn copies(site: &Site) -> CopiesStatus {
    status(site).copies.unwrap()
}

async fn size(client: &Client, file: &NfsFh4) -> u64 {
    client.stat(file).await.unwrap().size.unwrap()
}

async fn set_size(client: &Client, file: &NfsFh4, size: u64) {
    let set = Attributes4 {
        size: Some(size),
        ..Attributes4::default()
    };
    let set = client.setattr(file, Stateid4::ANONYMOUS, &set).await;
    set.unwrap();
}

/// The server answers this without asking the first one, as long as its lease does not run out on a machine that is busy.
async fn costs_no_message(second: &Site, work: impl AsyncFn()) {
    let begun = Instant::now();
    loop {
        let before = copies(second);
        work().await;
        let after = copies(second);
        if after.questions == before.questions {
            return assert!(after.answered > before.answered);
        }
        assert!(begun.elapsed() < PATIENCE, "{before:?}, {after:?}");
    }
}

#[test]
fn what_was_seen_costs_no_message_and_what_changes_shows_at_once_also_while_a_server_stands_still()
{
    let (first, names, second, shown) = two_metadata_servers();
    let (changes, looks) = (runtime(), runtime());
    let (writer, at_first) = changes.block_on(client_of(&names));
    changes.block_on(async {
        for name in ["one", "other"] {
            let file = writer
                .open(&at_first, name, &How::create(0o666))
                .await
                .unwrap();
            writer.close(&file).await.unwrap();
        }
    });
    let (reader, root) = looks.block_on(client_of(&shown));
    let file = looks.block_on(reader.lookup(&root, "one")).unwrap();
    looks.block_on(costs_no_message(&second, async || {
        for _ in 0..50 {
            reader.lookup(&root, "one").await.unwrap();
            assert_eq!(reader.readdir(&root, SIZE).await.unwrap().len(), 2);
            assert_eq!(size(&reader, &file).await, 0);
        }
    }));
    for length in 1..20 {
        changes.block_on(set_size(&writer, &file, length));
        assert_eq!(looks.block_on(size(&reader, &file)), length);
        let entries = looks.block_on(reader.readdir(&root, SIZE)).unwrap();
        let mut sizes = entries.iter().map(|entry| entry.attributes.size);
        assert!(sizes.any(|size| size == Some(length)));
    }
    assert!(copies(&second).taken_back > 0);
    // It cannot drop its copy, and does not answer from it once it goes on.
    looks.block_on(size(&reader, &file));
    shown.signal(Signal::STOP);
    changes.block_on(set_size(&writer, &file, 20));
    shown.signal(Signal::CONT);
    assert_eq!(looks.block_on(size(&reader, &file)), 20);
    changes.block_on(writer.remove(&at_first, "one")).unwrap();
    let gone = looks.block_on(reader.lookup(&root, "one"));
    assert_eq!(status_of(gone), Some(NfsStat4::NoEnt));
    // Nobody waits for one that is gone longer than its lease.
    looks.block_on(reader.lookup(&root, "other")).unwrap();
    shown.kill();
    changes.block_on(writer.remove(&at_first, "other")).unwrap();
    let shown = start(&second);
    let entries = looks.block_on(async {
        let (reader, root) = client_of(&shown).await;
        reader.readdir(&root, SIZE).await.unwrap()
    });
    assert_eq!(entries.len(), 0);
    drop((first, names));
}

#[test]
fn a_copy_of_before_a_jump_of_the_time_of_day_is_not_shown_before_the_first_server_says_so() {
    let (_first, names, second, shown) = two_metadata_servers();
    block_on(write(&names, "file", b"bytes"));
    shown.stop();
    let (shown, jumps) = start_with_jumps(&second);
    runtime().block_on(async {
        let (reader, root) = client_of(&shown).await;
        let file = reader.lookup(&root, "file").await.unwrap();
        for seconds in [3600, 3599, -3600, 0] {
            let is_known = async || assert_eq!(size(&reader, &file).await, 5);
            costs_no_message(&second, is_known).await;
            names.signal(Signal::STOP);
            jumps.set(seconds).unwrap();
            let before = copies(&second).answered;
            let asks = size(&reader, &file);
            let looks = async {
                // Long enough for an answer from a copy, and a lease has not run out by itself yet.
                tokio::time::sleep(Duration::from_millis(300)).await;
                let answered = copies(&second).answered - before;
                names.signal(Signal::CONT);
                answered
            };
            let (size, answered) = tokio::join!(asks, looks);
            assert_eq!((size, answered), (5, 0), "{seconds} s");
        }
    });
    let log = second.place.read_log();
    assert!(log.contains("the time of day has jumped"), "{log}");
}

#[test]
fn what_a_client_writes_at_a_data_server_shows_at_once_too() {
    let (first, names, second, shown) = two_metadata_servers();
    let machine = joined(&first);
    let data = start(&machine);
    until("new files lie there", || data_server(&first, 3).new_files);
    let runtime = runtime();
    runtime.block_on(async {
        let (writer, at_first) = client_of(&names).await;
        let made = writer.open(&at_first, "file", &How::create(0o666)).await;
        writer.close(&made.unwrap()).await.unwrap();
        let (reader, root) = client_of(&shown).await;
        let file = reader.lookup(&root, "file").await.unwrap();
        let there = Client::connect(Options::at(data.address)).await.unwrap();
        for already in [0, 9] {
            let is_known = async || assert_eq!(size(&reader, &file).await, already);
            costs_no_message(&second, is_known).await;
            let open = writer.open(&at_first, "file", &How::create(0o666)).await;
            let open = open.unwrap();
            let for_writing = LayoutIomode4::ReadWrite;
            // It cannot drop its copy now, and has no lease any more when somebody may write.
            shown.signal(Signal::STOP);
            let layout = writer.layout(&open.handle, open.stateid, for_writing);
            let (_, layout) = layout.await.unwrap();
            for end in already + 1..already + 10 {
                let bytes = bytes::Bytes::from_static(b"x");
                let stable = StableHow4::FileSync;
                let write = ops::write(Stateid4::ANONYMOUS, end - 1, stable, bytes);
                let handle = ops::putfh(&layout.fh_list[0]);
                let written = there.compound(vec![handle, write]).await.unwrap();
                assert_eq!(written.status, NfsStat4::Ok);
                // Nobody but the data server knows how long the file is.
                let goes_on = async || {
                    tokio::task::yield_now().await;
                    shown.signal(Signal::CONT);
                };
                let (shows, ()) = tokio::join!(size(&reader, &file), goes_on());
                assert_eq!(shows, end);
                assert_eq!(size(&writer, &file).await, end);
            }
            writer.close(&open).await.unwrap();
        }
        let is_known = async || assert_eq!(size(&reader, &file).await, 18);
        costs_no_message(&second, is_known).await;
    });
}

#[test]
fn no_look_is_older_than_an_answered_change_while_servers_are_killed_and_stand_still() {
    let (first, mut names, _second, shown) = two_metadata_servers();
    let third = Site::new();
    let token = succeed(&pool(&first, &["invite", "--metadata-server"]));
    succeed(&join(&third, token.trim_end()));
    let changed = start(&third);
    let (changes, looks) = (runtime(), runtime());
    let (writer, root) = changes.block_on(client_of(&changed));
    let made = changes.block_on(writer.open(&root, "file", &How::create(0o666)));
    let file = made.unwrap().handle;
    let (reader, _) = looks.block_on(client_of(&shown));
    let (answered, seen, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let is_over = || over.load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| {
            for length in 1.. {
                if is_over() {
                    break;
                }
                changes.block_on(set_size(&writer, &file, length));
                answered.store(length, Ordering::SeqCst);
            }
        });
        let reads = scope.spawn(|| {
            while !is_over() {
                let least = answered.load(Ordering::SeqCst);
                let size = looks.block_on(size(&reader, &file));
                assert!(size >= least, "{size} was seen after {least} was answered");
                seen.fetch_add(1, Ordering::SeqCst);
            }
        });
        let goes_on = |count: &AtomicU64| {
            let goal = count.load(Ordering::SeqCst) + 20;
            until("it goes on", || {
                count.load(Ordering::SeqCst) >= goal || writes.is_finished() || reads.is_finished()
            });
        };
        for turn in 0..3 {
            goes_on(&answered);
            goes_on(&seen);
            names.kill();
            names = first.place.start();
            goes_on(&answered);
            shown.signal(Signal::STOP);
            goes_on(&answered);
            shown.signal(Signal::CONT);
            if turn == 1 {
                // Nobody there when the first one is started, which knows of no copies.
                goes_on(&seen);
                shown.signal(Signal::STOP);
                names.kill();
                names = first.place.start();
                goes_on(&answered);
                shown.signal(Signal::CONT);
            }
        }
        over.store(true, Ordering::SeqCst);
        writes.join().unwrap();
        reads.join().unwrap();
    });
}
