//! Stories with the real Linux NFS client: a User Mode Linux kernel mounts what `meridian serve`
//! exports, and programs work on it as they would on any disk.
//!
//! The same binary has two parts to play. Started by `cargo test` it tells the stories on the host. Started inside a guest as
//! `kernel inside PROGRAM ...` it is the program that works on the mounted files: one native
//! program instead of shell loops, since a fork costs a guest 30 ms.
//!
//! What must never enter: judgements about speed, and anything that a test without a kernel can show
//! as well.

mod hands;
mod inside;
mod runner;
mod scene;

mod clients;
mod coherence;
mod directories;
mod exports;
mod files;
mod locks;
mod permissions;
mod reconnect;
mod restart;
mod space;
mod trees;

use std::process::ExitCode;

use runner::{Story, stories};
use testbed::Requirements;

/// A guest takes a core while it works, and works a quarter of the time.
const AT_ONCE: usize = 3;

/// Every story, in the order of telling: what is simple and broken should be seen first.
const STORIES: &[(&str, Story)] = stories![
    trees::a_source_tree_is_unpacked_read_back_and_removed,
    trees::programs_run_from_the_mount_and_map_their_files,
    files::names_modes_and_data_behave_as_on_a_disk,
    files::holes_and_extended_attributes_work_over_minor_version_2,
    files::random_changes_agree_with_a_model_across_crashes,
    files::file_systems_tell_their_size,
    permissions::modes_and_groups_decide_who_may_do_what,
    permissions::sticky_and_set_group_id_directories_work,
    exports::clients_by_address_are_refused_read_only_or_squashed,
    exports::two_exports_share_one_name_space,
    directories::a_listing_shows_every_steady_entry_once_while_others_change_the_directory,
    locks::byte_ranges_conflict_split_and_merge_between_guests,
    locks::a_waiting_client_is_told_when_the_lock_is_free,
    locks::counting_under_a_lock_loses_no_step,
    locks::the_locks_of_a_killed_process_are_free,
    coherence::what_was_closed_is_seen_by_the_next_open,
    coherence::exclusive_creation_has_one_winner,
    coherence::a_name_that_is_renamed_over_never_disappears,
    clients::the_locks_of_a_dead_client_stand_until_its_lease_ends,
    clients::a_name_in_use_is_given_to_no_other_address_before_its_lease_ends,
    clients::a_client_without_a_cable_loses_its_lock_and_learns_it,
    clients::a_lock_that_was_lost_cannot_be_reclaimed_after_a_restart,
    restart::synchronous_data_survives_kill_9_and_work_goes_on,
    restart::data_on_its_way_is_sent_again_after_a_crash,
    restart::locks_are_reclaimed_and_nobody_steals_them,
    restart::open_files_stay_usable_across_restarts,
    restart::names_change_exactly_once_across_orderly_restarts,
    restart::names_change_exactly_once_across_crashes,
    restart::crashes_lose_nothing_with_asynchronous_commits_either,
    reconnect::names_change_exactly_once_across_pulled_cables,
    space::a_full_disk_is_told_and_removal_helps,
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("inside") => inside::main(words.collect()),
        _ => runner::run(STORIES, Requirements::guest(), AT_ONCE),
    }
}
