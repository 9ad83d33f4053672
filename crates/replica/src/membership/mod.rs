//! Membership: members, sessions between them, views, and what becomes of lost replicas.
//!
//! `views` follows what the set agrees on, `losses` brings a lost replica's objects to an end. `sessions` begins and ends conversations,
//! `greetings` continues them with what each peer reports about itself. `meeting` judges whether a peer's data directory continues from where it
//! was met. `members` and `accounts` say which replicas this one talks to and what is kept for each, `links` how far each is behind.
//! `authorisation` says which sender may say what, `authority` which member signs the list.
//!
//! What must never enter: how an answer to a client, a record or a piece of contents is made. Modules in here import from all other folders.

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
