//! I3: once a close is answered, every replica that may answer has that version or would forward an open to
//! the primary; to one that is lost, nobody can forward, and what it controls is frozen.

use super::Broken;
use crate::replica::Replica;
use crate::world::World;
use vfs::ObjectId;

/// What a client was told when it closed a file.
#[derive(Clone, Debug)]
pub struct Closed {
    /// The version that was closed.
    pub version: u64,
    /// The directories with a name of the file.
    pub directories: Vec<ObjectId>,
}

/// What was closed in this very step is looked at everywhere, the rest where something has changed.
pub(crate) fn check(world: &World, changed: &Replica) -> Result<(), Broken> {
    for (file, closed) in &world.closed {
        let is_new = world.just_closed.contains(file);
        let mut replicas = world.replicas.values();
        let blind = replicas.find(|replica| {
            (is_new || replica.slot == changed.slot)
                && !is_seen(replica, *file, closed)
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
fn is_seen(replica: &Replica, file: ObjectId, closed: &Closed) -> bool {
    let forwards = |object| {
        replica
            .core
            .foreign_control(&replica.tree, object)
            .is_some()
    };
    match replica.tree.version(file) {
        Some(version) => version >= closed.version || forwards(file),
        None => closed
            .directories
            .iter()
            .any(|directory| forwards(*directory)),
    }
}
