//! What a replica knows, and the words that replicas use: data, and what follows from it.
//!
//! `settings` is what an administrator chose, `wire` and `forward` what replicas say to each other, `members` who is in the
//! set, `lineage` what was met of every data directory. `arrivals`, `post`, `outcomes`, `copies`, `shipments` and `pace` keep
//! account of one peer or of all, `shipping` of the contents that they lack; `births`, `opens` and `majority` of files here.
//!
//! What must never enter: the core of replication control, and anything that waits for another replica. Modules in here
//! import from this folder only.

pub(crate) mod arrivals;
pub(crate) mod births;
pub(crate) mod copies;
pub(crate) mod forward;
pub(crate) mod lineage;
pub(crate) mod majority;
pub(crate) mod members;
pub(crate) mod opens;
pub(crate) mod outcomes;
pub(crate) mod pace;
pub(crate) mod post;
pub(crate) mod settings;
pub(crate) mod shipments;
pub(crate) mod shipping;
pub(crate) mod time;
pub(crate) mod wire;
