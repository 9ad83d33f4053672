//! What commands share that ask a running server: whose data directory it has, and something to wait in.
//!
//! What must never enter: questions and answers.

use std::path::PathBuf;

use anyhow::Context;
use server::Configuration;
use tokio::runtime::{Builder, Runtime};

/// The data directory that a command names, or else the usual one.
pub(crate) fn directory(data: &Option<PathBuf>) -> PathBuf {
    let data = data.clone();
    data.unwrap_or_else(|| Configuration::default().data)
}

/// A runtime of one thread.
///
/// # Errors
/// When the system gives none.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start")
}
