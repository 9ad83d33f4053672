//! Taking part: which view is in force here, and whether this replica may answer.
//!
//! Views are agreed by the crate `view`; here they take effect. `configuring` tells it of new
//! members; `seam` gives it connections and
//! storage, `following` enters agreed views, `promises` keeps the site lease, `leaving` has those leave who are silent,
//! `entering` brings those who take part anew up to date, `returning` gets this replica back into the view, `missed`
//! finds out what was decided without it, and `degraded` takes it out when it cannot store what others have changed.
//!
//! What must never enter: the rules of replication control, and what is done about a lost replica's objects.

mod configuring;
mod degraded;
mod entering;
mod following;
mod leaving;
mod missed;
mod promises;
mod returning;
mod seam;

pub(crate) use configuring::{configure, note_current};
pub(crate) use degraded::{Attempts, degraded};
pub(crate) use entering::{Arrival, Debt, caught_up, entered, exempt, say_entered, waits_for_copy};
pub(crate) use following::{begin, follow, notice_end};
pub(crate) use leaving::{exclude, is_cut_off, silent, watch};
pub(crate) use missed::{go_through, note_known};
pub(crate) use promises::{News, asked, keep, promised};
pub(crate) use returning::{
    Fit, absent, come_back, forget_others_went_on, may_follow, needs_copy_anew,
    remember_others_went_on, settlements, take_copy_anew, too_far,
};
pub(crate) use seam::{Facts, answer, has_known_a_view};
