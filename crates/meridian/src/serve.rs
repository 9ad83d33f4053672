//! `meridian serve`: from arguments to a running server.
//!
//! What must never enter: the parts of a server.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use server::{
    Build, Configuration, ConfigurationError, Ending, Origin, Overrides, ServeError, Server,
    Signals,
};

use crate::arguments::ServeArguments;
use crate::exit::{Exit, Failure};
use crate::logging;
use crate::mount_hint::{announcement, own_addresses};

/// Set in a process that has started again, and has already printed its addresses.
const ANEW: &str = "MERIDIAN_STARTED_ANEW";

/// The identification of the program.
const BUILD: Build = Build {
    version: env!("MERIDIAN_VERSION"),
    commit: env!("MERIDIAN_COMMIT"),
};

/// How long abandoned work may take to end after everything was closed.
const LEFTOVER_PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &ServeArguments) -> Result<Exit, Failure> {
    let wrong = |error| Failure::new(Exit::Configuration, error);
    let configuration = configuration(arguments).map_err(wrong)?;
    let arguments = arguments.clone();
    let origin = Origin {
        build: BUILD,
        reread: Arc::new(move || self::configuration(&arguments)),
    };
    logging::start(&configuration.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.context("cannot start threads")?;
    let served = runtime.block_on(serve(configuration, origin));
    match served {
        // Everything is closed: tasks that still wait, for example for a name lookup, are not needed.
        Ok(Ending::Stopped) => runtime.shutdown_background(),
        _ => runtime.shutdown_timeout(LEFTOVER_PATIENCE),
    }
    match served {
        Ok(Ending::Stopped) => Ok(Exit::Success),
        Ok(Ending::StartAnew) => Err(start_anew().into()),
        Err(error @ ServeError::Interrupted) => Err(Failure::new(Exit::Interrupted, error)),
        Err(error) => Err(error.into()),
    }
}

fn configuration(arguments: &ServeArguments) -> Result<Configuration, ConfigurationError> {
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
    configuration.and_then(|configuration| configuration.with(overrides))
}

async fn serve(configuration: Configuration, origin: Origin) -> Result<Ending, ServeError> {
    let mut signals = Signals::listen().map_err(ServeError::Signals)?;
    let server = tokio::select! {
        server = Server::start_when_there_is_space(configuration, origin) => server?,
        signal = signals.next_stop() => {
            tracing::info!(signal, "stopped before everything was open");
            return Ok(Ending::Stopped);
        }
    };
    if std::env::var_os(ANEW).is_none() {
        announce(&announcement(&server.status().await, &own_addresses()));
    }
    server.run(signals).await
}

/// Starts the same process again with the same arguments, as after a crash. This ends everything in it that waits for
/// an event that will never happen.
fn start_anew() -> std::io::Error {
    let program = std::env::current_exe();
    let program = program.unwrap_or_else(|_| std::env::args_os().next().unwrap_or_default().into());
    std::process::Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(ANEW, "1")
        .exec()
}

/// Prints a message. The parent process may have closed the server's standard output, which is not an error.
fn announce(text: &str) {
    let mut output = std::io::stdout().lock();
    if let Err(error) = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
    {
        tracing::debug!(%error, "nobody hears the announcement");
    }
}
