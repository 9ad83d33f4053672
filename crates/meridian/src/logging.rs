//! Log lines on standard error, for people or for machines.
//!
//! What must never enter: what is worth logging.

use std::io::{self, IsTerminal};

use anyhow::Context;
use server::ShownText;
use server::configuration::{LogConfiguration, LogFormat};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// Starts to write log lines. To be called once.
pub(crate) fn start(log: &LogConfiguration) -> anyhow::Result<()> {
    let filter: Targets = log
        .filter
        .complete()
        .parse()
        .context("the log level cannot be used")?;
    let lines = fmt::layer().with_writer(io::stderr).fmt_fields(ShownFields);
    let lines = match log.format {
        LogFormat::Json => fmt::layer()
            .with_writer(io::stderr)
            .json()
            .flatten_event(true)
            .boxed(),
        // The journal of systemd has its own time.
        LogFormat::Text if std::env::var_os("JOURNAL_STREAM").is_some() => {
            lines.with_ansi(false).without_time().boxed()
        }
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .init();
    Ok(())
}

/// Fields of log lines, in which nothing of what others wrote ends a line or commands a terminal.
struct ShownFields;

impl<'w> FormatFields<'w> for ShownFields {
    fn format_fields<R: RecordFields>(&self, mut to: Writer<'w>, fields: R) -> std::fmt::Result {
        let mut text = String::new();
        DefaultFields::new().format_fields(Writer::new(&mut text), fields)?;
        write!(to, "{}", ShownText(&text))
    }
}
