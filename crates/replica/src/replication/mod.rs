//! How copies become equal: what this replica sends of its own changes, and what it takes in of others'.
//!
//! `streams` carries rows as records in order, `contents` what files hold beside them, `base` a whole copy. `progress` says how
//! far those are who are on their way back, `removed` keeps removed files that are open elsewhere, and `scrub` compares copies.
//!
//! What must never enter: who takes part, and what is done about the lost. Modules in here import from this folder and
//! `frontend`, `driver`, `state`.

pub(crate) mod base;
pub(crate) mod contents;
pub(crate) mod progress;
pub(crate) mod removed;
pub(crate) mod scrub;
pub(crate) mod streams;
