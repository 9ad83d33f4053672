//! I3: once a close is answered, every replica that may answer has that version or would forward an open to
//! the primary. Opens cannot be forwarded to a lost primary; what it controls is frozen.

use super::Broken;
use crate::replica::Replica;
use crate::world::World;
use control::Tree;
use std::collections::BTreeSet;
use vfs::ObjectId;

/// What is known when a client is told that a file is closed.
#[derive(Clone, Debug)]
pub struct Closed {
    /// The version that was closed.
    pub version: u64,
    /// The directories with a name of the file.
    pub directories: Vec<ObjectId>,
}

/// Files closed in this step are checked at all replicas, other files only at the changed replica.
pub(crate) fn check(world: &World, changed: &Replica) -> Result<(), Broken> {
    for (file, closed) in &world.closed {
        let is_new = world.just_closed.contains(file);
        let mut replicas = world.replicas.values();
        let blind = replicas.find(|replica| {
            (is_new || replica.slot == changed.slot)
                && world.holds_data(replica.slot)
                && !is_seen(world, replica, *file, closed)
                && world.may_answer(replica.slot)
        });
        if let Some(replica) = blind {
            let sight = format!(
                "replica {} answers opens of {file} from version {:?}, closed was {}",
                replica.slot.0,
                replica.tree.version(*file),
                closed.version
            );
            return Err(("I3", sight));
        }
    }
    Ok(())
}

/// A file that the copy lacks is opened by name, so the directory's primary is asked.
fn is_seen(world: &World, replica: &Replica, file: ObjectId, closed: &Closed) -> bool {
    match replica.tree.version(file) {
        Some(version) => version >= closed.version || forwards(replica, file),
        None => closed
            .directories
            .iter()
            .any(|directory| leads_elsewhere(world, replica, *directory)),
    }
}

fn forwards(replica: &Replica, object: ObjectId) -> bool {
    let control = replica.core.foreign_control(&replica.tree, object);
    control.is_some()
}

/// Whether another replica is asked for the names in a directory. A directory that the copy lacks, too, is itself looked up by name,
/// in every directory that has it in any copy.
fn leads_elsewhere(world: &World, replica: &Replica, directory: ObjectId) -> bool {
    if replica.tree.version(directory).is_some() {
        return forwards(replica, directory);
    }
    let others = world.replicas.values();
    let above = others.flat_map(|other| other.tree.parents(directory));
    let above: BTreeSet<ObjectId> = above.collect();
    let mut leading = above.iter();
    !above.is_empty() && leading.all(|parent| leads_elsewhere(world, replica, *parent))
}
