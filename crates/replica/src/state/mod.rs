//! What a replica knows, and the words that replicas use: data, and what follows from it.
//!
//! `replica_state` is all of it in one struct, but for what lies below the core's lock.
//!
//! - Words: `settings` is what an administrator chose, `wire` and `forward` what replicas say to each other (`encoding`: as which bytes), `plausible` what of that can be, `time` the time of day.
//! - Of this replica: `ledger` is what lies below the lock of the core, with `ages`, `births`, `durability`, `majority` and `read_past`; `opens`
//!   are opens of clients here, `scrub` what was found to be damaged, `free_space` what may still be filled, `segments` messages of
//!   its stream that were made lately, `writers` who changed files last, `lock_listeners` who is told of locks, `repeats` what is told in the log of what fails again and again.
//! - Of the others: `members` is who is in the set, `lineage` what was met of every data directory, `views` what is known of
//!   taking part, `losses` who has how much of a lost replica's objects, `clients` who a server's clients are, and what servers ask of them.
//! - Of one peer: `peers` is one map of what lasts longer than a session, `arrivals` and `relays` of its stream, `conversations` of the session with it, `outbound` and `lists` wait to be said,
//!   `outcomes` of operations that it was handed, `nonsense` of what it sent that nobody sends, `copies` and `rejoins` of what brings it up to date, `removed` of files that it
//!   has open, `lag` if it lacks too much, `shipping`, `shipments` and `pace` of contents that it lacks.
//!
//! - Of neither: `locks` have an order in which they are taken.
//!
//! What must never enter: the core of replication control, and anything that waits for another replica. Modules in here
//! import from this folder only.

pub(crate) mod ages;
pub(crate) mod arrivals;
pub(crate) mod births;
pub(crate) mod clients;
pub(crate) mod conversations;
pub(crate) mod copies;
pub(crate) mod durability;
pub(crate) mod encoding;
pub(crate) mod forward;
pub(crate) mod free_space;
pub(crate) mod given_way;
pub(crate) mod lag;
pub(crate) mod ledger;
pub(crate) mod lineage;
pub(crate) mod lists;
pub(crate) mod load;
pub(crate) mod lock_listeners;
pub(crate) mod locks;
pub(crate) mod losses;
pub(crate) mod majority;
pub(crate) mod members;
pub(crate) mod nonsense;
pub(crate) mod opens;
pub(crate) mod outbound;
pub(crate) mod outcomes;
pub(crate) mod pace;
pub(crate) mod peers;
pub(crate) mod plausible;
pub(crate) mod questions;
pub(crate) mod read_past;
pub(crate) mod rejoins;
pub(crate) mod relays;
pub(crate) mod removed;
pub(crate) mod repeats;
pub(crate) mod replica_state;
pub(crate) mod scrub;
pub(crate) mod segments;
pub(crate) mod settings;
pub(crate) mod shipments;
pub(crate) mod shipping;
pub(crate) mod time;
pub(crate) mod told;
pub(crate) mod views;
pub(crate) mod wire;
pub(crate) mod writers;
