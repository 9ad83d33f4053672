//! `meridian set remove`: removes a member for ever, with the data that only it has.
//!
//! What must never enter: how the set agrees on it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use server::set;
use server::{Status, ThawQuestion, ViewStatus};

use super::warning::warning;
use crate::asking::runtime;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::status::failure;

/// The timeout until data that only the member had can be given up: first the others have to exclude it, and to make
/// their copies equal.
const LIMIT: Duration = Duration::from_secs(60);

/// The polling interval.
const PAUSE: Duration = Duration::from_millis(300);

pub(super) fn remove(slot: u16, discard: bool, data: &Path) -> Result<String, Failure> {
    set::check_keeper(data)?;
    // Removal of the keeper itself is refused below. If no server runs here, this is unknown; an administrator who does
    // not discard anything gets that error.
    let known = set::members(data)?;
    if known.keeper != slot {
        let runtime = runtime()?;
        let asked = runtime.block_on(async {
            let view = server::ask_view(data).await?;
            server::ask_status(data).await.map(|status| (view, status))
        });
        let too_few = match asked {
            Ok((view, status)) => too_few_are_left(&view, &in_contact(status), slot),
            Err(_) => leaves_one(&known, slot),
        };
        if let Some(why) = too_few {
            return Err(anyhow!("{why}; nothing was done").into());
        }
    }
    if !discard && let Some(what) = at_stake(slot, data)? {
        return Err(anyhow!(
            "{what}, and once removed it never comes back to hand that over; nothing was done. Give what it alone has up with \
             `meridian set remove {slot} --discard`"
        )
        .into());
    }
    set::revoke(data, slot)?;
    let mut text = format!(
        "Replica {slot} is removed: the members refuse it as soon as they learn of it, and the set takes it out of \
         the view and counts majorities without it when they have agreed on that (`meridian view` shows it). Its slot \
         is never used again; to return, its server joins anew, with an empty data directory.\n"
    );
    if discard {
        text += &give_up(slot, data)?;
    }
    text += &warning(&set::members(data)?);
    Ok(text)
}

/// This server, and the members that are connected to it.
fn in_contact(status: Status) -> BTreeSet<u16> {
    let replicas = status.exports.into_iter();
    let replicas = replicas.filter_map(|export| export.replication);
    let in_contact = replicas.flat_map(|replica| {
        let others = replica.peers.into_iter().filter(|peer| peer.connected);
        let others: Vec<u16> = others.map(|peer| peer.slot).collect();
        [replica.slot].into_iter().chain(others)
    });
    in_contact.collect()
}

/// Why the set could not even agree on the removal, for people: members ignore a removed one, and without it too few
/// other members are active and connected.
fn too_few_are_left(view: &ViewStatus, in_contact: &BTreeSet<u16>, slot: u16) -> Option<String> {
    // A member that has joined and was never active has no vote.
    let votes = |member: &&server::MemberView| member.active || member.excluded_at_unix_s.is_some();
    let voters = || view.members.iter().filter(votes);
    // A recently removed member counts until the others have agreed on its removal, but agrees to nothing.
    let is_member = |slot: u64| {
        let mut members = view.members.iter();
        members.any(|member| u64::from(member.slot) == slot)
    };
    let removed = view.voters.iter().filter(|slot| !is_member(**slot)).count();
    let count = voters().count() + removed;
    let majority = count / 2 + 1;
    let left = voters().filter(|member| member.active && member.slot != slot);
    // A lost member stays active until a majority has excluded it.
    let left = left.filter(|member| in_contact.contains(&member.slot));
    let left = left.count();
    let goes = voters().any(|member| member.slot == slot);
    (goes && left < majority).then(|| {
        format!(
            "without replica {slot} only {left} of {count} members would take part and be in contact, and {majority} have to agree on its removal, so \
             that the set would stand still for good. Let another server join first (`meridian set invite`; a witness is enough), or \
             start those that are away. If those that are away are gone for ever, with replica {slot} among them, stop the others and go \
             on with them alone: `meridian set recover --survivors` with their numbers"
        )
    })
}

/// The same for a set of two when no server can be asked: the remaining member would consider itself the whole set.
fn leaves_one(known: &set::Joined, slot: u16) -> Option<String> {
    let mut left = (known.members.iter()).filter(|member| !member.revoked && member.slot != slot);
    let (first, second) = (left.next(), left.next());
    (first.is_some() && second.is_none()).then(|| {
        format!(
            "no server runs here that could be asked, and without replica {slot} a single member would be left, which cannot agree on its \
             removal. Start the server and let another one join first (`meridian set invite`; a witness is enough); if replica {slot} \
             is gone for ever, go on without it: `meridian set recover --survivors` with the number of the other"
        )
    })
}

/// The data that only a member may have, for people, as far as the server here knows.
fn at_stake(slot: u16, data: &Path) -> Result<Option<String>, Failure> {
    let runtime = runtime()?;
    let view = match runtime.block_on(server::ask_view(data)) {
        Ok(view) => view,
        Err(error) if error.is_of_no_server() => {
            let error = anyhow!(
                "{error}, so nobody can tell what replica {slot} alone has; start the server, or give that up with \
                 `meridian set remove {slot} --discard`"
            );
            return Err(Failure::new(Exit::NotRunning, error));
        }
        Err(error) => return Err(failure(error)),
    };
    if let Some(what) = of_lost(&view, slot).or_else(|| of_only_complete(&view, slot)) {
        return Ok(Some(what));
    }
    let status = runtime
        .block_on(server::ask_status(data))
        .map_err(failure)?;
    let replicated = status.exports.into_iter();
    let replicated = replicated.filter_map(|export| export.replication);
    let deciding = replicated.filter(|replica| replica.slot != slot);
    let controls = deciding.flat_map(|replica| replica.controls);
    let count = controls.filter(|control| control.holder == slot).count();
    let is_active = |member: &server::MemberView| member.slot == slot && member.active;
    let decides = count > 0 && view.members.iter().any(is_active);
    Ok(decides.then(|| {
        format!(
            "replica {slot} is deciding about objects at this moment, and may have changes that nobody else has; stop its server first, \
             which hands them over"
        )
    }))
}

/// The same for a member that has left the view.
fn of_lost(view: &ViewStatus, slot: u16) -> Option<String> {
    let mut losses = view.losses.iter();
    let loss = losses.find(|loss| loss.slot == slot && !loss.settled)?;
    loss.leaves_something.then(|| {
        format!(
            "replica {slot} is lost and may alone have changes of its last moments (`meridian frozen` lists where), which it hands over when it is back"
        )
    })
}

/// The same for an active member, while the other members with contents have not finished their return: they would
/// never get the data that they still lack.
fn of_only_complete(view: &ViewStatus, slot: u16) -> Option<String> {
    let takes_part = |member: &&server::MemberView| member.active && member.kind == "data";
    let (own, others): (Vec<_>, Vec<_>) = (view.members.iter())
        .filter(takes_part)
        .partition(|member| member.slot == slot);
    let alone =
        !own.is_empty() && !others.is_empty() && !others.iter().any(|member| member.complete);
    alone.then(|| {
        format!(
            "no other replica that takes part has said yet that it has everything that replica {slot} has answered; try again in a few seconds"
        )
    })
}

/// Makes the set give up data that only the member had, as soon as that can be decided. Returns the result.
fn give_up(slot: u16, data: &Path) -> Result<String, Failure> {
    let runtime = runtime()?;
    let _progress = Progress::of("waiting for the set to agree");
    let began = Instant::now();
    let question = ThawQuestion {
        lost: slot,
        reason: "it was removed from the set with --discard".to_owned(),
        meant: true,
    };
    let mut why = String::new();
    while began.elapsed() < LIMIT {
        let view = match runtime.block_on(server::ask_view(data)) {
            Ok(view) => view,
            Err(error) => {
                why = error.to_string();
                break;
            }
        };
        let is_left = view.members.iter().any(|member| member.slot == slot);
        let loss = view.losses.iter().find(|loss| loss.slot == slot);
        match loss {
            Some(loss) if loss.settled => return Ok(GIVEN_UP.to_owned()),
            None if !is_left => return Ok(String::new()),
            None => "the others have not left it out of the view yet".clone_into(&mut why),
            Some(_) => match runtime.block_on(server::ask_thaw(data, question.clone())) {
                Ok(_) => return Ok(GIVEN_UP.to_owned()),
                Err(error) => why = error.to_string(),
            },
        }
        std::thread::sleep(PAUSE);
    }
    Ok(format!(
        "What it alone had is not given up yet ({why}). Where something of it is frozen (`meridian frozen`), that waits for \
         `meridian thaw --discard {slot} --reason TEXT`.\n"
    ))
}

const GIVEN_UP: &str = "What it alone had is given up.\n";

#[cfg(test)]
mod tests {
    use super::*;

    /// Members by state: active, away, or never active.
    fn view(members: &[Option<bool>]) -> ViewStatus {
        let member = |(slot, part): (u16, &Option<bool>)| server::MemberView {
            slot,
            kind: "data".to_owned(),
            active: *part == Some(true),
            since_epoch: 1,
            excluded_at_unix_s: (*part == Some(false)).then_some(7),
            excluded_by: None,
            reason: None,
            complete: *part == Some(true),
        };
        ViewStatus {
            epoch: 5,
            leader: None,
            takes_part: true,
            up_to_date: true,
            obstacle: None,
            lease_ms: None,
            names: server::MemberNames::new(),
            voters: BTreeSet::new(),
            voters_change: false,
            members: (1..).zip(members).map(member).collect(),
            losses: Vec::new(),
            audit: Vec::new(),
        }
    }

    const HERE: Option<bool> = Some(true);
    const AWAY: Option<bool> = Some(false);
    const NEW: Option<bool> = None;

    /// The second of two members was removed: the first one ignored it, and could not agree on anything alone.
    #[test]
    fn a_member_without_which_too_few_are_left_is_not_removed() {
        let all = || (1..=5).collect();
        let refused = |members: &[Option<bool>], slot| {
            let why = too_few_are_left(&view(members), &all(), slot);
            why.is_some_and(|why| why.contains("set recover --survivors"))
        };
        assert!(refused(&[HERE, HERE], 2));
        assert!(refused(&[HERE, HERE, AWAY], 2));
        assert!(refused(&[HERE, HERE, HERE, AWAY], 3));
        assert!(!refused(&[HERE, HERE, AWAY], 3), "two of three go on");
        assert!(!refused(&[HERE, HERE, HERE], 3));
        assert!(!refused(&[HERE, NEW], 2), "it never took part");
        assert!(!refused(&[HERE, HERE, NEW], 3));
        assert!(!refused(&[HERE], 2), "it was not taken in");
        // The fourth of four members was removed recently, and the others have not agreed on that yet.
        let mut soon = view(&[HERE, HERE, HERE]);
        assert_eq!(too_few_are_left(&soon, &all(), 3), None);
        soon.voters = [1, 2, 3, 4].into();
        assert!(too_few_are_left(&soon, &all(), 3).is_some());
        // The second member is lost, and counts as active until it is excluded.
        let lost = too_few_are_left(&view(&[HERE, HERE, HERE]), &[1, 3].into(), 3);
        assert!(lost.is_some());
    }

    /// While the second member was still returning, the first of two members and a witness was removed: data that the second still lacked was lost.
    #[test]
    fn the_only_member_with_everything_is_removed_by_an_explicit_word_alone() {
        let mut coming = view(&[HERE, HERE, HERE]);
        coming.members[1].complete = false;
        coming.members[2].kind = "witness".to_owned();
        assert!(of_only_complete(&coming, 1).is_some());
        assert_eq!(of_only_complete(&coming, 2), None, "the first has it all");
        assert_eq!(of_only_complete(&coming, 3), None, "it keeps no contents");
        assert_eq!(of_only_complete(&view(&[HERE, HERE, HERE]), 1), None);
        assert_eq!(of_only_complete(&view(&[HERE, AWAY, HERE]), 2), None);
    }
}
