//! The durability settings of directories, as far as they were read; a setting holds for everything below.
//!
//! What must never enter: where it is stored, and what waits for it.

use control::Tree;
use vfs::ObjectId;

use crate::driver::engine::{Engine, Guard};
use crate::state::settings::Durability;

/// What is known of the setting that holds for an object.
pub(crate) enum Nearest {
    /// The setting of this directory.
    Set(Durability, ObjectId),
    /// No directory above has one.
    Default,
    /// The setting of this directory must be read first; the number is for [`Engine::learn_durability`].
    Unread(ObjectId, u64),
}

impl Engine {
    /// The setting that holds for an object.
    pub(crate) fn nearest_durability(&self, object: ObjectId) -> Nearest {
        self.with_core(|guard| guard.nearest_durability(object))
    }

    /// A directory's own setting was read, after `generation` was asked for.
    pub(crate) fn learn_durability(
        &self,
        generation: u64,
        directory: ObjectId,
        own: Option<Durability>,
    ) {
        self.with_core(|guard| guard.ledger.durability.learn(generation, directory, own));
    }

    /// Whether this directory, or a known directory below it, has relaxed durability.
    pub(crate) fn knows_relaxed_below(&self, directory: ObjectId) -> bool {
        self.with_core(|guard| {
            let known = guard.ledger.durability.own.iter();
            let relaxed = known.filter(|(_, own)| **own == Some(Durability::Relaxed));
            let mut relaxed = relaxed.map(|(place, _)| *place);
            relaxed.any(|place| {
                place == directory || control::ancestors(&guard.tree, place).contains(&directory)
            })
        })
    }
}

impl Guard<'_> {
    fn nearest_durability(&self, object: ObjectId) -> Nearest {
        let known = &self.ledger.durability;
        let mut place = Some(object);
        while let Some(here) = place {
            match known.own.get(&here) {
                Some(Some(durability)) => return Nearest::Set(*durability, here),
                Some(None) => place = self.tree.parents(here).first().copied(),
                None => return Nearest::Unread(here, known.generation),
            }
        }
        Nearest::Default
    }
}
