//! I3 for the caches of clients: no client keeps an entry of a directory from before a change under the change attribute
//! from after it. The entry would stay until the directory changes again.

use super::Broken;
use crate::replica::Replica;
use crate::world::World;

/// Compares the caches of clients with a copy of the same version. An entry from a later version is harmless: the client drops
/// it when it sees the change attribute of that version.
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
