//! Names of files over two joined servers, which reach each other only through the first one.

use std::time::Duration;

use metadata_server::Question;
use vfs::{Cookie, Credentials, Error, FileSystem, ObjectId, RequestId};

use crate::fixture::both::{Both, FIRST, Fate, SECOND, THIRD, slot};
use crate::fixture::{ROOT, called};

/// A directory at each home.
async fn three_homes() -> (Both, [ObjectId; 3]) {
    let all = Both::of(3).await;
    let mut homes = [ROOT; 3];
    for at in all.servers() {
        let name = format!("at{at}");
        homes[at] = all.directory(at, (ROOT, &name), at as u64 + 1).await;
    }
    let slots = homes.map(ObjectId::slot);
    assert_eq!(slots, [slot(0), slot(SECOND), slot(THIRD)]);
    (all, homes)
}

/// What was put off is done. A report passes at most two servers.
async fn settle(all: &Both) {
    for _ in 0..3 {
        for at in all.servers() {
            all.at(at).settle_over_homes().await;
        }
    }
}

async fn link(all: &Both, at: usize, file: ObjectId, to: (ObjectId, &str)) {
    let name = called(to.1);
    let linked = all.at(at).link(&all.who, file, to.0, &name);
    linked.await.unwrap();
}

async fn expect_links(all: &Both, file: ObjectId, links: u32) {
    for at in all.servers() {
        let found = all.at(at).attributes(file).await.unwrap();
        assert_eq!(found.links, links, "at {at}");
    }
}

/// The file is gone, and nothing is kept for it anywhere.
async fn expect_gone(all: &Both, file: ObjectId) {
    for at in all.servers() {
        let found = all.at(at).attributes(file).await;
        assert_eq!(found.err(), Some(Error::Stale), "at {at}");
        assert_eq!(all.store(at).count_names(file), Ok(0), "at {at}");
    }
}

#[tokio::test]
async fn a_file_has_names_at_all_homes_and_goes_with_the_last() {
    for at in [FIRST, SECOND, THIRD] {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let (all, homes) = three_homes().await;
            let file = all.file(at, homes[SECOND], "name").await;
            for other in [THIRD, FIRST] {
                link(&all, at, file, (homes[other], "name")).await;
            }
            link(&all, at, file, (homes[THIRD], "more")).await;
            expect_links(&all, file, 4).await;
            all.remove(at, homes[THIRD], "more").await.unwrap();
            for (removed, home) in order.into_iter().enumerate() {
                expect_links(&all, file, 3 - removed as u32).await;
                all.expect_names(homes[home], &[("name", file)]).await;
                all.remove(at, homes[home], "name").await.unwrap();
                all.expect_names(homes[home], &[]).await;
            }
            expect_gone(&all, file).await;
        }
    }
}

#[tokio::test]
async fn names_move_between_joined_homes_whichever_made_the_file() {
    for maker in [FIRST, SECOND, THIRD] {
        for at in [FIRST, SECOND, THIRD] {
            let (all, homes) = three_homes().await;
            let file = all.file(at, homes[maker], "name").await;
            let replaced = all.file(at, homes[SECOND], "taken").await;
            link(&all, at, replaced, (homes[THIRD], "taken")).await;
            let mut place = (homes[maker], "name");
            for (round, to) in [SECOND, THIRD, SECOND, FIRST, THIRD]
                .into_iter()
                .enumerate()
            {
                let next = (homes[to], ["one", "two"][round % 2]);
                all.rename(at, place, next).await.unwrap();
                if place.0 != next.0 {
                    assert!(all.names(at, place.0).await.iter().all(|it| it.1 != file));
                }
                assert_eq!(all.find(at, next.0, next.1).await, Ok(file));
                expect_links(&all, file, 1).await;
                place = next;
            }
            // Over a name of a file of the source's home, which has another name there.
            all.rename(at, place, (homes[SECOND], "back"))
                .await
                .unwrap();
            all.rename(at, (homes[SECOND], "back"), (homes[THIRD], "taken"))
                .await
                .unwrap();
            all.expect_names(homes[THIRD], &[("taken", file)]).await;
            all.expect_names(homes[SECOND], &[("taken", replaced)])
                .await;
            expect_links(&all, replaced, 1).await;
            // Two names of one file: nothing must be done.
            link(&all, at, file, (homes[SECOND], "same")).await;
            let same = all.rename(at, (homes[SECOND], "same"), (homes[THIRD], "taken"));
            same.await.unwrap();
            expect_links(&all, file, 2).await;
            for (home, name) in [(SECOND, "same"), (THIRD, "taken"), (SECOND, "taken")] {
                all.remove(at, homes[home], name).await.unwrap();
            }
            settle(&all).await;
            expect_gone(&all, file).await;
            expect_gone(&all, replaced).await;
            let reserved = called(".meridian-pool");
            let (store, who) = (all.store(FIRST), &all.who);
            let hidden = store.lookup(who, ROOT, &reserved).await.unwrap().id;
            let page = store.read_directory(who, hidden, Cookie::START, 10);
            assert!(page.await.unwrap().entries.is_empty());
        }
    }
}

#[tokio::test]
async fn a_name_between_joined_homes_is_at_one_place_whatever_is_lost_or_killed() {
    let steps = [is_prepare, is_finish];
    let mut makers = [FIRST, SECOND, THIRD].into_iter().cycle();
    for (step, hop) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for fate in [Fate::Lost, Fate::Unanswered] {
            for killed in [None, Some(FIRST), Some(SECOND), Some(THIRD)] {
                let maker = makers.next().unwrap();
                let (mut all, homes) = three_homes().await;
                let (from, to) = (homes[SECOND], homes[THIRD]);
                let file = all.file(FIRST, homes[maker], "old").await;
                if maker != SECOND {
                    let placed = all.rename(FIRST, (homes[maker], "old"), (from, "old"));
                    placed.await.unwrap();
                    settle(&all).await;
                }
                all.file(FIRST, to, "new").await;
                all.fail_after(hop, steps[step], fate);
                let moved = all.rename(FIRST, (from, "old"), (to, "new")).await;
                assert_eq!(moved.is_ok(), step == 1, "{moved:?}");
                if let Some(killed) = killed {
                    all.restart(killed).await;
                }
                settle(&all).await;
                let case = (maker, step, hop, killed);
                let (at, name) = [(from, "old"), (to, "new")][step];
                for server in all.servers() {
                    let gone = [(to, "new"), (from, "old")][step];
                    assert_eq!(all.find(server, at, name).await, Ok(file), "{case:?}");
                    let other = all.find(server, gone.0, gone.1).await;
                    assert_ne!(other, Ok(file), "{case:?}");
                    assert_ne!(other, Err(Error::Delay), "{case:?}");
                }
                expect_links(&all, file, 1).await;
                all.remove(THIRD, at, name).await.unwrap();
                settle(&all).await;
                expect_gone(&all, file).await;
            }
        }
    }
}

#[tokio::test]
async fn a_repeated_request_has_moved_and_linked_once() {
    let (mut all, homes) = three_homes().await;
    let file = all.file(FIRST, homes[SECOND], "old").await;
    let asked = |series| Credentials {
        request: Some(RequestId {
            series: [series; RequestId::SERIES_BYTES],
            number: 7,
            part: 0,
            digest: 7,
            repeat_only: false,
        }),
        ..Credentials::root()
    };
    let (old, new, third) = (called("old"), called("new"), called("third"));
    let (from, to) = (homes[SECOND], homes[THIRD]);
    let (mut moves, mut links) = (Vec::new(), Vec::new());
    for restart in [None, Some(THIRD), Some(FIRST), Some(SECOND)] {
        if let Some(at) = restart {
            all.restart(at).await;
        }
        let tree = all.at(SECOND).clone();
        let moved = tree.rename(&asked(8), (from, &old), (to, &new)).await;
        moves.push(moved.unwrap());
        links.push(tree.link(&asked(9), file, to, &third).await.unwrap());
        drop(tree);
        // Another client makes the name again.
        if restart.is_none() {
            all.file(FIRST, from, "old").await;
        }
    }
    assert!(moves.iter().all(|change| *change == moves[0]));
    assert!(links.iter().all(|change| *change == links[0]));
    settle(&all).await;
    expect_links(&all, file, 2).await;
    assert_ne!(all.find(SECOND, from, "old").await, Ok(file));
}

/// A home that was not told how many names there are asks, and the one between them, too.
#[tokio::test]
async fn a_number_of_names_that_is_not_told_is_asked() {
    for hop in [0, 1] {
        for fate in [Fate::Lost, Fate::Unanswered] {
            for killed in [FIRST, SECOND, THIRD] {
                let (mut all, homes) = three_homes().await;
                let file = all.file(FIRST, homes[SECOND], "file").await;
                link(&all, THIRD, file, (homes[THIRD], "link")).await;
                let told = |question: &Question| matches!(question, Question::HoldNames(..));
                all.fail_after(hop, told, fate);
                all.remove(THIRD, homes[THIRD], "link").await.unwrap();
                all.fail_after(hop, told, fate);
                let name = called("more");
                let linked = all.at(THIRD).link(&all.who, file, homes[THIRD], &name);
                assert_eq!(linked.await.err(), Some(Error::Delay));
                all.restart(killed).await;
                settle(&all).await;
                expect_links(&all, file, 1).await;
                all.remove(THIRD, homes[SECOND], "file").await.unwrap();
                expect_gone(&all, file).await;
            }
        }
    }
}

/// A change that the first server passed on waits for answers of that server, whose next run asks meanwhile.
#[tokio::test]
async fn a_restart_of_the_first_server_stops_no_move() {
    for maker in [FIRST, SECOND, THIRD] {
        for which in [is_prepare, is_finish] {
            let (mut all, homes) = three_homes().await;
            let (from, to) = (homes[SECOND], homes[THIRD]);
            let file = all.file(FIRST, homes[maker], "old").await;
            if maker != SECOND {
                let placed = all.rename(FIRST, (homes[maker], "old"), (from, "old"));
                placed.await.unwrap();
            }
            let stop = all.hold_next(which);
            let (tree, who) = (all.at(FIRST).clone(), all.who.clone());
            let moving = tokio::spawn(async move {
                let (old, new) = (called("old"), called("new"));
                tree.rename(&who, (from, &old), (to, &new)).await
            });
            stop.is_reached.notified().await;
            moving.abort();
            assert!(moving.await.is_err());
            all.kill(FIRST);
            stop.goes_on.notify_one();
            let between = all.between.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(200)).await;
                between.pass_a_lease();
            });
            let limit = Duration::from_secs(60);
            let started = tokio::time::timeout(limit, all.start(FIRST)).await;
            started.expect("the first server starts");
            all.end_reclaim().await;
            settle(&all).await;
            all.expect_names(from, &[]).await;
            all.expect_names(to, &[("new", file)]).await;
            expect_links(&all, file, 1).await;
        }
    }
}

fn is_finish(question: &Question) -> bool {
    matches!(question, Question::FinishMove(..))
}

fn is_prepare(question: &Question) -> bool {
    matches!(question, Question::PrepareMove(..))
}

/// The only name of a file is at the second home.
async fn file_at_the_second(all: &Both, homes: [ObjectId; 3], maker: usize) -> ObjectId {
    let file = all.file(FIRST, homes[maker], "name").await;
    if maker != SECOND {
        let placed = all.rename(FIRST, (homes[maker], "name"), (homes[SECOND], "name"));
        placed.await.unwrap();
    }
    file
}

/// A home is lost and given up, by the first server or its next run.
async fn lose(all: &mut Both, at: usize, restarted: bool) {
    all.kill(at);
    if restarted {
        all.restart_without_reclaim(FIRST).await;
    }
    let given_up = all.at(FIRST).give_up_home(slot(at), |_| {}).await;
    given_up.unwrap();
    all.left(at);
    settle(all).await;
}

/// The name of a file that was found when a home was given up.
async fn expect_found(all: &Both, lost: usize, file: ObjectId) {
    let directory = format!("lost+found.{}", slot(lost).0);
    let directory = all.find(FIRST, ROOT, &directory).await.unwrap();
    let name = format!("file-{:x}", file.as_u64());
    all.expect_names(directory, &[(&*name, file)]).await;
    expect_links(all, file, 1).await;
}

/// A home from which a name has just left is lost before it has heard so.
#[tokio::test]
async fn a_name_that_left_a_lost_home_in_time_stays() {
    for (maker, to) in [
        (FIRST, FIRST),
        (THIRD, FIRST),
        (FIRST, THIRD),
        (THIRD, THIRD),
    ] {
        for restarted in [false, true] {
            let (mut all, homes) = three_homes().await;
            let file = file_at_the_second(&all, homes, maker).await;
            all.fail_after(usize::from(to == THIRD), is_finish, Fate::Lost);
            let moved = all.rename(FIRST, (homes[SECOND], "name"), (homes[to], "name"));
            moved.await.unwrap();
            lose(&mut all, SECOND, restarted).await;
            all.expect_names(homes[to], &[("name", file)]).await;
            let links = all.at(FIRST).attributes(file).await.unwrap().links;
            let found = all.find(FIRST, ROOT, "lost+found.2").await;
            assert_eq!(links, 1 + u32::from(found.is_ok()));
            all.remove(FIRST, homes[to], "name").await.unwrap();
        }
    }
}

/// The home to which a name moves is lost, with the name, after the source has removed it.
#[tokio::test]
async fn a_file_whose_name_moved_to_a_lost_home_is_found() {
    for maker in [FIRST, SECOND] {
        for restarted in [false, true] {
            let (mut all, homes) = three_homes().await;
            let file = file_at_the_second(&all, homes, maker).await;
            all.fail_after(1, is_finish, Fate::Unanswered);
            let moved = all.rename(FIRST, (homes[SECOND], "name"), (homes[THIRD], "name"));
            moved.await.unwrap();
            lose(&mut all, THIRD, restarted).await;
            all.expect_names(homes[SECOND], &[]).await;
            expect_found(&all, THIRD, file).await;
        }
    }
}

/// A home is lost while a name is about to leave it, and the home that decides that is away, or is lost, too.
#[tokio::test]
async fn a_file_whose_name_was_about_to_leave_a_lost_home_is_found() {
    for restarted in [false, true] {
        for both_lost in [false, true] {
            let (mut all, homes) = three_homes().await;
            let file = file_at_the_second(&all, homes, FIRST).await;
            all.fail_next(is_prepare, Fate::Unanswered);
            let moved = all.rename(FIRST, (homes[SECOND], "name"), (homes[THIRD], "name"));
            assert!(moved.await.is_err());
            all.kill(THIRD);
            lose(&mut all, SECOND, restarted).await;
            match both_lost {
                true => lose(&mut all, THIRD, false).await,
                false => all.start(THIRD).await,
            }
            settle(&all).await;
            expect_found(&all, SECOND, file).await;
        }
    }
}

/// The second home is lost, with files that have names at the third, and names of files of the third.
#[tokio::test]
async fn a_lost_home_takes_only_its_own_files_along() {
    let (mut all, homes) = three_homes().await;
    let lost = all.file(FIRST, homes[SECOND], "lost").await;
    link(&all, FIRST, lost, (homes[THIRD], "lost")).await;
    link(&all, FIRST, lost, (homes[THIRD], "again")).await;
    let kept = all.file(FIRST, homes[THIRD], "kept").await;
    all.rename(FIRST, (homes[THIRD], "kept"), (homes[SECOND], "kept"))
        .await
        .unwrap();
    let both = all.file(FIRST, homes[THIRD], "both").await;
    link(&all, FIRST, both, (homes[SECOND], "both")).await;
    settle(&all).await;
    all.kill(SECOND);
    let mut paths = Vec::new();
    let given_up = all.at(FIRST).give_up_home(slot(SECOND), |path| {
        paths.push(path);
    });
    given_up.await.unwrap();
    assert_eq!(paths, ["/at1"]);
    all.remove_second();
    settle(&all).await;
    let found = all.find(FIRST, ROOT, "lost+found.2").await.unwrap();
    let name = format!("file-{:x}", kept.as_u64());
    for at in [FIRST, THIRD] {
        assert_eq!(all.find(at, found, &name).await, Ok(kept));
        assert_eq!(all.names(at, found).await.len(), 1);
        assert_eq!(all.at(at).attributes(kept).await.unwrap().links, 1);
        assert_eq!(all.at(at).attributes(both).await.unwrap().links, 1);
    }
    // Found by its name, and in a listing.
    let gone = all.find(FIRST, homes[THIRD], "lost").await;
    assert_eq!(gone, Err(Error::NotFound));
    let left = all.names(FIRST, homes[THIRD]).await;
    assert_eq!(left, [(b"both".to_vec(), both)]);
    assert_eq!(all.store(THIRD).count_names(lost), Ok(0));
    all.remove(FIRST, homes[THIRD], "both").await.unwrap();
    all.remove(FIRST, ROOT, "at2").await.unwrap();
}
