//! Requested contents count as lacking, even if the request arrives later than the report that everything else is there.

use super::renounced::Withholding;
use super::supplied::hold_back;
use super::*;
use crate::state::settings::Durability;
use crate::state::wire::Wanted;

/// For this long a forbidden answer must not come.
const SILENCE: Duration = Duration::from_secs(3);

/// Of three replicas only the third has what the first wrote, and it restarts. It reports that it holds everything and has requested that file.
/// The request waits in its lane meanwhile. Until it has arrived and is met, the third does not count as a majority with the first.
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
    // What it said in its earlier session may still count until then.
    eventually("its word counts", || {
        let conversations = &replica.local().state.conversations;
        conversations.with(ReplicaSlot(3), |one| one.wished) == Some(1)
    })
    .await;
    // Its account is examined right after that.
    tokio::time::sleep(SILENCE / 3).await;
    let mut answered = tokio::spawn(async move { files.commit(file, 0, 0).await });
    let early = tokio::time::timeout(SILENCE, &mut answered).await;
    assert!(early.is_err(), "nobody else may have it: {early:?}");
    let wanted = Wanted {
        copy: false,
        applied,
        files: vec![file],
        first: true,
        last: true,
        named: 1,
        turn: 0,
        places: Vec::new(),
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

/// The first of three replicas learned of the third's place only after the third had greeted it. So it told no replica that it lacks nothing.
/// For the third it counted as lacking something for ever, and the third never gave up what it kept for it.
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
