//! Stories with real Linux clients at three sites far apart, each of which mounts the server of its own site.
//! The servers are one set; between them lies a WAN whose delay, bandwidth and cuts the stories decide.
//!
//! As with the stories of one server, this binary is also the program that runs inside the guests. The stories
//! share worlds, because to boot one takes as long as a story; each works in a folder of its own, and one that
//! fails takes its world with it.
//!
//! What must never enter: judgements about speed, and what one server alone can show.

#[path = "../kernel/hands.rs"]
mod hands;
#[path = "../kernel/inside/mod.rs"]
mod inside;
#[path = "../kernel/runner.rs"]
mod runner;
mod scene;

mod coherence;
mod failover;
mod large;
mod locks;
mod member_pool;
mod metadata_servers;
mod names;
mod outage;
mod pool;
mod pool_trouble;
mod programs;
mod removed;
mod renames;
mod together;
mod trees;
mod witness;

use std::process::ExitCode;

use runner::{Story, stories};
use testbed::Requirements;

/// Two worlds are six guests and six servers.
const AT_ONCE: usize = 2;

/// Every story, in the order of telling. Those of `failover` and `outage` end their world, and the last ten have worlds of their own.
const STORIES: &[(&str, Story)] = stories![
    coherence::what_is_made_at_one_site_is_there_at_every_other,
    coherence::what_is_closed_at_one_site_opens_at_every_other_whatever_the_distance,
    together::lines_appended_under_a_lock_at_three_sites_are_all_there,
    together::files_made_in_one_directory_at_three_sites_are_all_there,
    locks::a_lock_taken_at_one_site_blocks_the_others_until_it_is_given_back,
    locks::the_lock_of_a_process_killed_at_one_site_is_free_at_the_others,
    renames::a_directory_moves_while_another_site_writes_below,
    removed::what_one_site_removes_or_replaces_stays_open_at_the_others,
    large::a_large_file_on_a_slow_link_delays_no_directory,
    trees::a_tree_unpacked_at_one_site_is_read_and_built_at_the_others_meanwhile,
    programs::git_commits_and_collects_garbage_at_three_sites,
    programs::sqlite_counts_at_two_sites,
    programs::rsync_finds_at_one_site_what_it_copied_at_another,
    failover::a_client_of_a_killed_server_goes_on_at_another_one,
    failover::a_client_goes_on_with_files_that_its_killed_server_decided_about,
    failover::clients_of_a_drained_server_go_on_at_another_one,
    outage::work_goes_on_when_a_cut_link_heals_and_all_copies_are_equal,
    witness::two_sites_and_a_witness_lose_a_server_and_no_answered_write,
    names::one_path_leads_everywhere_to_the_nearest_server,
    names::a_domain_that_expired_comes_back_from_a_server_that_is_left,
    pool::linux_reads_and_writes_at_the_data_servers_of_a_pool_and_loses_nothing_when_servers_die,
    pool::linux_reads_and_writes_at_the_data_servers_through_a_second_metadata_server,
    pool_trouble::linux_is_told_that_a_data_server_is_full_and_works_when_it_is_not,
    pool_trouble::a_linux_client_that_cannot_return_its_layout_reads_nothing_old_when_it_is_back,
    member_pool::linux_reads_at_the_data_servers_of_a_member_and_nothing_old_when_that_is_cut_off,
    metadata_servers::linux_locks_at_two_metadata_servers_and_keeps_its_locks_when_either_is_killed,
    metadata_servers::linux_works_in_a_directory_of_the_second_metadata_server,
    metadata_servers::linux_lists_at_a_second_metadata_server_without_a_message_and_sees_each_change,
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("inside") => inside::main(words.collect()),
        _ => {
            let outcome = runner::run(
                STORIES,
                Requirements::guest()
                    .with_wan()
                    .with_programs()
                    .with_names()
                    .with_ganesha(),
                AT_ONCE,
            );
            scene::end();
            outcome
        }
    }
}
