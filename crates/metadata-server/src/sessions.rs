//! Sessions of other metadata servers' clients. Records of their requests stay as long as these servers report the sessions as used.
//!
//! A server reports its sessions regularly, and the home ages records regularly. A report may be older than a new session. So records are
//! dropped only after every server has reported in two consecutive periods since the record was made.
//!
//! What must never enter: what is on record.

use std::collections::HashSet;

use vfs::RequestGroup;

/// Most sessions of one metadata server's clients that the home notes. A server with more counts as one that has not reported.
const SESSIONS_MAX: usize = 1 << 17;
/// Consecutive periods in which all servers must report.
const PERIODS: u32 = 2;

/// The sessions of one server.
#[derive(Default)]
pub(crate) struct Sessions {
    told: HashSet<RequestGroup>,
    told_before: HashSet<RequestGroup>,
    has_told_all: bool,
}

impl Sessions {
    /// Some sessions are used; `is_last` completes the report.
    pub(crate) fn tell(&mut self, some: Vec<RequestGroup>, is_last: bool) {
        if self.told.len() + some.len() <= SESSIONS_MAX {
            self.told.extend(some);
            self.has_told_all |= is_last;
        }
    }

    /// A period is over. Returns whether the report was complete.
    fn end_period(&mut self) -> bool {
        self.told_before = std::mem::take(&mut self.told);
        std::mem::take(&mut self.has_told_all)
    }
}

/// Counts consecutive periods in which all servers have reported.
#[derive(Default)]
pub(crate) struct Periods(u32);

impl Periods {
    /// A period is over. Returns the sessions in use if records of other sessions may age.
    pub(crate) fn end<'s>(
        &mut self,
        servers: impl Iterator<Item = &'s mut Sessions>,
    ) -> Option<HashSet<RequestGroup>> {
        let mut alive = HashSet::new();
        let mut have_all_told = true;
        for sessions in servers {
            alive.extend(sessions.told.iter().chain(&sessions.told_before));
            have_all_told &= sessions.end_period();
        }
        self.0 = match have_all_told {
            true => self.0 + 1,
            false => 0,
        };
        let is_due = self.0 >= PERIODS;
        if is_due {
            self.0 = 0;
        }
        is_due.then_some(alive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_grows_old_before_everybody_has_told_twice() {
        let group = |number| [number; size_of::<RequestGroup>()];
        let mut servers = [Sessions::default(), Sessions::default()];
        let mut periods = Periods::default();
        servers[0].tell(vec![group(1)], true);
        assert_eq!(periods.end(servers.iter_mut()), None, "one is silent");
        servers[0].tell(vec![group(2)], true);
        servers[1].tell(vec![group(3)], false);
        servers[1].tell(vec![group(4)], true);
        assert_eq!(
            periods.end(servers.iter_mut()),
            None,
            "it is the first time"
        );
        servers[0].tell(vec![group(5)], true);
        servers[1].tell(vec![], true);
        let alive: HashSet<RequestGroup> = [2, 3, 4, 5].map(group).into();
        assert_eq!(periods.end(servers.iter_mut()), Some(alive));
        assert_eq!(periods.end(servers.iter_mut()), None);
        let many = vec![group(6); SESSIONS_MAX + 1];
        for _ in 0..PERIODS {
            servers[0].tell(many.clone(), true);
            servers[1].tell(vec![], true);
            assert_eq!(
                periods.end(servers.iter_mut()),
                None,
                "they are not all noted"
            );
        }
    }
}
