//! Random operations on the store and on a simple model of it: the same answers, the same tree, and
//! new versions exactly where something changed.

mod compare;
mod contents;
mod listing;
mod names;
mod pair;
mod steps;

use pair::Pair;
use proptest::prelude::*;
use steps::steps;
use store::CommitMode;

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn the_store_does_what_the_model_does(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let modes = [CommitMode::Sync, CommitMode::Async];
            let mut pair = Pair::new(modes[steps.len() % 2]).await;
            for step in steps {
                pair.step(step).await;
            }
            pair.compare().await;
        });
    }
}
