//! What is asked for is lacking, though it is said later than that all else is there.

use super::renounced::Withholding;
use super::supplied::hold_back;
use super::*;
use crate::state::settings::Durability;
use crate::state::wire::Wanted;

/// So long nothing is answered that must not be.
const SILENCE: Duration = Duration::from_secs(3);

/// Of three the third alone has got what the first wrote, and is started anew. It says that it holds everything, and has asked for that file. The wish
/// waits in its lane meanwhile, and the third is no majority with the first before it has come, and been met.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_70_who_has_asked_for_contents_lacks_them_before_that_is_heard() {
    let mut set = Set::failing_with(3, |settings| settings.suspicion = 10 * PATIENCE).await;
    let majority = Some(Durability::Majority);
    let replica = set.sites[0].replica.clone();
    replica.set_durability(ROOT, majority).await.unwrap();
    set.rest().await;
    hold_back(set.sites[0].replica.local(), 2, PATIENCE);
    let file = set.sites[0].save(ROOT, "file", b"bytes").await.unwrap();
    let files = set.sites[0].files.clone();
    files.commit(file, 0, 0).await.unwrap();
    let third = set.crash(2).await;
    let site = &set.sites[0];
    let applied = *site.store.stable_position().borrow();
    let asks = Withholding::wishing(&third, site, (applied, 1)).await;
    eventually("its word counts", || {
        let held = replica.local().state.conversations.held(ReplicaSlot(3));
        held.is_some()
    })
    .await;
    let mut answered = tokio::spawn(async move { files.commit(file, 0, 0).await });
    let early = tokio::time::timeout(SILENCE, &mut answered).await;
    assert!(early.is_err(), "nobody else may have it");
    let wanted = Wanted {
        copy: false,
        applied,
        files: vec![file],
        last: true,
        named: 1,
        turn: 0,
    };
    let wanted = wire::body(Kind::Wanted, &wanted);
    asks.session.send(Lane::Metadata, wanted).await.unwrap();
    eventually("it lacks the file", || {
        let peers = replica.status().peers;
        peers
            .iter()
            .any(|peer| peer.slot == 3 && peer.lag_files > 0)
    })
    .await;
    assert!(!answered.is_finished());
    answered.abort();
    asks.leave();
}

/// The first of three knew the place of the third later than the third had greeted it. That it lacks nothing it said to nobody, and counted for the
/// third as lacking something for ever, so that what the third kept for it was never given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_72_who_has_missed_the_first_word_says_what_it_asks_for_too() {
    let mut set = Set::failing_with(3, |settings| settings.suspicion = 10 * PATIENCE).await;
    let third = set.crash(2).await;
    let site = &set.sites[0];
    let applied = *site.store.stable_position().borrow();
    let mut greets = Withholding::greeting(&third, site, (applied, 0), false).await;
    greets.until_asked_for(0).await;
    greets.leave();
}
