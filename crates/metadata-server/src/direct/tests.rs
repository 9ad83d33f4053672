//! Which layout serves a request, and what waits for what.

use std::sync::Weak;

use super::*;

fn held(direct: &Direct, file: u64, holder: u64, writing: bool) -> Arc<Held> {
    let held = Arc::new(Held {
        tree: Weak::new(),
        file: ObjectId::from_u64(file),
        holder: ITSELF | holder,
        writing,
        clients: 1,
        layout: Layout {
            device: [7; 16],
            stripe_unit: 65536,
            first_index: 0,
            handles: Vec::new(),
        },
        device: Device::default(),
        is_ended: OnceLock::new(),
    });
    direct.keep(&held);
    held
}

fn finds(direct: &Direct, file: ObjectId, writing: bool, clients: u64) -> bool {
    matches!(direct.find(file, writing, clients), Found::Held(_))
}

#[test]
fn a_layout_serves_what_it_allows_and_the_clients_it_was_given_for() {
    let (direct, file) = (Direct::default(), ObjectId::from_u64(7));
    assert!(matches!(direct.find(file, false, 1), Found::None));
    assert!(matches!(direct.find(file, false, 1), Found::NotNow));
    held(&direct, 7, 1, false);
    assert!(finds(&direct, file, false, 1));
    assert!(!finds(&direct, file, false, 2), "other clients");
    assert!(matches!(direct.find(file, true, 1), Found::None));
    assert!(matches!(direct.find(file, true, 1), Found::Asked));
    held(&direct, 7, 2, true);
    direct.is_answered(file);
    assert!(finds(&direct, file, false, 1));
    assert!(finds(&direct, file, true, 1));
    direct.closed(file);
    assert!(!finds(&direct, file, false, 1));
}

#[tokio::test(start_paused = true)]
async fn while_a_layout_for_writing_is_asked_for_no_write_begins_through_the_home() {
    let (direct, file) = (Direct::default(), ObjectId::from_u64(7));
    let earlier = direct.through_home(file).await.unwrap();
    assert!(matches!(direct.find(file, true, 1), Found::None));
    let mut none = Box::pin(direct.until_none_through_home(file));
    let soon = Duration::from_millis(10);
    assert!(tokio::time::timeout(soon, &mut none).await.is_err());
    let mut later = Box::pin(direct.through_home(file));
    assert!(tokio::time::timeout(soon, &mut later).await.is_err());
    drop(earlier);
    assert!(tokio::time::timeout(soon, none).await.is_ok());
    direct.is_answered(file);
    assert!(tokio::time::timeout(soon, later).await.is_ok());
}

#[test]
fn recalls_of_other_holders_are_passed_on() {
    let (direct, file) = (Direct::default(), ObjectId::from_u64(7));
    held(&direct, 7, 1, false);
    assert!(!direct.hear(LayoutEvent::Recall(1)));
    assert!(!direct.hear(LayoutEvent::Recall(OF_OTHERS | ITSELF | 1)));
    assert!(finds(&direct, file, false, 1));
    assert!(direct.hear(LayoutEvent::Recall(ITSELF | 1)));
    assert!(!finds(&direct, file, false, 1));
    let other = ObjectId::from_u64(8);
    held(&direct, 8, 2, false);
    assert!(!direct.hear(LayoutEvent::DeviceGone([7; 16])));
    assert!(!finds(&direct, other, false, 1));
}

#[tokio::test(start_paused = true)]
async fn after_a_write_of_unknown_outcome_all_wait_for_the_fence() {
    let (direct, file) = (Direct::default(), ObjectId::from_u64(7));
    let first = held(&direct, 7, 1, true);
    direct.begin(&first).unwrap().done();
    assert_eq!(direct.until_written(file).await, Ok(()));
    let (one, other) = (direct.begin(&first).unwrap(), direct.begin(&first).unwrap());
    drop(one);
    assert!(direct.begin(&first).is_none(), "it is being fenced");
    assert!(!finds(&direct, file, true, 1));
    assert_eq!(direct.until_certain(file).await, Err(Error::Delay));
    assert_eq!(direct.until_written(file).await, Err(Error::Delay));
    let elsewhere = ObjectId::from_u64(8);
    assert_eq!(direct.until_written(elsewhere).await, Ok(()));
    // The second one fails, too, and waits for the same fence.
    drop(other);
    direct.has_ended(file);
    assert_eq!(direct.until_written(file).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_layout_under_which_a_write_takes_long_is_fenced_before_a_client_gives_up_a_lock() {
    let (direct, file) = (Direct::default(), ObjectId::from_u64(7));
    let first = held(&direct, 7, 1, true);
    let late = direct.begin(&first).unwrap();
    // It was recalled meanwhile.
    direct.hear(LayoutEvent::Recall(ITSELF | 1));
    assert_eq!(direct.until_certain(file).await, Ok(()));
    assert_eq!(direct.until_written(file).await, Err(Error::Delay));
    direct.has_ended(file);
    assert_eq!(direct.until_written(file).await, Ok(()), "it is fenced");
    late.done();
    assert_eq!(direct.until_certain(file).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_gives_up_a_lock_waits_for_no_later_write() {
    let (direct, file) = (Direct::default(), ObjectId::from_u64(7));
    let layout = held(&direct, 7, 1, true);
    let earlier = direct.begin(&layout).unwrap();
    let mut written = Box::pin(direct.until_written(file));
    let soon = Duration::from_millis(10);
    assert!(tokio::time::timeout(soon, &mut written).await.is_err());
    let later = direct.begin(&layout).unwrap();
    earlier.done();
    assert_eq!(tokio::time::timeout(soon, written).await, Ok(Ok(())));
    later.done();
}
