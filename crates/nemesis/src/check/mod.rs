//! Judges a recorded run against what `docs/semantics.md` promises.
//!
//! Every checker is a pure function. Its tests have one correct history, and one history for each kind of
//! violation.
//!
//! What must never enter: requests, clocks, and excuses for faults: a promise holds in spite of any fault.

mod appends;
mod copies;
mod creates;
pub mod invariants;
mod moves;
mod registers;
mod replaces;
mod rights;
mod rounds;
mod searches;
mod sections;
mod stats;
mod versions;
mod violation;
mod writings;

use crate::history::{Event, Time};
use crate::survey::Survey;

pub use violation::Violation;

/// All violations, by the time when they were seen.
pub fn judge(events: &[Event], surveys: &[Survey]) -> Vec<Violation> {
    let mut violations = Vec::new();
    violations.extend(registers::check(events, surveys));
    violations.extend(creates::check(events, surveys));
    violations.extend(replaces::check(events, surveys));
    violations.extend(moves::check(events, surveys));
    violations.extend(rounds::check(events));
    violations.extend(sections::check(events, surveys));
    violations.extend(appends::check(events, surveys));
    violations.extend(copies::check(surveys));
    violations.extend(rights::check(events));
    violations.extend(versions::check(events));
    violations.extend(searches::check(events));
    violations.extend(stats::check(events));
    violations.sort_by_key(|violation| violation.at.unwrap_or(Time::MAX));
    violations
}

#[cfg(test)]
pub(crate) mod made {
    //! Histories made by hand.

    use crate::history::{Act, Event, Outcome, Refusal, Time};

    /// An event that was answered as done.
    pub(crate) fn done(site: usize, [begin, end]: [Time; 2], act: Act) -> Event {
        Event {
            site,
            client: site,
            begin,
            end,
            act,
            outcome: Outcome::Done,
        }
    }

    /// The same, refused.
    pub(crate) fn refused(why: Refusal, event: Event) -> Event {
        Event {
            outcome: Outcome::Refused(why),
            ..event
        }
    }

    /// The same with an outcome that is not known.
    pub(crate) fn unknown(event: Event) -> Event {
        Event {
            outcome: Outcome::Unknown("the connection broke".to_owned()),
            ..event
        }
    }
}
