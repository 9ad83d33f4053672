//! Log lines on standard error, for people or for machines.
//!
//! What must never enter: what to log.

mod repeats;

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context;
use server::ShownText;
use server::configuration::{LogConfiguration, LogFormat};
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use repeats::Repeats;

/// Starts logging. Call it once.
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
            .map_event_format(|lines| Limited::new(lines, log.format))
            .boxed(),
        // The systemd journal adds its own time.
        LogFormat::Text if std::env::var_os("JOURNAL_STREAM").is_some() => {
            let lines = lines.with_ansi(false).without_time();
            lines
                .map_event_format(|lines| Limited::new(lines, log.format))
                .boxed()
        }
        LogFormat::Text => lines
            .with_ansi(io::stderr().is_terminal())
            .map_event_format(|lines| Limited::new(lines, log.format))
            .boxed(),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .init();
    Ok(())
}

/// Formats the fields of log lines, so that foreign text in them cannot end a line or control a terminal.
struct ShownFields;

impl<'w> FormatFields<'w> for ShownFields {
    fn format_fields<R: RecordFields>(&self, mut to: Writer<'w>, fields: R) -> std::fmt::Result {
        let mut text = String::new();
        DefaultFields::new().format_fields(Writer::new(&mut text), fields)?;
        write!(to, "{}", ShownText(&text))
    }
}

/// Writes lines with `lines`, but limits the number of lines from one place in the program.
struct Limited<F> {
    lines: F,
    format: LogFormat,
    repeats: Mutex<Repeats<Identifier>>,
}

impl<F> Limited<F> {
    fn new(lines: F, format: LogFormat) -> Limited<F> {
        Limited {
            lines,
            format,
            repeats: Mutex::new(Repeats::new()),
        }
    }

    /// Whether to write a line. First writes the number of lines that were left out before.
    fn admits(&self, to: &mut Writer<'_>, event: &Event<'_>) -> Result<bool, std::fmt::Error> {
        let (now, metadata) = (Instant::now(), event.metadata());
        let mut repeats = self.repeats.lock().unwrap_or_else(PoisonError::into_inner);
        for (about, count) in repeats.left_out(now) {
            match self.format {
                LogFormat::Text => writeln!(
                    to,
                    "{count} lines were left out in the last minute, which said `{}`",
                    ShownText(&about)
                )?,
                LogFormat::Json => {
                    let line = serde_json::json!({"message": "lines were left out", "count": count, "said": about});
                    writeln!(to, "{line}")?;
                }
            }
        }
        // An administrator who asks for details wants all of them.
        if *metadata.level() > Level::INFO {
            return Ok(true);
        }
        let about = || {
            let mut message = Message::default();
            event.record(&mut message);
            message.0
        };
        Ok(repeats.admits(metadata.callsite(), now, about))
    }
}

impl<S, N, F> FormatEvent<S, N> for Limited<F>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        match self.admits(&mut to, event)? {
            true => self.lines.format_event(context, to, event),
            false => Ok(()),
        }
    }
}

/// The message of an event.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
