//! Which settings can change while the server runs, and the differences between two configurations.
//!
//! What must never enter: making the changes.

use std::fmt;
use std::time::Duration;

use nfs4_server::{AccessRule, PseudoPath};
use serde::{Deserialize, Serialize};

use super::{Configuration, ExportConfiguration};

/// The difference between a configuration that was read again and the one in force.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    /// The changed access rules of exports.
    pub(crate) rules: Vec<(PseudoPath, Vec<AccessRule>)>,
    /// Other differences, named as in the file; they take effect at the next start.
    pub(crate) later: Vec<String>,
}

/// The result of reading the configuration again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadAnswer {
    /// Exports with changed access rules, by path.
    pub rules_changed: Vec<String>,
    /// Differences that take effect at the next start.
    pub next_start: Vec<String>,
}

impl Difference {
    pub(crate) fn between(running: &Configuration, read: &Configuration) -> Difference {
        let (mut rules, mut later) = (Vec::new(), Vec::new());
        let place = |export: &ExportConfiguration| (export.path.clone(), export.tree.clone());
        for export in &read.exports {
            let known = running.exports.iter();
            match known.clone().find(|known| place(known) == place(export)) {
                Some(known) if known.rules == export.rules => {}
                Some(_) => rules.push((export.path.clone(), export.rules.clone())),
                None => later.push(format!("the export {}", export.path)),
            }
        }
        let gone = running.exports.iter();
        let gone =
            gone.filter(|known| !read.exports.iter().any(|left| place(left) == place(known)));
        later.extend(gone.map(|known| format!("that {} is no export any more", known.path)));
        let others = [
            ("`data`", running.data != read.data),
            ("`listen`", running.listen != read.listen),
            ("`commit`", running.commit != read.commit),
            ("[time]", times(running) != times(read)),
            ("[limits]", limits_differ(running, read)),
            ("[store]", running.store != read.store),
            ("[replication]", running.replication != read.replication),
            ("[pool]", running.pool != read.pool),
            ("[names]", running.domain != read.domain),
            ("[metrics]", running.metrics != read.metrics),
            ("[page]", running.page != read.page),
            ("[log]", running.log != read.log),
        ];
        let others = others.into_iter().filter(|(_, differs)| *differs);
        later.extend(others.map(|(name, _)| name.to_owned()));
        Difference { rules, later }
    }

    pub(crate) fn answer(&self) -> ReloadAnswer {
        let rules = self.rules.iter();
        ReloadAnswer {
            rules_changed: rules.map(|(path, _)| path.to_string()).collect(),
            next_start: self.later.clone(),
        }
    }
}

/// The values of `[time]`, which are part of the limits.
fn times(configuration: &Configuration) -> (Duration, Duration) {
    (configuration.limits.lease, configuration.limits.grace)
}

/// Whether any limit other than a time differs.
fn limits_differ(running: &Configuration, read: &Configuration) -> bool {
    let mut limits = read.limits.clone();
    (limits.lease, limits.grace) = times(running);
    running.limits != limits || running.transport != read.transport
}

impl fmt::Display for ReloadAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rules_changed.is_empty() && self.next_start.is_empty() {
            return f.write_str("The file says what is in force already.");
        }
        let mut separator = "";
        for path in &self.rules_changed {
            write!(f, "{separator}{path}: other access rules are in force now.")?;
            separator = "\n";
        }
        if !self.next_start.is_empty() {
            let later = self.next_start.join(", ");
            write!(
                f,
                "{separator}Different, and in force from the next start on: {later}."
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(text: &str) -> Configuration {
        Configuration::parse(Path::new("meridian.toml"), text).unwrap()
    }

    #[test]
    fn rules_change_at_once_and_the_rest_later() {
        let running = read("[[export]]\npath = \"/export\"\n[[export.allow]]\nclients = \"*\"");
        let same = Difference::between(&running, &running).answer();
        assert_eq!(same.to_string(), "The file says what is in force already.");
        let changed = read(
            "listen = \"127.0.0.1:2050\"\n[[export]]\npath = \"/export\"\n[[export.allow]]\nclients = \"192.0.2.1\"\n[[export]]\npath = \"/more\"\ntree = \"more\"\n[limits]\nclients = 5",
        );
        let difference = Difference::between(&running, &changed);
        assert_eq!(difference.rules[0].1, changed.exports[0].rules);
        assert_eq!(
            difference.answer().to_string(),
            "/export: other access rules are in force now.\nDifferent, and in force from the next start on: the export /more, `listen`, [limits]."
        );
        let slower = read(
            "[time]\nlease_seconds = 120\n[[export]]\npath = \"/export\"\n[[export.allow]]\nclients = \"*\"",
        );
        let difference = Difference::between(&running, &slower).answer();
        assert_eq!(difference.next_start, ["[time]"]);
        let back = Difference::between(&changed, &running).answer();
        let gone = "that /more is no export any more";
        assert!(back.next_start.iter().any(|what| what == gone), "{back}");
    }
}
