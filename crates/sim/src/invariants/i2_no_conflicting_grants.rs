//! I2: no replica acknowledges two controls that conflict by Figure 2, unless both are frozen: of
//! two lost replicas one may have won only what the other had given up unheard. What somebody had
//! asked for before it was started anew is like that, too: it may never have won it, or have given
//! it up since, unheard. So is one that a lost replica had ended: a replica that had heard of that
//! may have forgotten it with a restart, and others never knew. So is one that has ended at a replica
//! outside the view, which is told of no end: nobody counts what it acknowledges, and it is told
//! what is held when it is admitted. What is in dispute is not acknowledged.

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
