//! Who takes part: members, sessions between them, views, and what becomes of the lost.
//!
//! `views` follows what the set agrees on, `losses` brings a lost replica's objects to an end, `sessions` begins and ends
//! conversations, `greetings` goes on with them by what each says of itself. `meeting` judges
//! whether a peer's data directory goes on from where it was met, `members` and `accounts` say whom this replica talks to and what is kept for
//! each, `links` how far each is behind, `authorisation` who may say what, `authority` who signs the list.
//!
//! What must never enter: how an answer to a client, a record or a piece of contents is made. Modules in here import from all
//! other folders.

pub(crate) mod accounts;
pub(crate) mod authorisation;
pub(crate) mod authority;
pub(crate) mod greetings;
pub(crate) mod links;
pub(crate) mod losses;
pub(crate) mod meeting;
pub(crate) mod members;
pub(crate) mod sessions;
pub(crate) mod views;
