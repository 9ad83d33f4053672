//! I6: the ancestry table always equals one rebuilt from the controls and the tree.

use super::Broken;
use crate::replica::Replica;

pub(crate) fn check(replica: &Replica) -> Result<(), Broken> {
    if replica.core.ancestry_is_exact(&replica.tree) {
        return Ok(());
    }
    Err(("I6", format!("replica {} miscounts", replica.slot.0)))
}
