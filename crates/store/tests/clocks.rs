//! Times of objects when the clocks of replicas differ: times never go back, and a later change has a later time.

use crate::fixture::Fixture;
use crate::fixture::pair::apply;
use store::ForeignUpdate;
use vfs::{Attributes, FileSystem, ObjectId, SetAttributes, SetTime, Timestamp};

const ROOT: ObjectId = ObjectId::ROOT;
const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// Two replicas; the clock of the first one is ahead by this many seconds.
async fn apart(seconds: i64) -> (Fixture, Fixture) {
    let fast = Fixture::hooked();
    let mut slow = Fixture::beside(&fast);
    slow.hook();
    for site in [&fast, &slow] {
        site.store().end_reclaim().await.unwrap();
    }
    fast.clock.advance(seconds);
    (fast, slow)
}

/// Applies all new updates of one store at the other.
async fn follow(from: &Fixture, to: &Fixture) {
    let slot = from.store().slot();
    let next = to.store().applied(slot).unwrap() + 1;
    for record in from.store().updates(next, 1000).unwrap() {
        let update = ForeignUpdate {
            from: slot,
            position: record.position,
            changes: record.changes,
            incomplete: Vec::new(),
        };
        apply(to.store(), update, &mut Vec::new()).await.unwrap();
    }
}

fn assert_later(after: &Attributes, before: &Attributes) {
    assert!(after.modified > before.modified, "{before:?} {after:?}");
    assert!(after.changed > before.changed, "{before:?} {after:?}");
}

/// With servers an hour apart, mtime and ctime of a file went back when the other site wrote next.
#[tokio::test]
async fn times_do_not_go_back_when_sites_write_in_turn() {
    let (fast, slow) = apart(HOUR).await;
    let file = fast.file(ROOT, "f").await;
    follow(&fast, &slow).await;
    for round in 0..4_u8 {
        for (writer, reader) in [(&slow, &fast), (&fast, &slow)] {
            let (file_before, root_before) =
                (writer.attributes(file).await, writer.attributes(ROOT).await);
            writer.write(file, 0, &[round]).await.unwrap();
            let name = format!("{} {round}", writer.store().slot().0);
            let made = writer.file(ROOT, &name).await;
            let (file_after, root_after) =
                (writer.attributes(file).await, writer.attributes(ROOT).await);
            assert_later(&file_after, &file_before);
            assert_later(&root_after, &root_before);
            let made = writer.attributes(made).await;
            assert!(made.created > root_before.changed && made.modified > root_before.modified);
            follow(writer, reader).await;
            assert_eq!(reader.attributes(file).await.modified, file_after.modified);
        }
    }
    slow.read(file, 0, 1).await.unwrap();
    let read = slow.attributes(file).await;
    assert!(read.accessed > read.modified);
}

/// `make` considered an edited source older than the object that the other site had built from it.
#[tokio::test]
async fn an_edited_source_is_newer_than_what_another_site_has_made_of_it() {
    let (fast, mut slow) = apart(HOUR).await;
    let source = slow.file(ROOT, "program.c").await;
    follow(&slow, &fast).await;
    let object = fast.file(ROOT, "program.o").await;
    fast.clock.advance(1);
    // In place: the directory does not change.
    fast.write(object, 0, b"made").await.unwrap();
    follow(&fast, &slow).await;
    slow.write(source, 0, b"edited").await.unwrap();
    let made = slow.attributes(object).await.modified;
    assert!(slow.attributes(source).await.modified > made);
    // The same after a restart, and for times that a client lets the server choose.
    slow.reopen().await;
    let touched = slow.file(ROOT, "touched").await;
    let now = SetAttributes {
        modified: Some(SetTime::Now),
        ..SetAttributes::default()
    };
    slow.set(touched, &now).await.unwrap();
    assert!(slow.attributes(touched).await.modified > made);
}

/// Only changes of other servers counted: after a server's clock was set back, edited files were older than files it had made before.
#[tokio::test]
async fn what_is_changed_after_a_clock_is_set_back_is_newer_than_all_that_was_changed_before() {
    let mut site = Fixture::hooked();
    site.store().end_reclaim().await.unwrap();
    let source = site.file(ROOT, "program.c").await;
    site.clock.advance(1);
    let object = site.file(ROOT, "program.o").await;
    site.clock.advance(-HOUR);
    let made = site.attributes(object).await;
    site.write(source, 0, b"edited").await.unwrap();
    assert_later(&site.attributes(source).await, &made);
    let edited = site.attributes(source).await;
    site.reopen().await;
    let other = site.file(ROOT, "other").await;
    assert_later(&site.attributes(other).await, &edited);
}

#[tokio::test]
async fn a_time_that_a_client_sets_stays_as_asked_and_the_time_of_change_advances() {
    let (fast, slow) = apart(HOUR).await;
    let file = fast.file(ROOT, "f").await;
    follow(&fast, &slow).await;
    let before = slow.attributes(file).await;
    let past = Timestamp {
        seconds: 12,
        nanoseconds: 34,
    };
    let set = SetAttributes {
        modified: Some(SetTime::To(past)),
        accessed: Some(SetTime::To(past)),
        ..SetAttributes::default()
    };
    let after = slow.set(file, &set).await.unwrap();
    assert_eq!((after.modified, after.accessed), (past, past));
    assert!(after.changed > before.changed);
    slow.write(file, 0, b"x").await.unwrap();
    assert!(slow.attributes(file).await.modified > before.modified);
}

#[tokio::test]
async fn a_clock_that_is_wrong_by_more_than_a_day_is_not_followed() {
    let (fast, slow) = apart(3 * DAY).await;
    let file = fast.file(ROOT, "f").await;
    follow(&fast, &slow).await;
    slow.write(file, 0, b"x").await.unwrap();
    let other = slow.file(ROOT, "g").await;
    let right = 1_000_000;
    assert_eq!(slow.attributes(file).await.modified.seconds, right);
    assert_eq!(slow.attributes(other).await.modified.seconds, right);
}
