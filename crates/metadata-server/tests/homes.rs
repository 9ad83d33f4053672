//! Directories that a joined metadata server makes live there. Both servers show one tree, and each asks the other about objects that live
//! there. An operation over both servers that a kill or a lost message interrupts is done completely or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use metadata_server::Question;
use vfs::{
    AccessCheck, ByteRange, Cookie, Credentials, Error, FileSystem, LockKind, LockOwner, RequestId,
    SetAttributes, Stability,
};

use crate::fixture::both::{Both, FIRST, Fate, SECOND, mode, slot};
use crate::fixture::{READS, ROOT, called, owned};

fn locker(client: &str) -> LockOwner {
    LockOwner {
        client: owned(client).0,
        owner: Arc::from(&b"owner"[..]),
    }
}

#[tokio::test]
async fn a_directory_lives_where_it_was_made_and_all_show_it() {
    let both = Both::new().await;
    let above = both.directory(FIRST, (ROOT, "above"), 1).await;
    let made = both.make(SECOND, (above, "made"), 2).await.unwrap();
    let directory = made.attributes.id;
    assert_eq!((above.slot(), directory.slot()), (slot(0), slot(1)));
    assert!(made.made && made.attributes.mode == 0o750);
    assert_eq!(
        both.at(FIRST).attributes(directory).await,
        Ok(made.attributes)
    );
    both.expect_names(above, &[("made", directory)]).await;
    // Objects made in it live there, too, whichever server makes them.
    let file = both.file(SECOND, directory, "file").await;
    let below = both.directory(FIRST, (directory, "below"), 3).await;
    let other = both.file(FIRST, below, "other").await;
    for id in [file, below, other] {
        assert_eq!(id.slot(), slot(SECOND));
    }
    both.expect_names(directory, &[("file", file), ("below", below)])
        .await;
    both.expect_names(below, &[("other", other)]).await;
    for at in [FIRST, SECOND] {
        let (tree, who) = (both.at(at), &both.who);
        let up = |id| async move { tree.parent(who, id).await.map(|found| found.id) };
        assert_eq!(up(below).await, Ok(directory));
        assert_eq!(up(directory).await, Ok(above));
        assert_eq!(up(above).await, Ok(ROOT));
        assert_eq!(up(ROOT).await, Err(Error::NotFound));
    }
    // Each server reads at once what the other writes.
    let access = AccessCheck::Credentials(&both.who);
    for (at, text) in [(FIRST, "first"), (SECOND, "second")] {
        let data = Bytes::from_static(text.as_bytes());
        let written = both.at(at).write(access, file, 0, data, Stability::File);
        written.await.unwrap();
        for reader in [FIRST, SECOND] {
            let read = both.at(reader).read(access, file, 0, 100).await.unwrap();
            assert_eq!(read.bytes, text);
            let found = both.at(reader).attributes(file).await.unwrap();
            assert_eq!(found.size, text.len() as u64);
        }
    }
}

#[tokio::test]
async fn work_in_a_directory_of_ones_own_asks_nobody() {
    let both = Both::new().await;
    let directory = both.directory(SECOND, (ROOT, "own"), 1).await;
    both.questions();
    let file = both.file(SECOND, directory, "file").await;
    let (tree, who) = (both.at(SECOND), &both.who);
    let access = AccessCheck::Credentials(who);
    tree.open(access, file, &owned("one"), READS).await.unwrap();
    let owner = locker("one");
    let everything = ByteRange::EVERYTHING;
    tree.lock(file, &owner, everything, LockKind::Write)
        .await
        .unwrap();
    tree.unlock(file, &owner, everything).await.unwrap();
    let data = Bytes::from_static(b"text");
    tree.write(access, file, 0, data, Stability::File)
        .await
        .unwrap();
    tree.close(file, &owned("one")).await.unwrap();
    let below = both.directory(SECOND, (directory, "below"), 2).await;
    let moved = both.rename(SECOND, (directory, "file"), (below, "moved"));
    moved.await.unwrap();
    both.remove(SECOND, below, "moved").await.unwrap();
    both.remove(SECOND, directory, "below").await.unwrap();
    assert_eq!(both.questions(), [0, 0]);
}

#[tokio::test]
async fn a_directory_goes_when_it_is_empty() {
    let both = Both::new().await;
    for (at, name) in [(FIRST, "one"), (SECOND, "other")] {
        let directory = both.directory(SECOND, (ROOT, name), at as u64).await;
        both.file(FIRST, directory, "file").await;
        assert_eq!(both.remove(at, ROOT, name).await, Err(Error::NotEmpty));
        both.file(SECOND, directory, "more").await;
        for name in ["file", "more"] {
            both.remove(at, directory, name).await.unwrap();
        }
        both.remove(at, ROOT, name).await.unwrap();
        for at in [FIRST, SECOND] {
            assert_eq!(both.find(at, ROOT, name).await, Err(Error::NotFound));
            let found = both.at(at).attributes(directory).await;
            assert_eq!(found.err(), Some(Error::Stale));
        }
    }
    both.expect_hidden(&[]).await;
}

#[tokio::test]
async fn directories_move_within_a_home_and_not_over_two() {
    let both = Both::new().await;
    let directory = both.directory(SECOND, (ROOT, "made"), 1).await;
    let above = both.directory(FIRST, (ROOT, "above"), 2).await;
    let inside = both.directory(SECOND, (directory, "inside"), 4).await;
    let outside = both.directory(FIRST, (ROOT, "outside"), 5).await;
    let taken = both.directory(FIRST, (ROOT, "taken"), 3).await;
    let (who, name) = (&both.who, called("name"));
    let refused = Err(Error::CrossHome);
    for at in [SECOND, FIRST] {
        let out = both.rename(at, (directory, "inside"), (ROOT, "name"));
        assert_eq!(out.await, refused);
        let into = both.rename(at, (ROOT, "outside"), (directory, "name"));
        assert_eq!(into.await, refused);
        for (id, to) in [(inside, ROOT), (outside, directory)] {
            let linked = both.at(at).link(who, id, to, &name).await;
            assert_eq!(linked.map(drop), Err(Error::IsDirectory));
        }
        // It may have entries.
        let over = both.rename(at, (ROOT, "taken"), (ROOT, "made"));
        assert_eq!(over.await, refused);
    }
    let moved = both.rename(SECOND, (ROOT, "made"), (above, "moved"));
    moved.await.unwrap();
    both.expect_names(above, &[("moved", directory)]).await;
    let all = [("above", above), ("outside", outside), ("taken", taken)];
    both.expect_names(ROOT, &all).await;
    for at in [FIRST, SECOND] {
        let up = both.at(at).parent(who, directory).await.unwrap();
        assert_eq!(up.id, above);
    }
}

#[tokio::test]
async fn who_may_remove_it_is_its_owner_by_what_its_home_knows() {
    let both = Both::new().await;
    let sticky = both.directory(FIRST, (ROOT, "sticky"), 1).await;
    let access = AccessCheck::Credentials(&both.who);
    let open_to_all = mode(0o1777);
    let set = both.at(FIRST).set_attributes(access, sticky, &open_to_all);
    set.await.unwrap();
    let directory = both.directory(SECOND, (sticky, "made"), 2).await;
    let user = Credentials {
        user: 1000,
        group: 1000,
        ..Credentials::root()
    };
    let name = called("made");
    for at in [FIRST, SECOND] {
        let removed = both.at(at).remove(&user, sticky, &name).await;
        assert_eq!(removed.err(), Some(Error::NotPermitted));
        // Afterwards the directory is usable.
        both.file(at, directory, "file").await;
        both.remove(at, directory, "file").await.unwrap();
    }
    let given = SetAttributes {
        owner: Some(1000),
        ..SetAttributes::default()
    };
    let given = both.at(SECOND).set_attributes(access, directory, &given);
    given.await.unwrap();
    both.at(FIRST).remove(&user, sticky, &name).await.unwrap();
    both.expect_hidden(&[]).await;
}

#[tokio::test]
async fn a_directory_is_made_once_whatever_is_lost_or_killed() {
    for fate in [Fate::Lost, Fate::Unanswered] {
        for killed in [None, Some(FIRST), Some(SECOND)] {
            let mut both = Both::new().await;
            both.directory(SECOND, (ROOT, "before"), 1).await;
            both.fail_next(Question::is_made_once, fate);
            let made = both.make(SECOND, (ROOT, "made"), 2).await;
            assert_eq!(made.err(), Some(Error::Uncertain));
            if let Some(killed) = killed {
                both.restart(killed).await;
            }
            if killed == Some(SECOND) {
                let found = both.find(FIRST, ROOT, "made").await;
                assert_eq!(found.is_ok(), fate == Fate::Unanswered, "{found:?}");
                let hidden = both.names(FIRST, ROOT).await.into_iter();
                let hidden: Vec<_> = hidden.map(|(_, id)| id).collect();
                both.expect_hidden(&hidden).await;
            }
            let made = both.make(SECOND, (ROOT, "made"), 2).await.unwrap();
            assert!(made.made, "by the same request");
            let again = both.make(SECOND, (ROOT, "made"), 3).await;
            assert_eq!(again.err(), Some(Error::Exists));
            let (directory, before) = (made.attributes.id, both.find(SECOND, ROOT, "before"));
            let before = before.await.unwrap();
            both.expect_names(ROOT, &[("before", before), ("made", directory)])
                .await;
            both.expect_hidden(&[before, directory]).await;
            both.file(FIRST, directory, "file").await;
        }
    }
}

#[tokio::test]
async fn a_directory_goes_as_a_whole_or_stays_whatever_is_lost_or_killed() {
    let asked: [fn(&Question) -> bool; 2] = [
        |question| matches!(question, Question::Seal(..)),
        |question| matches!(question, Question::Discard(_)),
    ];
    for (step, which) in asked.into_iter().enumerate() {
        for fate in [Fate::Lost, Fate::Unanswered] {
            for killed in [FIRST, SECOND] {
                let mut both = Both::new().await;
                let directory = both.directory(SECOND, (ROOT, "made"), 1).await;
                both.fail_next(which, fate);
                let removed = both.remove(FIRST, ROOT, "made").await;
                both.restart(killed).await;
                match step {
                    // The name exists, and the directory stays usable.
                    0 => {
                        assert_eq!(removed, Err(Error::Delay));
                        let file = both.file(SECOND, directory, "file").await;
                        both.expect_names(directory, &[("file", file)]).await;
                        both.expect_names(ROOT, &[("made", directory)]).await;
                        both.expect_hidden(&[directory]).await;
                    }
                    _ => {
                        assert_eq!(removed, Ok(()));
                        both.expect_names(ROOT, &[]).await;
                        both.expect_hidden(&[]).await;
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn locks_at_the_second_stand_there_for_clients_of_both() {
    let mut both = Both::new().await;
    let directory = both.directory(SECOND, (ROOT, "made"), 1).await;
    let file = both.file(SECOND, directory, "file").await;
    let everything = ByteRange::EVERYTHING;
    let (one, other) = (locker("one"), locker("other"));
    let kind = LockKind::Write;
    let first = both.at(FIRST).clone();
    first.lock(file, &one, everything, kind).await.unwrap();
    let refused = both.at(SECOND).lock(file, &other, everything, kind).await;
    assert!(matches!(refused, Err(Error::Locked(_))), "{refused:?}");
    drop(first);
    // The server reports it again.
    both.restart(SECOND).await;
    let refused = both.at(SECOND).lock(file, &other, everything, kind).await;
    assert!(matches!(refused, Err(Error::Locked(_))), "{refused:?}");
    both.at(FIRST).unlock(file, &one, everything).await.unwrap();
    let second = both.at(SECOND);
    second.lock(file, &other, everything, kind).await.unwrap();
    let refused = both.at(FIRST).lock(file, &one, everything, kind).await;
    assert!(matches!(refused, Err(Error::Locked(_))), "{refused:?}");
}

#[tokio::test]
async fn what_clients_of_the_first_hold_is_given_up_when_the_second_hears_nothing_of_it() {
    let both = Both::new().await;
    let has_lost = Arc::new(AtomicBool::new(false));
    let lost = has_lost.clone();
    // Registered before there is another home.
    both.at(FIRST).on_loss(Arc::new(move || {
        lost.store(true, Ordering::SeqCst);
        Box::pin(async {})
    }));
    let directory = both.directory(SECOND, (ROOT, "made"), 1).await;
    let file = both.file(SECOND, directory, "file").await;
    let (one, other) = (locker("one"), locker("other"));
    let (everything, kind) = (ByteRange::EVERYTHING, LockKind::Write);
    let (first, second) = (both.at(FIRST), both.at(SECOND));
    first.lock(file, &one, everything, kind).await.unwrap();
    for _ in 0..19 {
        let refused = second.lock(file, &other, everything, kind).await;
        assert!(matches!(refused, Err(Error::Locked(_))), "{refused:?}");
        both.pass_five_seconds().await;
    }
    second.lock(file, &other, everything, kind).await.unwrap();
    assert!(!has_lost.load(Ordering::SeqCst));
    let access = AccessCheck::Open(&both.who);
    let data = Bytes::from_static(b"by a lost lock");
    let written = first.write(access, file, 0, data, Stability::File).await;
    assert_eq!(written.err(), Some(Error::Delay));
    while first.attributes(file).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert!(has_lost.load(Ordering::SeqCst));
    assert_eq!(first.attributes(file).await.unwrap().size, 0);
    first.unlock(file, &one, everything).await.unwrap();
    let refused = first.lock(file, &one, everything, kind).await;
    assert!(matches!(refused, Err(Error::Locked(_))), "{refused:?}");
}

#[tokio::test]
async fn that_requests_have_ended_is_said_once() {
    let both = Both::new().await;
    both.directory(SECOND, (ROOT, "made"), 1).await;
    both.questions();
    for (at, asked) in [(FIRST, [1, 0]), (SECOND, [0, 1])] {
        let ended = vec![[at as u8; RequestId::GROUP_BYTES]];
        both.at(at).end_requests(ended).await.unwrap();
        assert_eq!(both.questions(), asked);
    }
}

#[tokio::test]
async fn a_page_asks_each_home_once() {
    let both = Both::new().await;
    let above = both.directory(FIRST, (ROOT, "above"), 1).await;
    let mut made = Vec::new();
    for number in 2..12 {
        made.push(
            both.directory(SECOND, (above, &number.to_string()), number)
                .await,
        );
    }
    both.questions();
    for (at, asked) in [(FIRST, [1, 0]), (SECOND, [0, 1])] {
        let page = both
            .at(at)
            .read_directory(&both.who, above, Cookie::START, 20);
        let page = page.await.unwrap();
        let listed: Vec<_> = page.entries.iter().map(|it| it.attributes.id).collect();
        assert!(listed.len() == made.len() && made.iter().all(|id| listed.contains(id)));
        assert!(page.entries.iter().all(|it| it.attributes.mode == 0o750));
        assert_eq!(both.questions(), asked);
    }
}

#[tokio::test]
async fn what_lives_at_a_server_that_is_away_waits_and_the_rest_goes_on() {
    let mut both = Both::new().await;
    let above = both.directory(FIRST, (ROOT, "above"), 1).await;
    let directory = both.directory(SECOND, (above, "made"), 2).await;
    let file = both.file(SECOND, directory, "file").await;
    both.kill(SECOND);
    let waits = Some(Error::Delay);
    let (first, who) = (both.at(FIRST), &both.who);
    let near = both.file(FIRST, above, "near").await;
    let listed = first.read_directory(who, above, Cookie::START, 10).await;
    let listed = listed.unwrap();
    assert_eq!(listed.entries.len(), 2);
    for entry in listed.entries {
        let id = entry.attributes.id;
        assert_eq!(listed.unread.contains(&entry.cookie), id != near);
        assert!(id == directory && entry.attributes.is_directory() || id == near);
    }
    both.remove(FIRST, above, "near").await.unwrap();
    assert_eq!(both.find(FIRST, above, "made").await.err(), waits);
    assert_eq!(first.attributes(file).await.err(), waits);
    assert_eq!(both.remove(FIRST, above, "made").await.err(), waits);
    let moved = both.rename(FIRST, (above, "made"), (ROOT, "moved"));
    assert_eq!(moved.await.err(), waits);
    let other = both.file(FIRST, above, "other").await;
    both.rename(FIRST, (above, "other"), (ROOT, "other"))
        .await
        .unwrap();
    both.start(SECOND).await;
    both.end_reclaim().await;
    both.expect_names(ROOT, &[("above", above), ("other", other)])
        .await;
    both.expect_names(above, &[("made", directory)]).await;
    both.kill(FIRST);
    let more = both.file(SECOND, directory, "more").await;
    assert_eq!(both.find(SECOND, directory, "more").await, Ok(more));
    let name = called("name");
    let looked = both.at(SECOND).lookup(&both.who, above, &name).await;
    assert_eq!(looked.err(), waits);
    let made = both.make(SECOND, (above, "new"), 3).await;
    assert_eq!(made.err(), waits);
    both.start(FIRST).await;
    both.end_reclaim().await;
    both.expect_names(directory, &[("file", file), ("more", more)])
        .await;
    both.expect_hidden(&[directory]).await;
}
