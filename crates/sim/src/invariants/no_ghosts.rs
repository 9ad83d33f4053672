//! At rest, nothing is left of a removed replica: no replica counts it, shows it or waits for it, whatever happened before
//! (rule 31).

use super::Broken;
use crate::replica::Replica;
use crate::world::World;
use control::ReplicaSlot;

pub(crate) fn check(world: &World) -> Result<(), Broken> {
    for replica in world.remaining() {
        for gone in &world.gone {
            if let Some(trace) = trace(replica, *gone) {
                let sight = format!(
                    "replica {} {trace} replica {}, which is removed",
                    replica.slot.0, gone.0
                );
                return Err(("31 (no ghosts)", sight));
            }
        }
    }
    Ok(())
}

/// What a replica still has from a removed replica.
fn trace(replica: &Replica, gone: ReplicaSlot) -> Option<&'static str> {
    let (core, site) = (&replica.core, &replica.site);
    let view = core.view();
    let waits = |(proposal, obstacles): (&control::Proposal, &[control::Obstacle])| {
        let behind = proposal.behind.iter().any(|name| name.holder == gone);
        let mut obstacles = obstacles.iter();
        proposal.name.holder == gone || behind || obstacles.any(|one| one.name.holder == gone)
    };
    let lacks = |missing: &Vec<ReplicaSlot>| missing.contains(&gone);
    let traces = [
        (view.configured.contains(&gone), "counts"),
        (view.active.contains(&gone), "shows as active"),
        (view.since.contains_key(&gone), "knows an admission of"),
        (
            core.acknowledged().any(|grant| grant.name.holder == gone),
            "acknowledges a control of",
        ),
        (core.waiting().any(waits), "lets a proposal wait for"),
        (
            replica
                .unshipped
                .values()
                .any(|(_, missing)| lacks(missing)),
            "keeps contents for",
        ),
        (site.closed_to.contains(&gone), "settles the loss of"),
        (site.waiting.contains_key(&gone), "hears from"),
    ];
    let trace = traces.into_iter().find(|(left, _)| *left);
    trace.map(|(_, trace)| trace)
}
