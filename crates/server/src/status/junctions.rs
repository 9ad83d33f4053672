//! Names that lead to other servers: questions to the running server, and its answers.
//!
//! What must never enter: how the set agrees on them.

use std::fmt;

use replica::JunctionView;
use serde::{Deserialize, Serialize};

/// The agreed junctions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JunctionsStatus {
    /// The domain that this server shows, if it shows one.
    pub domain: Option<String>,
    /// The junctions, by name.
    pub junctions: Vec<JunctionView>,
}

/// A junction was added or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JunctionAnswer {
    /// Problems with it, for people.
    pub warnings: Vec<String>,
}

impl fmt::Display for JunctionsStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.domain {
            Some(domain) => writeln!(f, "domain {domain}")?,
            None => writeln!(
                f,
                "this server shows no domain: name one with `domain` in [names]"
            )?,
        }
        if self.junctions.is_empty() {
            return write!(f, "no junctions");
        }
        for (place, junction) in self.junctions.iter().enumerate() {
            if place > 0 {
                writeln!(f)?;
            }
            let to: Vec<String> = junction.to.iter().map(ToString::to_string).collect();
            write!(f, "  {:<20} {}", junction.name, to.join(", "))?;
        }
        Ok(())
    }
}
