//! I2: no replica acknowledges two controls that conflict by Figure 2, with these exceptions. Both are frozen: one lost
//! replica may have won only what the other had given up, while no other replica heard of it. A replica had asked for one of them before its restart:
//! it may never have won it, or may have given it up since, unknown to the others. A lost replica had ended one of them:
//! replicas that knew of the end may have forgotten it with a restart, and others never knew. One has ended at a replica
//! outside the view, which is told of no end: its acknowledgements do not count, and it is told
//! what is held when it is admitted. Disputed controls are not acknowledged.

use super::Broken;
use crate::replica::Replica;
use crate::world::World;
use control::Proposal;

pub(crate) fn check(world: &World, replica: &Replica) -> Result<(), Broken> {
    let view = replica.core.view();
    let previous = |grant: &Proposal| {
        let holder = world.replicas.get(&grant.name.holder);
        holder.is_some_and(|holder| grant.name.incarnation.0 < holder.site.incarnation)
    };
    let grants = replica.core.acknowledged();
    let grants = grants.filter(|grant| !replica.core.is_in_dispute(grant.name));
    let grants: Vec<_> = grants.collect();
    for (place, one) in grants.iter().enumerate() {
        let mut others = grants[place + 1..].iter();
        let lost = |grant: &Proposal| !view.active.contains(&grant.name.holder) || previous(grant);
        let is_outside = !view.active.contains(&replica.slot);
        let over = |grant: &Proposal| {
            let is_lost = !view.active.contains(&grant.name.holder);
            (is_lost || is_outside) && world.ended.contains(&grant.name)
        };
        let harmless = |other: &Proposal| lost(one) && lost(other) || over(one) || over(other);
        let conflict =
            others.find(|other| !harmless(other) && one.conflicts_with(&replica.tree, other));
        if let Some(other) = conflict {
            let sight = format!(
                "replica {} acknowledges both {one:?} and {other:?}",
                replica.slot.0
            );
            return Err(("I2", sight));
        }
    }
    Ok(())
}
