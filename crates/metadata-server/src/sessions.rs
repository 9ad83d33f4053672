//! Sessions of clients of other metadata servers: what their requests have done stays on record as long as these servers say that they are used.
//!
//! A server tells of its sessions now and then, and the home lets records grow old now and then. What was told may be older than a session
//! that has come since. So records go only when every server has told in two periods, one after the other, since they were there.
//!
//! What must never enter: what is on record.

use std::collections::HashSet;

use vfs::RequestGroup;

/// Sessions of one metadata server's clients of which the home takes note. A server that has more counts as one that has not told.
const SESSIONS_MAX: usize = 1 << 17;
/// Periods in which everybody has to tell.
const PERIODS: u32 = 2;

/// Those of one server.
#[derive(Default)]
pub(crate) struct Sessions {
    told: HashSet<RequestGroup>,
    told_before: HashSet<RequestGroup>,
    has_told_all: bool,
}

impl Sessions {
    /// Some are used; with `is_last`, that is all.
    pub(crate) fn tell(&mut self, some: Vec<RequestGroup>, is_last: bool) {
        if self.told.len() + some.len() <= SESSIONS_MAX {
            self.told.extend(some);
            self.has_told_all |= is_last;
        }
    }

    /// A period is over. Whether all were told in it.
    fn end_period(&mut self) -> bool {
        self.told_before = std::mem::take(&mut self.told);
        std::mem::take(&mut self.has_told_all)
    }
}

/// Periods in which all servers have told.
#[derive(Default)]
pub(crate) struct Periods(u32);

impl Periods {
    /// A period is over: the sessions that are used, if what is on record of others may grow older.
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
