//! How copies become equal: what this replica sends of its own changes, and what it takes in of others'.
//!
//! `streams` applies rows as records in order (`sending`: those of our own, `cutting`: as messages; `line`: those that wait to be applied), `contents` carries what files hold beside them
//! (`offers`: what may be there already, `holes`: as one piece however long), `base` a whole copy (`taken`: how much of it is here); `conversing` is what else
//! is said to a peer. `withheld` and `settled` say what is not sent or taken because a replica is lost, `renewing` gives files new
//! versions, `degraded` leaves the view when nothing can be stored, `unfit` is why what came cannot be applied. `progress` says how far those are who are on their way back,
//! `removed` keeps removed files that are open elsewhere, and `scrub` compares copies.
//!
//! What must never enter: who takes part, and what is done about the lost. Modules in here import from this folder and
//! `frontend`, `driver`, `state`.

pub(crate) mod base;
pub(crate) mod contents;
pub(crate) mod conversing;
mod cutting;
pub(crate) mod degraded;
mod holes;
mod line;
mod offers;
pub(crate) mod progress;
pub(crate) mod removed;
pub(crate) mod renewing;
pub(crate) mod scrub;
pub(crate) mod sending;
pub(crate) mod settled;
pub(crate) mod streams;
mod taken;
mod unfit;
pub(crate) mod withheld;
