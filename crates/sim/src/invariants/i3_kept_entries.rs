//! I3, for what clients keep: nobody keeps an entry of a directory from before a change under the change attribute
//! from after it, where it would stay until the directory changes again.

use super::Broken;
use crate::replica::Replica;
use crate::world::World;

/// Compares what clients keep with a copy of the same version. An entry from a later version is no harm: the client drops
/// it when it sees the attribute of that one.
pub(crate) fn check(world: &World, changed: &Replica) -> Result<(), Broken> {
    for (number, reader) in world.readers.iter().enumerate() {
        for (directory, kept) in &reader.kept {
            if changed.tree.version(*directory) != Some(kept.change) {
                continue;
            }
            let entries = changed.tree.entries(*directory);
            let stale = kept.entries.iter().find(|(name, entry)| {
                let object = entries.and_then(|entries| entries.get(*name));
                entry.of < kept.change && entry.object.as_ref() != object
            });
            if let Some((name, entry)) = stale {
                let sight = format!(
                    "reader {number} keeps {entry:?} as {name} of {directory} under change {}",
                    kept.change
                );
                return Err(("I3 (clients keep no stale entries)", sight));
            }
        }
    }
    Ok(())
}
