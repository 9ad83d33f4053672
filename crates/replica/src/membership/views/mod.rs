//! Taking part: which view is in force here, and whether this replica may answer.
//!
//! Views are agreed by the crate `view`; here they take effect. `configuring` tells it of new
//! members; `seam` gives it connections and
//! storage, `following` enters agreed views, `promises` keeps the site lease, `leaving` has those leave who are silent,
//! `entering` brings those who take part anew up to date, `returning` gets this replica back into the view, and `missed`
//! finds out what was decided without it.
//!
//! What must never enter: the rules of replication control, and what is done about a lost replica's objects.

mod configuring;
mod entering;
mod following;
mod leaving;
mod missed;
mod promises;
mod returning;
mod seam;

pub(crate) use configuring::{configure, note_current};
pub(crate) use entering::{caught_up, entered, say_entered, waits_for_copy};
pub(crate) use following::{begin, follow, notice_end};
pub(crate) use leaving::{silent, watch};
pub(crate) use missed::go_through;
pub(crate) use promises::{asked, keep, promised};
pub(crate) use returning::{absent, come_back, needs_copy_anew, too_far};
pub(crate) use seam::{Facts, answer, has_known_a_view};
