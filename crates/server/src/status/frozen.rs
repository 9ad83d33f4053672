//! Objects that are frozen because the replica that controlled them was lost: questions and answers.
//!
//! What must never enter: the rules of freezing and thawing.

use std::fmt;

use replica::FrozenView;
use serde::{Deserialize, Serialize};

use super::Rows;
use super::text::moment;

/// A request to give up data that only a lost replica had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThawQuestion {
    /// The lost replica.
    pub lost: u16,
    /// The reason, for the record.
    pub reason: String,
    /// Whether to do it. Otherwise the answer only says what would be given up.
    pub meant: bool,
}

/// What thawing gives up, or has given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThawAnswer {
    /// The lost replica.
    pub lost: u16,
    /// Whether it is done.
    pub done: bool,
    /// What keeps its objects frozen, or kept them.
    pub frozen: Rows<FrozenView>,
    /// What has to happen before it can be done.
    pub waits_for: Option<String>,
}

/// A control that keeps objects frozen, for people.
pub struct FrozenText<'s>(pub &'s FrozenView);

impl fmt::Display for FrozenText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FrozenText(frozen) = self;
        let reach = match frozen.deep {
            true => " and everything below",
            false => "",
        };
        let (paths, since) = (frozen.paths.join(", "), moment(frozen.since_unix_s));
        write!(
            f,
            "{paths}{reach}\n  frozen since {since}: replica {} decided about it (control {}) and is lost\n  {}",
            frozen.slot, frozen.name, frozen.open_questions
        )
    }
}

impl fmt::Display for ThawAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = self.lost;
        if self.done {
            return write!(
                f,
                "What replica {lost} alone had is given up. When it comes back, it keeps its discarded versions aside; \
                 `meridian recovered list` on it shows them."
            );
        }
        write!(
            f,
            "Replica {lost} is lost. Thawing gives up, for ever, every change that it alone had answered:"
        )?;
        if self.frozen.rows.is_empty() {
            write!(f, "\n  (nothing of it is frozen at present)")?;
        }
        for frozen in &self.frozen.rows {
            write!(f, "\n{}", FrozenText(frozen))?;
        }
        if self.frozen.more > 0 {
            write!(f, "\n{}", self.frozen.remark())?;
        }
        match &self.waits_for {
            Some(what) => write!(f, "\nIt cannot be done yet: {what}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_frozen_and_what_thawing_gives_up_reads_well() {
        let frozen = FrozenView {
            slot: 3,
            since_unix_s: 1_790_000_000,
            name: "3.7.2".to_owned(),
            paths: vec!["/src".to_owned()],
            deep: true,
            open_questions: "what replica 3 changed last is not known".to_owned(),
        };
        let told = "/src and everything below
  frozen since 2026-09-21 14:13:20 UTC: replica 3 decided about it (control 3.7.2) and is lost
  what replica 3 changed last is not known";
        assert_eq!(FrozenText(&frozen).to_string(), told);
        let mut answer = ThawAnswer {
            lost: 3,
            done: false,
            frozen: Rows::of([frozen]),
            waits_for: Some("its lease runs".to_owned()),
        };
        let question = answer.to_string();
        assert!(
            question.contains("for ever") && question.contains(told),
            "{question}"
        );
        assert!(
            question.ends_with("It cannot be done yet: its lease runs"),
            "{question}"
        );
        answer.done = true;
        assert!(answer.to_string().contains("meridian recovered list"));
    }
}
