//! The NFS service over a real store: whole COMPOUNDs, and what is answered.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

mod conformance_callbacks;
mod conformance_compound;
mod conformance_data;
mod conformance_forgetting;
mod conformance_layouts;
mod conformance_locks;
mod conformance_newcomers;
mod conformance_opens;
mod conformance_reclaim;
mod conformance_restart;
mod conformance_sessions;
mod conformance_too_many;
mod distant_file_system;
mod gone_while_under_way;
mod ops_access;
mod ops_attributes;
mod ops_filehandles;
mod ops_names;
mod ops_places;
mod ops_pseudo;
mod ops_readdir;
mod ops_verify;
mod ops_xattrs;
mod rights;
