//! Sets of replicas in one process: real stores on disk, real connections.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

mod clocks;
mod copies;
mod cut_off;
mod holders;
mod left_behind;
mod locks;
mod losses;
mod membership;
mod previous;
mod random_work;
mod read_past;
mod recovered;
mod refusals;
mod rejoining;
mod relaxed_names;
mod removed;
mod replacing;
mod resting;
mod rolled_back;
mod scrub;
mod sharing;
mod shipped_once;
mod signed_lists;
mod slow_link;
mod space;
mod storms;
mod torn;
mod unanswered;
mod verifier;
mod witness;
