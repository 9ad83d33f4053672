//! Messages that arrive while a replica stops.

use super::*;
use crate::membership::members::adopt_members;

/// Another thread loaded a list of members right after the replica had ended its tasks. The replica followed the members' streams again, and
/// nothing ended that any more: the store stayed in use as long as the process ran.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_members_that_arrives_while_a_replica_stops_keeps_nothing_in_use() {
    let mut set = Set::failing(2).await;
    let replica = set.sites[0].replica.local().clone();
    replica.stop();
    let list = replica.set.member_list().unwrap();
    adopt_members(&replica, list);
    drop(replica);
    set.crash(0).await;
}
