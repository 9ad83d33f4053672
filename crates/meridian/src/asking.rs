//! What commands share that ask a running server: whose data directory it has, and something to wait in.
//!
//! What must never enter: questions and answers.

use std::path::PathBuf;

use anyhow::Context;
use server::Configuration;
use tokio::runtime::{Builder, Runtime};

use crate::progress::Progress;

/// The data directory that a command names, or else the usual one.
pub(crate) fn directory(data: &Option<PathBuf>) -> PathBuf {
    let data = data.clone();
    data.unwrap_or_else(|| Configuration::default().data)
}

/// Waits for what a running server answers, which may take a while.
///
/// # Errors
/// When the system gives no runtime to wait in.
pub(crate) fn answer<T>(asked: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = runtime()?;
    let _progress = Progress::of("waiting for an answer");
    Ok(runtime.block_on(asked))
}

/// A runtime of one thread.
///
/// # Errors
/// When the system gives none.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start")
}
