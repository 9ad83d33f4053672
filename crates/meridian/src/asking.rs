//! Shared by commands that ask a running server: the data directory, and a runtime to wait in.
//!
//! What must never enter: questions and answers.

use std::path::PathBuf;

use anyhow::Context;
use server::Configuration;
use tokio::runtime::{Builder, Runtime};

use crate::progress::Progress;

/// The data directory on the command line, or the default one.
pub(crate) fn directory(data: &Option<PathBuf>) -> PathBuf {
    let data = data.clone();
    data.unwrap_or_else(|| Configuration::default().data)
}

/// Waits for the answer of a running server, which may take a while.
///
/// # Errors
/// When the system cannot create a runtime.
pub(crate) fn answer<T>(asked: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = runtime()?;
    let _progress = Progress::of("waiting for an answer");
    Ok(runtime.block_on(asked))
}

/// A runtime of one thread.
///
/// # Errors
/// When the system cannot create one.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start")
}
