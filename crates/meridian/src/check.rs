//! `meridian check`: verifies a data directory.
//!
//! What must never enter: what is verified.
