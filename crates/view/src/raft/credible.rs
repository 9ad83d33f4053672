//! Checks messages of other replicas before the Raft library gets them.
//!
//! The library trusts its peers. It stores any term that it hears of, and counts on from there: after `u64::MAX` there
//! is no next term, so no leader could ever be elected again. So terms and indices are accepted only if a correct set
//! can have reached them by now: there cannot have been more elections, or entries, than milliseconds since 1970. This
//! limit grows with time. A member that received the greatest allowed term stands for election in a later one, which
//! all others accept a moment later. The limits of two members differ by no more than their clocks do (decision 0016).
//!
//! What must never enter: whether a term or an entry is right, which the library decides.

use std::time::{SystemTime, UNIX_EPOCH};

use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest};

use super::types::{LogId, Types, Vote};
use super::wire::{Answer, Request};

/// These values are always accepted, so that a set whose clocks show 1970 works.
const ALWAYS: u64 = 1 << 32;

/// The maximum size of a snapshot, in bytes.
pub(crate) const SNAPSHOT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The greatest term, and the greatest index, that are accepted at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(u64);

impl Limit {
    /// At `now`, by this machine's time of day.
    pub(crate) fn at(now: SystemTime) -> Limit {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        Limit(u64::try_from(since.as_millis()).map_or(ALWAYS, |millis| millis.max(ALWAYS)))
    }

    fn vote(self, vote: &Vote) -> Result<(), String> {
        let term = vote.leader_id.term;
        if term > self.0 {
            return Err(format!("no set can have reached term {term} yet"));
        }
        Ok(())
    }

    /// Checks the identifier of an entry in a message of the leader or candidate of `vote`.
    fn entry(self, entry: &LogId, vote: &Vote) -> Result<(), String> {
        if entry.leader_id > vote.leader_id {
            return Err("an entry is of a later term than the one who speaks of it".to_owned());
        }
        if entry.index > self.0 {
            return Err(format!("no set can have reached entry {} yet", entry.index));
        }
        Ok(())
    }
}

/// Refuses requests that no correct replica sends, whatever the state of the set is.
pub(super) fn check_request(request: &Request, limit: Limit) -> Result<(), String> {
    match request {
        Request::Append(append) => check_append(append, limit),
        Request::Vote(asked) => {
            limit.vote(&asked.vote)?;
            if asked.vote.committed {
                return Err("a candidate says that it is elected".to_owned());
            }
            let last = asked.last_log_id.as_ref();
            last.map_or(Ok(()), |last| limit.entry(last, &asked.vote))
        }
        Request::Snapshot(part) => check_part(part, limit),
        Request::Submit(_) => Ok(()),
    }
}

fn check_append(append: &AppendEntriesRequest<Types>, limit: Limit) -> Result<(), String> {
    is_leader(&append.vote, limit)?;
    let named = append.prev_log_id.iter().chain(&append.leader_commit);
    let mut named = named.chain(append.entries.iter().map(|entry| &entry.log_id));
    named.try_for_each(|entry| limit.entry(entry, &append.vote))?;
    let mut previous = append.prev_log_id;
    for entry in &append.entries {
        let expected = previous.map_or(Some(0), |previous| previous.index.checked_add(1));
        if expected != Some(entry.log_id.index) || Some(entry.log_id) < previous {
            return Err("entries do not follow each other".to_owned());
        }
        previous = Some(entry.log_id);
    }
    Ok(())
}

fn check_part(part: &InstallSnapshotRequest<Types>, limit: Limit) -> Result<(), String> {
    is_leader(&part.vote, limit)?;
    let voters = part.meta.last_membership.log_id().as_ref();
    let last = part.meta.last_log_id.as_ref();
    let mut named = last.into_iter().chain(voters);
    named.try_for_each(|entry| limit.entry(entry, &part.vote))?;
    if voters > last {
        return Err("a snapshot knows of voters after its end".to_owned());
    }
    let length = u64::try_from(part.data.len()).unwrap_or(u64::MAX);
    if part.offset.saturating_add(length) > SNAPSHOT_BYTES_MAX {
        return Err("a snapshot is too long".to_owned());
    }
    Ok(())
}

fn is_leader(vote: &Vote, limit: Limit) -> Result<(), String> {
    limit.vote(vote)?;
    match vote.committed {
        true => Ok(()),
        false => Err("it leads without having been elected".to_owned()),
    }
}

/// Refuses answers that no correct replica sends, whatever the request was.
pub(super) fn check_answer(answer: &Answer, limit: Limit) -> Result<(), String> {
    match answer {
        Answer::Append(AppendEntriesResponse::HigherVote(vote)) => limit.vote(vote),
        Answer::Vote(answer) => limit.vote(&answer.vote),
        Answer::Snapshot(Ok(answer)) => limit.vote(&answer.vote),
        _ => Ok(()),
    }
}

/// Refuses an answer to `sent` about other entries. Also refuses an answer that reports entries as lost that the same
/// follower has acknowledged to the same leader (up to `matched`). The library relies on both.
pub(super) fn check_appended(
    answer: &AppendEntriesResponse<u64>,
    sent: (Option<LogId>, Option<LogId>),
    matched: Option<LogId>,
) -> Result<(), String> {
    let (previous, last) = sent;
    let fits = match answer {
        AppendEntriesResponse::PartialSuccess(upto) => *upto >= previous && *upto <= last,
        AppendEntriesResponse::Conflict => previous > matched,
        AppendEntriesResponse::Success | AppendEntriesResponse::HigherVote(_) => true,
    };
    match fits {
        true => Ok(()),
        false => Err("the answer is about other entries".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn id(term: u64, index: u64) -> LogId {
        LogId::new(Vote::new_committed(term, 1).leader_id, index)
    }

    /// With a fixed limit, a member that received the greatest allowed term could not stand for election any more.
    #[test]
    fn the_next_term_is_believed_a_moment_later() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let (then, later) = (Limit::at(now), Limit::at(now + Duration::from_millis(1)));
        let term = 1_800_000_000_000;
        assert_eq!(then.vote(&Vote::new(term, 1)), Ok(()));
        assert!(then.vote(&Vote::new(term + 1, 1)).is_err());
        assert_eq!(later.vote(&Vote::new(term + 1, 1)), Ok(()));
    }

    #[test]
    fn a_wrong_clock_refuses_nothing_that_honest_members_reach() {
        let before = UNIX_EPOCH - Duration::from_secs(1);
        for limit in [Limit::at(before), Limit::at(UNIX_EPOCH)] {
            assert_eq!(limit.vote(&Vote::new(1_000_000_000, 1)), Ok(()));
        }
    }

    #[test]
    fn answers_speak_of_what_was_sent() {
        let sent = (Some(id(3, 6)), Some(id(3, 8)));
        let partial = |upto| {
            let answer = AppendEntriesResponse::PartialSuccess(upto);
            check_appended(&answer, sent, None)
        };
        assert_eq!(partial(Some(id(3, 7))), Ok(()));
        assert!(partial(Some(id(3, 9))).is_err() && partial(None).is_err());
        let conflict = |matched| check_appended(&AppendEntriesResponse::Conflict, sent, matched);
        assert_eq!(conflict(Some(id(3, 5))), Ok(()));
        assert!(conflict(Some(id(3, 6))).is_err());
        let none = check_appended(&AppendEntriesResponse::Conflict, (None, None), None);
        assert!(none.is_err());
    }
}
