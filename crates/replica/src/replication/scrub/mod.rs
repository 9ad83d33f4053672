//! The scrub: in the background each replica compares its copy with the others, finds what the disk has changed, and restores it from a good copy
//! (rule 34).
//!
//! `walk` goes through the tree, `rows` and `contents` compare, `mending` restores contents, `asking` asks other replicas, and `answers` answers
//! them. Objects that are being changed are skipped; the next run checks them again.
//!
//! What must never enter: how digests are made (the store knows), and which replicas are in the set.

mod answers;
mod asking;
mod contents;
mod mending;
mod rows;
mod walk;

pub(crate) use answers::answer;
pub(crate) use contents::look_at_suspects;
pub(crate) use mending::mend;
pub(crate) use walk::{Progress, keep};
