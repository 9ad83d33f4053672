//! Whether a copy of a data directory continues from where others have met it, or from an earlier moment. Pure.
//!
//! A data directory is a line of *starts*. During each start the *mark*, a number that only grows, continues: it covers everything that was stable
//! when it was written, so a copy with a smaller mark may lack some of that. The start and mark that others have met of the directory lie on its
//! line; otherwise the directory was restored from an earlier copy.
//!
//! What must never enter: storage, connections, and what follows from it.

use serde::{Deserialize, Serialize};

use super::mac::Mac;

/// At most this many starts are remembered; others may have been away for as many.
pub(crate) const STARTS_KEPT: usize = 256;

/// One start of a server on its data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) incarnation: u64,
    /// Random: two copies of one directory may both take the same number.
    pub(crate) nonce: u64,
    /// The mark when it began.
    pub(crate) mark: u64,
    /// The last position that an update of this replica may have had before.
    pub(crate) position: u64,
}

/// The state of a directory that another replica has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Met {
    pub(crate) incarnation: u64,
    pub(crate) nonce: u64,
    pub(crate) mark: u64,
    /// The replica that was met attested the mark with this.
    pub(crate) mac: Mac,
    /// When, in seconds since 1970, for display.
    pub(crate) at_unix_s: u64,
}

impl Met {
    /// Whether it belongs to this start.
    pub(crate) fn is_of(&self, start: &Start) -> bool {
        (self.incarnation, self.nonce) == (start.incarnation, start.nonce)
    }
}

/// The line of one directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Branch {
    /// The last starts in order; the present one is the last.
    pub(crate) starts: Vec<Start>,
    /// The mark now.
    pub(crate) mark: u64,
}

impl Branch {
    /// Continues from the starts that a directory remembers.
    pub(crate) fn begin(mut starts: Vec<Start>, now: Start) -> Branch {
        starts.push(now);
        let forgotten = starts.len().saturating_sub(STARTS_KEPT);
        starts.drain(..forgotten);
        Branch {
            mark: now.mark,
            starts,
        }
    }

    /// Whether it continues from what others have met. A start before all remembered ones counts as part of it.
    pub(crate) fn contains(&self, met: &Met) -> bool {
        let Some(at) = self.starts.iter().position(|start| met.is_of(start)) else {
            let first = self.starts.first();
            return self.starts.len() == STARTS_KEPT
                && first.is_some_and(|first| {
                    met.incarnation < first.incarnation && met.mark <= first.mark
                });
        };
        let ended = self.starts.get(at + 1).map_or(self.mark, |next| next.mark);
        met.mark <= ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(incarnation: u64, nonce: u64, mark: u64) -> Start {
        Start {
            incarnation,
            nonce,
            mark,
            position: 0,
        }
    }

    fn met(incarnation: u64, nonce: u64, mark: u64) -> Met {
        Met {
            incarnation,
            nonce,
            mark,
            mac: Mac::invented(),
            at_unix_s: 0,
        }
    }

    #[test]
    fn what_was_met_lies_on_the_line_until_a_copy_is_put_back() {
        let first = Branch::begin(Vec::new(), start(5, 50, 0));
        let at_3 = Branch {
            mark: 3,
            ..first.clone()
        };
        let at_9 = Branch { mark: 9, ..first };
        assert!(at_9.contains(&met(5, 50, 9)) && at_9.contains(&met(5, 50, 3)));
        // Restored from a copy of the running server, before and after the next start.
        assert!(!at_3.contains(&met(5, 50, 4)));
        let mut anew = Branch::begin(at_3.starts, start(6, 60, 3));
        anew.mark = 100;
        assert!(anew.contains(&met(5, 50, 3)) && !anew.contains(&met(5, 50, 4)));
        assert!(anew.contains(&met(6, 60, 100)) && !anew.contains(&met(6, 60, 101)));
    }

    #[test]
    fn a_start_that_is_not_remembered_proves_a_copy_from_before_it() {
        let branch = Branch::begin(vec![start(5, 50, 0)], start(7, 70, 4));
        assert!(!branch.contains(&met(6, 60, 2)));
        // The same number in another copy.
        assert!(!branch.contains(&met(7, 71, 4)));
        assert!(!branch.contains(&met(4, 40, 0)));
    }

    #[test]
    fn what_lies_before_all_that_is_remembered_proves_nothing() {
        let mut starts: Vec<Start> = (10..).take(300).map(|n| start(n, n, n)).collect();
        let last = starts.pop().unwrap();
        let branch = Branch::begin(starts, last);
        assert_eq!(branch.starts.len(), STARTS_KEPT);
        let first = branch.starts[0];
        assert!(branch.contains(&met(first.incarnation - 1, 1, first.mark - 1)));
        assert!(!branch.contains(&met(first.incarnation - 1, 1, first.mark + 1)));
        assert!(!branch.contains(&met(last.incarnation + 1, 1, last.mark)));
    }
}
