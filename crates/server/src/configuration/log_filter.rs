//! The filter that decides which messages are logged.
//!
//! What must never enter: the writing of logs.

use std::fmt;
use std::str::FromStr;

/// A level, or a list of levels, some of them for one module only: `info,store=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter(String);

/// Why a text is not such a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` does not say what to log; write {wanted}", wanted = LogFilter::WANTED)]
pub struct LogFilterError(String);

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The messages of the Raft library are useful only if they are explicitly requested.
const QUIET: &str = "openraft";

impl LogFilter {
    /// The expected format, for messages.
    pub(super) const WANTED: &'static str = "\"error\", \"warn\", \"info\", \"debug\" or \"trace\", or levels by module such as \"info,store=debug\"";

    /// The filter as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The filter with the implicit part: the Raft library, which agrees on views, is silent unless the filter names
    /// it. The library reports every message to an unreachable peer as an error. Other modules report an unreachable
    /// peer, once.
    #[must_use]
    pub fn complete(&self) -> String {
        let mut directives = self.0.split(',');
        let talkative = |directive: &str| LEVELS.contains(&directive) && directive != "off";
        match directives.clone().any(talkative)
            && !directives.any(|directive| directive.starts_with(QUIET))
        {
            true => format!("{},{QUIET}=off", self.0),
            false => self.0.clone(),
        }
    }
}

impl Default for LogFilter {
    fn default() -> LogFilter {
        LogFilter("info".to_owned())
    }
}

impl FromStr for LogFilter {
    type Err = LogFilterError;

    fn from_str(text: &str) -> Result<LogFilter, LogFilterError> {
        let is_module = |module: &str| {
            let fits = |letter: char| letter.is_ascii_alphanumeric() || "_:".contains(letter);
            !module.is_empty() && module.chars().all(fits)
        };
        let is_directive = |directive: &str| match directive.split_once('=') {
            Some((module, level)) => is_module(module) && LEVELS.contains(&level),
            None => LEVELS.contains(&directive),
        };
        match text.split(',').all(is_directive) {
            true => Ok(LogFilter(text.to_owned())),
            false => Err(LogFilterError(text.to_owned())),
        }
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_levels_with_or_without_modules() {
        for text in [
            "info",
            "off",
            "warn,store=debug",
            "nfs4_server::state=trace",
        ] {
            assert_eq!(text.parse::<LogFilter>().unwrap().as_str(), text);
        }
        for text in [
            "",
            "loud",
            "info,",
            "=info",
            "store=",
            "store=loud",
            "a b=info",
        ] {
            assert!(text.parse::<LogFilter>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_raft_library_is_quiet_unless_it_is_named() {
        for (text, complete) in [
            ("info", "info,openraft=off"),
            ("debug,store=trace", "debug,store=trace,openraft=off"),
            ("warn", "warn,openraft=off"),
            ("off", "off"),
            ("info,openraft=debug", "info,openraft=debug"),
            ("info,openraft::engine=debug", "info,openraft::engine=debug"),
        ] {
            let filter: LogFilter = text.parse().unwrap();
            assert_eq!(filter.complete(), complete);
        }
    }
}
