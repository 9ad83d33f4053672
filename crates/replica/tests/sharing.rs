//! Several replicas of one tree, seen through the file system that each offers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::fixture::{PATIENCE, ROOT, Set, WRITE, eventually, owner, patiently, root};
use bytes::Bytes;
use vfs::{AccessCheck, Credentials, Error, Extent, FileSystem, SetAttributes, Stability};

/// Longer than any test takes.
const KEPT: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_closed_at_one_site_is_seen_by_the_next_open_at_any_other() {
    let set = Set::of(3).await;
    for round in 0..60_u32 {
        let (writer, reader) = (
            &set.sites[round as usize % 3],
            &set.sites[(round as usize + 1) % 3],
        );
        let text = format!("round {round}");
        writer.save(ROOT, "f", text.as_bytes()).await.unwrap();
        let read = reader.load(ROOT, "f").await.unwrap();
        assert_eq!(String::from_utf8(read).unwrap(), text);
    }
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_made_at_one_site_is_the_same_at_the_others() {
    let set = Set::of(3).await;
    let site = &set.sites[1];
    let top = site.directory(ROOT, "top").await.unwrap();
    for number in 0..20 {
        let below = site.directory(top, &format!("d{number}")).await.unwrap();
        for file in 0..5 {
            let text = format!("{number} {file}");
            site.save(below, &format!("f{file}"), text.as_bytes())
                .await
                .unwrap();
        }
    }
    let below = set.sites[2].find(top, "d7").await.unwrap().id;
    assert_eq!(set.sites[2].load(below, "f3").await.unwrap(), b"7 3");
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_made_once_when_all_sites_make_them() {
    let set = Set::of(3).await;
    for round in 0..20 {
        let at = format!("n{round}");
        let attempts = set.sites.iter().map(|site| site.directory(ROOT, &at));
        let outcomes = join_all(attempts.collect()).await;
        let made = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(made, 1, "{outcomes:?}");
        let others = outcomes.iter().filter(|outcome| outcome.is_err());
        others.for_each(|outcome| assert_eq!(*outcome, Err(Error::Exists)));
    }
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sites_write_in_one_directory_at_once() {
    let set = Set::of(3).await;
    let top = set.sites[0].directory(ROOT, "shared").await.unwrap();
    let work = |at: usize| {
        let site = &set.sites[at];
        async move {
            for number in 0..40 {
                let text = format!("{at} {number}");
                let file = format!("s{at}n{number}");
                site.save(top, &file, text.as_bytes()).await.unwrap();
            }
        }
    };
    tokio::join!(work(0), work(1), work(2));
    for site in &set.sites {
        assert_eq!(site.load(top, "s1n39").await.unwrap(), b"1 39");
    }
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rename_across_directories_meets_writers_below() {
    let set = Set::of(2).await;
    let (here, there) = (&set.sites[0], &set.sites[1]);
    let one = here.directory(ROOT, "one").await.unwrap();
    let two = here.directory(ROOT, "two").await.unwrap();
    let moved = here.directory(one, "m").await.unwrap();
    let moving = async {
        for round in 0..6 {
            let (from, to) = if round % 2 == 0 {
                (one, two)
            } else {
                (two, one)
            };
            here.rename((from, "m"), (to, "m")).await.unwrap();
        }
    };
    let writing = async {
        for number in 0..30 {
            let file = format!("f{number}");
            there.save(moved, &file, file.as_bytes()).await.unwrap();
        }
    };
    tokio::join!(moving, writing);
    assert_eq!(here.load(moved, "f29").await.unwrap(), b"f29");
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_and_removals_reach_everybody() {
    let set = Set::of(3).await;
    let (a, b, c) = (&set.sites[0], &set.sites[1], &set.sites[2]);
    let d1 = a.directory(ROOT, "d1").await.unwrap();
    let d2 = b.directory(ROOT, "d2").await.unwrap();
    let file = a.save(d1, "f", b"first").await.unwrap();
    b.link(file, d2, "g").await.unwrap();
    c.save(d2, "g", b"second").await.unwrap();
    assert_eq!(a.load(d1, "f").await.unwrap(), b"second");
    a.remove(d1, "f").await.unwrap();
    assert_eq!(b.load(d2, "g").await.unwrap(), b"second");
    c.remove(d2, "g").await.unwrap();
    // A majority knows who decides there; the announcement may still be on its way to the third.
    let gone = patiently(|| async {
        match b.find(d2, "g").await {
            Ok(_) => Err(Error::Delay),
            outcome => outcome,
        }
    });
    assert_eq!(gone.await.map(|_| ()), Err(Error::NotFound));
    b.remove(ROOT, "d2").await.unwrap();
    assert_eq!(a.remove(ROOT, "d1").await, Ok(()));
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_is_not_removed_while_somebody_makes_something_in_it() {
    let set = Set::of(2).await;
    let (here, there) = (&set.sites[0], &set.sites[1]);
    for round in 0..10 {
        let at = format!("d{round}");
        let directory = here.directory(ROOT, &at).await.unwrap();
        set.rest().await;
        let (made, removed) = tokio::join!(there.file(directory, "f"), here.remove(ROOT, &at));
        assert!(made.is_ok() != removed.is_ok(), "{made:?} {removed:?}");
    }
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_replica_begins_with_everything_and_follows() {
    let mut set = Set::alone().await;
    let top = set.sites[0].directory(ROOT, "top").await.unwrap();
    for number in 0..50 {
        let file = format!("f{number}");
        let content = vec![number as u8; 5000 * number];
        set.sites[0].save(top, &file, &content).await.unwrap();
    }
    set.add().await;
    assert_eq!(
        set.sites[1].load(top, "f49").await.unwrap(),
        vec![49; 5000 * 49]
    );
    set.sites[1].save(top, "new", b"text").await.unwrap();
    set.add().await;
    assert_eq!(set.sites[2].load(top, "new").await.unwrap(), b"text");
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_replica_goes_on() {
    let mut set = Set::of(3).await;
    set.sites[0].save(ROOT, "f", b"before").await.unwrap();
    set.restart(0).await;
    assert_eq!(set.sites[1].load(ROOT, "f").await.unwrap(), b"before");
    set.sites[2].save(ROOT, "f", b"after").await.unwrap();
    assert_eq!(set.sites[0].load(ROOT, "f").await.unwrap(), b"after");
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_open_lives_on_where_it_is_open() {
    let set = Set::of(2).await;
    let (here, there) = (&set.sites[0], &set.sites[1]);
    let file = here.save(ROOT, "f", b"text").await.unwrap();
    set.rest().await;
    there.open(file, "holder", WRITE).await.unwrap();
    here.remove(ROOT, "f").await.unwrap();
    set.rest().await;
    assert_eq!(there.read(file).await.unwrap(), b"text");
    there.close(file, "holder").await.unwrap();
    set.assert_equal().await;
}

async fn join_all<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut outcomes: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut waiting = false;
        for (future, outcome) in futures.iter_mut().zip(&mut outcomes) {
            if outcome.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *outcome = Some(value),
                    std::task::Poll::Pending => waiting = true,
                }
            }
        }
        match waiting {
            true => std::task::Poll::Pending,
            false => std::task::Poll::Ready(()),
        }
    })
    .await;
    outcomes.into_iter().flatten().collect()
}

/// A truncation is answered when it is stable; who writes meanwhile must not be taken for cut off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_beside_a_truncation_reaches_everybody() {
    let set = Set::of(2).await;
    let site = &set.sites[0];
    let mut files = Vec::new();
    for number in 0..20 {
        let name = format!("f{number}");
        files.push(site.save(ROOT, &name, &[1; 5000]).await.unwrap());
    }
    for file in files {
        for round in 2..6 {
            let bytes = [round; 9000];
            let (cut, written) = tokio::join!(site.truncate(file, 0), site.write(file, 0, &bytes));
            cut.unwrap();
            written.unwrap();
        }
    }
    set.assert_equal().await;
}

/// A site works in a directory that another one controls: what its client is told of a file that it makes and writes there
/// comes with the answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_made_and_written_under_the_control_of_another_site_takes_a_forward_each() {
    let set = Set::failing_with(2, |settings| {
        settings.control.deep_control_idle = KEPT;
        settings.control.revoke_grace = KEPT;
    })
    .await;
    let (near, far) = (&set.sites[1], &set.sites[0]);
    let shared = far.directory(ROOT, "shared").await.unwrap();
    let forwarded = || near.replica.status().forwarded;
    let before = forwarded();
    let file = near.file(shared, "f").await.unwrap();
    assert_eq!(forwarded() - before, 1, "the file was made");
    let (who, maker) = (root(), owner("maker"));
    let opening = near.files.open_made(&who, file, &maker, WRITE);
    opening.await.unwrap();
    near.store
        .downgrade(file, &maker, WRITE)
        .await
        .expect("the open is kept where the client is");
    let before = forwarded();
    let bytes = Bytes::from_static(b"eight by");
    let (by, stability) = (AccessCheck::Open(&who), Stability::File);
    let writing = near.files.write(by, file, 0, bytes, stability);
    let written = writing.await.unwrap();
    assert_eq!(forwarded() - before, 1, "it was written");
    let told = written.attributes.expect("the primary tells");
    assert_eq!(told, far.files.attributes(file).await.unwrap());
    assert_eq!(told.size, 8);
    assert_eq!(far.load(shared, "f").await.unwrap(), b"eight by");
    near.close(file, "maker").await.unwrap();
}

/// A file that one site has written, and that another one goes on writing alone, does not cost that one a round trip for each write for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_of_a_file_goes_to_the_site_that_goes_on_writing() {
    let set = Set::failing_with(2, |settings| {
        settings.control.file_control_idle = Duration::from_secs(2);
        settings.data_delay = Duration::from_millis(1);
    })
    .await;
    let (first, second) = (&set.sites[0], &set.sites[1]);
    let file = first.save(ROOT, "log", b"first").await.unwrap();
    second.open(file, "appends", WRITE).await.unwrap();
    let forwarded = || second.replica.status().forwarded;
    let moved = async {
        loop {
            let before = forwarded();
            second.write(file, 5, b"second").await.unwrap();
            if forwarded() == before {
                return;
            }
            eventually("it is everywhere", || {
                let peers = first.replica.status().peers;
                (peers.iter()).all(|peer| peer.lag_updates + peer.lag_files == 0)
            })
            .await;
            // Less than control lasts, and long enough to hear that it has ended.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    tokio::time::timeout(PATIENCE, moved).await.unwrap();
    second.close(file, "appends").await.unwrap();
    assert_eq!(first.load(ROOT, "log").await.unwrap(), b"firstsecond");
}

/// Contents that rest before they are sent do so no longer when another site reads them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_site_reads_is_sent_there_at_once() {
    let set = Set::failing_with(2, |settings| {
        settings.data_delay = KEPT;
        settings.control.deep_control_idle = KEPT;
        settings.control.revoke_grace = KEPT;
    })
    .await;
    let (writer, reader) = (&set.sites[0], &set.sites[1]);
    let shared = writer.directory(ROOT, "shared").await.unwrap();
    writer.save(shared, "read", b"wanted").await.unwrap();
    writer.save(shared, "left", b"not wanted").await.unwrap();
    let lacking = || writer.replica.status().peers[0].lag_files;
    assert_eq!(lacking(), 2, "both rest");
    assert_eq!(reader.load(shared, "read").await.unwrap(), b"wanted");
    eventually("what was read has come", || lacking() == 1).await;
}

/// This many bytes that do not compress, different for each seed.
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let step = |state: &mut u64| {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        Some((*state >> 56) as u8)
    };
    std::iter::repeat_n((), bytes)
        .scan(seed, |state, ()| step(state))
        .collect()
}

/// Two sites; the first one decides about a directory, `shared`, and contents rest.
async fn with_much_at_rest() -> Set {
    let set = Set::failing_with(2, |settings| {
        settings.data_delay = KEPT;
        settings.control.deep_control_idle = KEPT;
        settings.control.revoke_grace = KEPT;
    })
    .await;
    set.sites[0].directory(ROOT, "shared").await.unwrap();
    set
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_read_at_another_site_crosses_once() {
    const MUCH: usize = 1 << 20;
    let set = with_much_at_rest().await;
    let (writer, reader) = (&set.sites[0], &set.sites[1]);
    let shared = writer.find(ROOT, "shared").await.unwrap().id;
    let sent = || writer.replica.status().peers[0].sent_bytes;
    let before = sent();
    let text = noise(MUCH, 1);
    let file = writer.save(shared, "file", &text).await.unwrap();
    // As a client does before it closes.
    writer.files.commit(file, 0, 0).await.unwrap();
    assert_eq!(reader.load(shared, "file").await.unwrap(), text);
    let once = sent();
    let expected = MUCH as u64..(MUCH + MUCH / 4) as u64;
    assert!(expected.contains(&(once - before)), "{}", once - before);
    assert_eq!(reader.load(shared, "file").await.unwrap(), text);
    assert!(sent() - once < (MUCH / 4) as u64, "it is there already");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_much_at_another_site_sees_every_change_that_came_before() {
    const MUCH: usize = 256 << 10;
    let set = with_much_at_rest().await;
    let (writer, reader) = (&set.sites[0], &set.sites[1]);
    let shared = writer.find(ROOT, "shared").await.unwrap().id;
    let mut text = noise(MUCH, 1);
    let file = writer.save(shared, "file", &text).await.unwrap();
    writer.open(file, "goes on", WRITE).await.unwrap();
    for round in 0..20 {
        let (at, part) = (round * 4096, noise(70 << 10, round as u64 + 2));
        writer.write(file, at as u64, &part).await.unwrap();
        text[at..at + part.len()].copy_from_slice(&part);
        if round % 2 == 0 {
            writer.files.commit(file, 0, 0).await.unwrap();
        }
        assert_eq!(reader.read(file).await.unwrap(), text, "round {round}");
        match round % 3 {
            0 => text.truncate(MUCH - 100 * round),
            1 => text.resize(MUCH + 100 * round, 0),
            _ => continue,
        }
        writer.truncate(file, text.len() as u64).await.unwrap();
        assert_eq!(reader.read(file).await.unwrap(), text, "round {round}, cut");
    }
    writer.close(file, "goes on").await.unwrap();
}

/// Two sites replace a large file in turns while a third one reads it all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_who_reads_much_sees_what_was_replaced_before() {
    const BLOCKS: usize = 32;
    const ROUNDS: u32 = 120;
    let content = |round: u32| round.to_be_bytes().repeat(BLOCKS * 1024);
    let set = Set::of(3).await;
    let (writers, reader) = (&set.sites[..2], &set.sites[2]);
    let file = writers[0].save(ROOT, "file", &content(0)).await.unwrap();
    let replaced = AtomicU32::new(0);
    let write = async {
        for round in 1..=ROUNDS {
            // Control stays for some rounds and then moves.
            let site = &writers[round as usize / 5 % 2];
            site.open(file, "writer", WRITE).await.unwrap();
            site.write(file, 0, &content(round)).await.unwrap();
            if round % 3 > 0 {
                site.files.commit(file, 0, 0).await.unwrap();
            }
            site.close(file, "writer").await.unwrap();
            replaced.store(round, Ordering::SeqCst);
        }
    };
    let read = async {
        while replaced.load(Ordering::SeqCst) < ROUNDS {
            let least = replaced.load(Ordering::SeqCst);
            let read = reader.read(file).await.unwrap();
            assert_eq!(read.len(), BLOCKS * 4096);
            let rounds = read.chunks_exact(4);
            let oldest = rounds
                .map(|round| u32::from_be_bytes(round.try_into().unwrap()))
                .min();
            assert!(oldest >= Some(least), "{oldest:?} was replaced by {least}");
        }
    };
    tokio::join!(write, read);
    set.assert_equal().await;
}

/// A look-up goes to the site that decides about the directory, which need not be the one that decides about the file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_leads_to_what_the_primary_of_the_object_knows() {
    let set = Set::failing_with(3, |settings| {
        settings.control.directory_control_idle = KEPT;
        settings.control.revoke_grace = KEPT;
        settings.control.strategies.deep_control = false;
    })
    .await;
    let [first, second, third] = &set.sites[..] else {
        panic!("three sites");
    };
    let shared = first.directory(ROOT, "shared").await.unwrap();
    let file = first.file(shared, "file").await.unwrap();
    let controlled = |by: u16| {
        let status = second.replica.status();
        let mut controls = status.controls.iter();
        controls.any(|one| one.holder == by && one.paths.iter().any(|path| path.ends_with("/file")))
    };
    let forwarded = || second.replica.status().forwarded;

    first.open(file, "maker", WRITE).await.unwrap();
    eventually("the second site knows who made it", || controlled(1)).await;
    let before = forwarded();
    second.find(shared, "file").await.unwrap();
    assert_eq!(forwarded() - before, 1, "one site decides about both");

    first.close(file, "maker").await.unwrap();
    eventually("it is let go", || !controlled(1)).await;
    third.open(file, "writer", WRITE).await.unwrap();
    third.write(file, 0, b"by the third").await.unwrap();
    eventually("the second site knows who writes", || controlled(3)).await;
    let before = forwarded();
    assert_eq!(second.find(shared, "file").await.unwrap().size, 12);
    assert_eq!(
        forwarded() - before,
        2,
        "the first site does not know the file"
    );
    third.close(file, "writer").await.unwrap();
}

/// As at one server, who writes takes the set-id bits, unless it is the superuser, or, without execution by the group, a member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_id_bits_go_with_a_write_that_another_site_carries_out() {
    let set = Set::of(2).await;
    let (primary, writer) = (&set.sites[0], &set.sites[1]);
    for (number, (before, group, after)) in [
        (0o2666, 1, 0o666),
        (0o2666, 20, 0o2666),
        (0o6777, 20, 0o777),
        (0o4666, 1, 0o666),
    ]
    .into_iter()
    .enumerate()
    {
        let file = primary
            .save(ROOT, &format!("f{number}"), b"text")
            .await
            .unwrap();
        primary.open(file, "holder", WRITE).await.unwrap();
        let given = SetAttributes {
            owner: Some(10),
            group: Some(20),
            ..SetAttributes::default()
        };
        let mode = SetAttributes {
            mode: Some(before),
            ..SetAttributes::default()
        };
        for change in [given, mode] {
            let superuser = root();
            let by = AccessCheck::Credentials(&superuser);
            primary
                .files
                .set_attributes(by, file, &change)
                .await
                .unwrap();
        }
        let who = Credentials {
            user: 12,
            group,
            ..root()
        };
        let by = AccessCheck::Credentials(&who);
        let opener = owner("writer");
        patiently(|| writer.files.open(by, file, &opener, WRITE))
            .await
            .unwrap();
        let forwarded = || writer.replica.status().forwarded;
        let first = forwarded();
        let data = || Bytes::from_static(b"more");
        let write = || {
            writer.files.write(
                AccessCheck::Open(&who),
                file,
                0,
                data(),
                Stability::Unstable,
            )
        };
        patiently(write).await.unwrap();
        assert!(forwarded() > first, "it was carried out here");
        for site in [primary, writer] {
            let attributes = patiently(|| site.files.attributes(file)).await.unwrap();
            assert_eq!(
                attributes.mode, after,
                "{before:o} after a member of {group}"
            );
        }
        writer.close(file, "writer").await.unwrap();
        primary.close(file, "holder").await.unwrap();
    }
    set.assert_equal().await;
}

/// A hole of a terabyte counted as a terabyte that the others need space for, and so did what was refused, however much that
/// was: nobody could make anything any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holes_and_what_was_refused_take_no_space_at_the_others() {
    const FAR: u64 = 1 << 40;
    let set = Set::of(2).await;
    let site = &set.sites[0];
    let file = site.file(ROOT, "sparse").await.unwrap();
    site.write(file, FAR, b"end").await.unwrap();
    let who = root();
    let extent = |length| Extent { offset: 0, length };
    let punched = patiently(|| {
        let by = AccessCheck::Open(&who);
        site.files.deallocate(by, file, extent(FAR))
    });
    assert_eq!(punched.await, Ok(()));
    let allocated = patiently(|| {
        let by = AccessCheck::Open(&who);
        site.files.allocate(by, file, extent(FAR << 20))
    });
    assert_eq!(allocated.await, Err(Error::NoSpace));
    site.file(ROOT, "next").await.unwrap();
    site.remove(ROOT, "sparse").await.unwrap();
    set.assert_equal().await;
}
