//! `meridian serve`: from arguments to a running server.
//!
//! What must never enter: the parts of a server.

use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use server::{Configuration, Overrides, ServeError, Server, StopSignals};

use crate::arguments::ServeArguments;
use crate::exit::{Exit, Failure};
use crate::logging;
use crate::mount_hint::announcement;

/// How long work that was given up may take to notice, once everything is put away.
const LEFTOVER_PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &ServeArguments) -> Result<Exit, Failure> {
    let configuration = configuration(arguments)?;
    logging::start(&configuration.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.context("cannot start threads")?;
    let served = runtime.block_on(serve(configuration));
    runtime.shutdown_timeout(LEFTOVER_PATIENCE);
    match served {
        Ok(()) => Ok(Exit::Success),
        Err(error @ ServeError::Interrupted) => Err(Failure::new(Exit::Interrupted, error)),
        Err(error) => Err(error.into()),
    }
}

fn configuration(arguments: &ServeArguments) -> Result<Configuration, Failure> {
    let configuration = match &arguments.config {
        Some(file) => Configuration::read(file),
        None => Ok(Configuration::default()),
    };
    let overrides = Overrides {
        data: arguments.data.clone(),
        listen: arguments.listen.clone(),
        export: arguments.export.clone(),
        log: arguments.log.clone(),
    };
    let configuration = configuration.and_then(|configuration| configuration.with(overrides));
    configuration.map_err(|error| Failure::new(Exit::Configuration, error))
}

async fn serve(configuration: Configuration) -> Result<(), ServeError> {
    let mut signals = StopSignals::listen().map_err(ServeError::Signals)?;
    let server = tokio::select! {
        server = Server::start(configuration) => server?,
        signal = signals.next() => {
            tracing::info!(signal, "stopped before everything was open");
            return Ok(());
        }
    };
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    announce(&announcement(&server.status().await, &host));
    server.run(signals).await
}

/// Whoever started the server may have closed its standard output, which is no reason to fail.
fn announce(text: &str) {
    let mut output = std::io::stdout().lock();
    if let Err(error) = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
    {
        tracing::debug!(%error, "nobody hears the announcement");
    }
}
