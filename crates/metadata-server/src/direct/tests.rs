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

#[test]
fn a_layout_serves_what_it_allows_and_the_clients_it_was_given_for() {
    let (direct, file) = (Direct::default(), ObjectId::from_u64(7));
    assert!(matches!(direct.find(file, false, 1), Err(true)));
    assert!(matches!(direct.find(file, false, 1), Err(false)), "asked");
    held(&direct, 7, 1, false);
    assert!(direct.find(file, false, 1).is_ok());
    assert!(direct.find(file, false, 2).is_err(), "other clients");
    assert!(matches!(direct.find(file, true, 1), Err(true)));
    held(&direct, 7, 2, true);
    assert!(direct.find(file, false, 1).is_ok());
    assert!(direct.find(file, true, 1).is_ok());
    direct.closed(file);
    assert!(direct.find(file, false, 1).is_err());
}

#[test]
fn recalls_of_other_holders_are_passed_on() {
    let (direct, file) = (Direct::default(), ObjectId::from_u64(7));
    held(&direct, 7, 1, false);
    assert!(!direct.hear(LayoutEvent::Recall(1)));
    assert!(!direct.hear(LayoutEvent::Recall(OF_OTHERS | ITSELF | 1)));
    assert!(direct.find(file, false, 1).is_ok());
    assert!(direct.hear(LayoutEvent::Recall(ITSELF | 1)));
    assert!(direct.find(file, false, 1).is_err());
    let other = ObjectId::from_u64(8);
    held(&direct, 8, 2, false);
    assert!(!direct.hear(LayoutEvent::DeviceGone([7; 16])));
    assert!(direct.find(other, false, 1).is_err());
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
    assert!(direct.find(file, true, 1).is_err());
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
    assert_eq!(direct.until_written(file).await, Ok(()));
    late.done();
    assert_eq!(direct.until_certain(file).await, Ok(()));
}
