//! Rows of objects, compared with those of other copies.
//!
//! Copies always differ by the updates on their way. So a difference counts only if it persists after both copies have applied everything that either
//! had at first sight, and neither has changed meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use vfs::{ObjectId, ReplicaSlot, Result};

use super::answers;
use super::asking::{PAUSE, ask, blocking, called};
use crate::driver::local_replica::LocalReplica;
use crate::replication::base;
use crate::state::wire::{ScrubAnswer, ScrubQuestion};

/// How often a difference is checked before it is left to the next run.
const ROUNDS: usize = 20;
/// At most this many differing objects of one page are checked closely.
const SUSPECTS: usize = 16;

/// The rows of some objects in one copy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rows {
    objects: u64,
    hash: [u8; 32],
    places: BTreeMap<u16, u64>,
}

impl Rows {
    fn from_answer(answer: ScrubAnswer) -> Option<Rows> {
        match answer {
            ScrubAnswer::Rows {
                objects,
                hash,
                places,
            } => Some(Rows {
                objects,
                hash,
                places: places.into_iter().collect(),
            }),
            _ => None,
        }
    }

    fn same(&self, other: &Rows) -> bool {
        (self.objects, self.hash) == (other.objects, other.hash)
    }

    /// Whether everything that either copy of the pair had applied was applied here.
    fn is_behind_none(&self, pair: &(Rows, Rows)) -> bool {
        let mut wanted = pair.0.places.iter().chain(&pair.1.places);
        wanted.all(|(slot, place)| self.places.get(slot).is_none_or(|here| here >= place))
    }
}

type Range = (ObjectId, ObjectId);

/// The result of a closer check.
enum Verdict {
    Same,
    /// The copies differ permanently; the digest of the other copy.
    Differs([u8; 32]),
    /// It changes all the time, or the other replica does not answer.
    Unknown,
}

/// Compares the rows of a page of objects with one other copy.
pub(super) async fn compare(replica: &Arc<LocalReplica>, page: Range) -> Result<()> {
    for other in replica.holders_in_contact() {
        let Some((own, theirs)) = both(replica, other, page).await? else {
            continue;
        };
        if own.same(&theirs) {
            return Ok(());
        }
        if let Verdict::Same = look_closely(replica, other, page, 3).await? {
            return Ok(());
        }
        for suspect in differing(replica, other, page).await? {
            if let Verdict::Differs(theirs) = look_closely(replica, other, suspect, ROUNDS).await? {
                decide(replica, other, theirs, suspect).await?;
            }
        }
        return Ok(());
    }
    Ok(())
}

async fn both(
    replica: &Arc<LocalReplica>,
    other: ReplicaSlot,
    (from, through): Range,
) -> Result<Option<(Rows, Rows)>> {
    let theirs = ask(replica, other, ScrubQuestion::Rows { from, through }).await;
    let own = answers::digest(replica, from, through).await?;
    Ok(Rows::from_answer(own).zip(theirs.and_then(Rows::from_answer)))
}

/// Checks until the copies are equal, or differ though nothing is on its way.
async fn look_closely(
    replica: &Arc<LocalReplica>,
    other: ReplicaSlot,
    range: Range,
    rounds: usize,
) -> Result<Verdict> {
    let Some(mut first) = both(replica, other, range).await? else {
        return Ok(Verdict::Unknown);
    };
    for _ in 0..rounds {
        if first.0.same(&first.1) {
            return Ok(Verdict::Same);
        }
        tokio::time::sleep(PAUSE).await;
        let Some(next) = both(replica, other, range).await? else {
            return Ok(Verdict::Unknown);
        };
        if next.0.same(&next.1) {
            return Ok(Verdict::Same);
        }
        let unchanged = next.0.same(&first.0) && next.1.same(&first.1);
        let settled = next.0.is_behind_none(&first) && next.1.is_behind_none(&first);
        match (unchanged, settled) {
            (true, true) => return Ok(Verdict::Differs(next.1.hash)),
            // An update on its way to one of them must arrive first.
            (true, false) => {}
            (false, _) => first = next,
        }
    }
    Ok(Verdict::Unknown)
}

/// The objects of a page that differ at first sight, each as a range in which each copy has at most one object.
async fn differing(
    replica: &Arc<LocalReplica>,
    other: ReplicaSlot,
    page: Range,
) -> Result<Vec<Range>> {
    let (mut open, mut found) = (vec![page], Vec::new());
    while let Some((from, through)) = open.pop() {
        let Some((own, theirs)) = both(replica, other, (from, through)).await? else {
            break;
        };
        if own.same(&theirs) {
            continue;
        }
        if (own.objects <= 1 && theirs.objects <= 1) || from == through {
            found.push((from, through));
            if found.len() >= SUSPECTS {
                break;
            }
            continue;
        }
        let middle = middle(replica, &own, (from, through)).await?;
        open.push((ObjectId::from_u64(middle.as_u64() + 1), through));
        open.push((from, middle));
    }
    Ok(found)
}

/// Where to split a range of more than one identifier: after half of the local objects, or in the middle.
async fn middle(
    replica: &Arc<LocalReplica>,
    own: &Rows,
    (from, through): Range,
) -> Result<ObjectId> {
    let (low, high) = (from.as_u64(), through.as_u64());
    let halfway = ObjectId::from_u64(low + (high - low) / 2);
    if own.objects < 2 {
        return Ok(halfway);
    }
    let (store, half) = (replica.store.clone(), own.objects / 2);
    let digest = blocking(move || store.digest_metadata(from..=through, half)).await?;
    Ok(if digest.through < through {
        digest.through
    } else {
        halfway
    })
}

/// A copy differs from another one permanently: asks a third replica, and reports what is known.
async fn decide(
    replica: &Arc<LocalReplica>,
    other: ReplicaSlot,
    theirs: [u8; 32],
    range: Range,
) -> Result<()> {
    let (object, name) = first_of(replica, range);
    let mut with_us = 1;
    let mut with_them = 1;
    for third in replica
        .holders_in_contact()
        .into_iter()
        .filter(|slot| *slot != other)
    {
        match look_closely(replica, third, range, ROUNDS).await? {
            Verdict::Same => with_us += 1,
            Verdict::Differs(hash) if hash == theirs => with_them += 1,
            Verdict::Differs(_) | Verdict::Unknown => {}
        }
    }
    let who = other.0;
    if with_them > with_us {
        let what = format!(
            "{name} is not what {with_them} other copies say; this server gets a whole copy anew"
        );
        replica.state.scrub.undecided(object, what.clone());
        base::take_copy_anew(replica, &what).await;
    } else {
        let known = match with_us > with_them {
            true => "and is outvoted; it mends itself when it compares its copy",
            false => "and nobody can tell which is right",
        };
        let what = format!("{name} is another one at replica {who}, {known}");
        replica.state.scrub.undecided(object, what);
    }
    Ok(())
}

/// The object in a range, for display.
fn first_of(replica: &LocalReplica, (from, through): Range) -> (ObjectId, String) {
    let first = replica.store.digest_metadata(from..=through, 1);
    let object = first.map_or(through, |digest| digest.through);
    (object, called(replica, object))
}
