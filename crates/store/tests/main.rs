//! Tests of one store through its public interface.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

mod attributes;
mod base;
mod clocks;
mod closing;
mod commit_hook;
mod data;
mod elsewhere;
mod few_files;
mod followed;
mod following;
mod full_disk;
mod held;
mod incomplete;
mod kept_writes;
mod listening;
mod listing;
mod model;
mod moved;
mod namespace;
mod opens;
mod recording;
mod recovered;
mod requests;
mod resync;
mod resync_killed;
mod rot;
mod scrub;
mod small_disks;
mod stress;
mod sums;
mod torn;
mod xattrs;
