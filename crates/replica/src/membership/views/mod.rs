//! Taking part: which view is in force here, and whether this replica may answer.
//!
//! The crate `view` agrees on views; here they take effect. `configuring` tells it of new members; `seam` gives it connections and storage.
//! `following` enters agreed views, `leases` keeps the site lease, `exclude` excludes silent members. `join` brings members that take part again
//! up to date, `rejoin` gets this replica back into the view, with contents by `supply`, and `missed` finds out what was decided without it.
//!
//! What must never enter: the rules of replication control, and what is done about a lost replica's objects.

mod configuring;
mod exclude;
mod following;
mod join;
mod leases;
mod missed;
mod rejoin;
mod seam;
mod supply;

pub(crate) use configuring::{configure, leaves_something, note_current};
pub(crate) use exclude::watch;
pub(crate) use following::{begin, follow, notice_end};
pub(crate) use join::{caught_up, joined, say_joined, waits_for_copy};
pub(crate) use leases::{keep, lease_granted, lease_requested};
pub(crate) use missed::{go_through, lacks_what_others_had};
pub(crate) use rejoin::{absent, come_back, needs_copy_anew, too_far};
pub(crate) use seam::{Facts, answer, has_known_a_view};
