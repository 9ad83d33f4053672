//! `meridian serve`: from arguments to a running server.
//!
//! What must never enter: the parts of a server.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use server::{
    Build, Configuration, ConfigurationError, Ending, ListenAddress, Origin, Overrides, ServeError,
    Server, Signals,
};

use crate::arguments::ServeArguments;
use crate::exit::{Exit, Failure};
use crate::logging;
use crate::mount_hint::{announcement, own_addresses};

/// Set in a process that has started again: the addresses at which it has accepted clients, which it has printed. Empty if it had none yet.
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
    let mut addresses = Vec::new();
    let served = runtime.block_on(serve(configuration, origin, &mut addresses));
    match served {
        // Everything is closed: tasks that still wait, for example for a name lookup, are not needed.
        Ok(Ending::Stopped) => runtime.shutdown_background(),
        _ => runtime.shutdown_timeout(LEFTOVER_PATIENCE),
    }
    match served {
        Ok(Ending::Stopped) => Ok(Exit::Success),
        Ok(Ending::StartAnew) => Err(start_anew(&addresses).into()),
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
    let mut configuration = configuration?.with(overrides)?;
    keep_ports(
        &mut configuration.listen,
        &std::env::var(ANEW).unwrap_or_default(),
    );
    Ok(configuration)
}

/// A process that has started again listens where it did before, also if the system had chosen the port.
fn keep_ports(listen: &mut [ListenAddress], earlier: &str) {
    let earlier = earlier.split(',').map(str::parse::<SocketAddr>);
    for (ListenAddress(address), earlier) in listen.iter_mut().zip(earlier) {
        if let Ok(earlier) = earlier
            && address.port() == 0
        {
            address.set_port(earlier.port());
        }
    }
}

/// `addresses` are those at which clients are accepted, once they are.
async fn serve(
    configuration: Configuration,
    origin: Origin,
    addresses: &mut Vec<SocketAddr>,
) -> Result<Ending, ServeError> {
    let mut signals = Signals::listen().map_err(ServeError::Signals)?;
    let server = tokio::select! {
        server = Server::start_when_there_is_space(configuration, origin) => server?,
        signal = signals.next_stop() => {
            tracing::info!(signal, "stopped before everything was open");
            return Ok(Ending::Stopped);
        }
    };
    let status = server.status().await;
    if std::env::var_os(ANEW).is_none_or(|earlier| earlier.is_empty()) {
        announce(&announcement(&status, &own_addresses()));
    }
    *addresses = status.listen;
    server.run(signals).await
}

/// Starts the same process again with the same arguments, as after a crash. This ends everything in it that waits for
/// an event that will never happen.
fn start_anew(addresses: &[SocketAddr]) -> std::io::Error {
    let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    // An upgrade may have replaced the program's file. Then the file that runs has no name any more.
    let named = std::env::current_exe().ok().filter(|path| path.exists());
    std::process::Command::new(named.unwrap_or_else(|| "/proc/self/exe".into()))
        .arg0(std::env::args_os().next().unwrap_or_default())
        .args(std::env::args_os().skip(1))
        .env(ANEW, addresses.join(","))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_the_system_chose_is_kept_over_a_start_anew() {
        let address = |text: &str| ListenAddress(text.parse().unwrap());
        let mut listen = [address("127.0.0.1:0"), address("[::1]:2049")];
        keep_ports(&mut listen, "");
        assert_eq!(listen[0], address("127.0.0.1:0"));
        keep_ports(&mut listen, "127.0.0.1:41234,[::1]:2049");
        assert_eq!(listen, [address("127.0.0.1:41234"), address("[::1]:2049")]);
    }
}
