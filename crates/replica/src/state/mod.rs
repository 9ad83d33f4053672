//! What a replica knows, and the words that replicas use: data, and what follows from it.
//!
//! `replica_state` is all of it in one struct, except what the core's lock protects.
//!
//! - Words: `settings` is what an administrator chose, `wire` and `forward` what replicas say to each other (`encoding`: as bytes), `plausible`
//!   checks such messages, `time` is the time of day.
//! - Of this replica: `ledger` is what the lock of the core protects, with `ages`, `births`, `durability`, `majority` and `read_past`. `opens` are
//!   opens of clients here, `scrub` the damage found, `free_space` what may still be written, `segments` recent messages of this replica's stream,
//!   `writers` the last writers of files, `lock_listeners` the listeners for locks, `repeats` limits the log.
//! - Of the others: `members` are the members of the set, `lineage` what is known of the past of every data directory, `views` what is known of
//!   taking part, `losses` which replica has how much of a lost replica's data, `clients` the clients of servers.
//! - Of one peer: `peers` is one map of what lasts longer than a session. `arrivals` and `relays` belong to the peer's stream, `conversations` to the
//!   session, `outbound` and `lists` to messages that wait, `outcomes` to operations that it was handed, `nonsense` to its invalid messages, `copies`
//!   and `rejoins` to bringing it up to date, `removed` to files that it has open, `lag` to a lack of too much, `shipping`, `shipments` and `pace` to
//!   contents that it lacks.
//! - Of neither: `locks` have an order in which they are taken.
//!
//! What must never enter: the core of replication control, and anything that waits for another replica. Modules in here import from this folder only.

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
pub(crate) mod interest;
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
