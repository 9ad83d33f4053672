//! I2: no replica acknowledges two controls that conflict by Figure 2.

use super::Broken;
use crate::replica::Replica;

pub(crate) fn check(replica: &Replica) -> Result<(), Broken> {
    let grants: Vec<_> = replica.core.acknowledged().collect();
    for (place, one) in grants.iter().enumerate() {
        let mut others = grants[place + 1..].iter();
        if let Some(other) = others.find(|other| one.conflicts_with(&replica.tree, other)) {
            let sight = format!(
                "replica {} acknowledges both {one:?} and {other:?}",
                replica.slot.0
            );
            return Err(("I2", sight));
        }
    }
    Ok(())
}
