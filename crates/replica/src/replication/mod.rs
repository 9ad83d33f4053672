//! How copies become equal: what this replica sends of its own changes, and what it applies of others' changes.
//!
//! `streams` applies rows as records in order (`sending`: this replica's own, `cutting`: into messages, `line`: those that wait to be applied).
//! `contents` carries file contents separately (`offers`: contents that the peer may already have, `holes`: each as one piece), `base` a whole copy
//! (`taken`: how much of it is here). `conversing` says everything else to a peer. `withheld` and `settled` decide what is not sent or taken because
//! a replica is lost, `renewing` gives files new versions, `degraded` leaves the view when nothing can be stored, `unfit` tells why a message cannot
//! be applied. `progress` reports how far returning replicas are, `removed` keeps removed files that are open elsewhere, and `scrub` compares copies.
//!
//! What must never enter: which replicas take part, and what is done about lost replicas. Modules in here import from this folder and `frontend`,
//! `driver`, `state`.

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
