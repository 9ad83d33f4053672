//! Versions of directories that clients of this server were told, and that its own copy may not have yet. Names are not answered from an older copy,
//! because clients keep them under the version that they know (rule 21, counterexample 20).
//!
//! An entry is needed as long as another replica decides about its directory: control ends only when everything made under it has been applied
//! everywhere (rule 13).
//!
//! What must never enter: which replica decides about a directory, and what names lead to.

use std::collections::HashMap;

use vfs::{ChangeAttribute, ObjectId};

use crate::state::locks::Table;

/// At most this many directories are remembered.
const MOST: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Told(Table<Versions>);

#[derive(Debug, Default)]
struct Versions {
    of: HashMap<ObjectId, ChangeAttribute>,
    /// There was no space for an entry.
    forgot: bool,
}

impl Told {
    /// A client is about to be told that a directory has this version. `is_foreign` says about which directories others decide.
    pub(crate) fn note(
        &self,
        directory: ObjectId,
        version: ChangeAttribute,
        is_foreign: impl Fn(ObjectId) -> bool,
    ) {
        if self.has_no_space_for(directory) {
            self.retain(is_foreign);
        }
        let mut versions = self.0.lock();
        if versions.of.len() >= MOST && !versions.of.contains_key(&directory) {
            versions.forgot = true;
            return;
        }
        let known = versions.of.entry(directory).or_insert(version);
        *known = version.max(*known);
    }

    fn has_no_space_for(&self, directory: ObjectId) -> bool {
        let versions = self.0.lock();
        versions.of.len() >= MOST && !versions.forgot && !versions.of.contains_key(&directory)
    }

    /// Calls `is_foreign` without the lock, because the core comes before it in the order of locks.
    fn retain(&self, is_foreign: impl Fn(ObjectId) -> bool) {
        let known: Vec<_> = self.0.lock().of.clone().into_iter().collect();
        let over = known.into_iter().filter(|(id, _)| !is_foreign(*id));
        let over: Vec<_> = over.collect();
        let mut versions = self.0.lock();
        for (directory, version) in over {
            // Another version may have been noted since.
            if versions.of.get(&directory) == Some(&version) {
                versions.of.remove(&directory);
            }
        }
    }

    /// Forgets everything, unless others decide about some directory: otherwise the local copy has everything that any client was told. The check
    /// runs while nothing can be noted, so entries noted before are obsolete, or others do decide about them.
    pub(crate) fn clear_unless(&self, anything_foreign: impl FnOnce() -> bool) {
        let mut versions = self.0.lock();
        if anything_foreign() {
            return;
        }
        versions.of.clear();
        versions.forgot = false;
    }

    /// Whether a client may have been told a newer version of a directory than this one.
    pub(crate) fn may_be_newer(&self, directory: ObjectId, version: ChangeAttribute) -> bool {
        let mut versions = self.0.lock();
        let newer = versions
            .of
            .get(&directory)
            .is_some_and(|told| *told > version);
        if !newer {
            versions.of.remove(&directory);
        }
        newer || versions.forgot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> ObjectId {
        ObjectId::from_u64(number)
    }

    const OLD: ChangeAttribute = ChangeAttribute(10);
    const NEW: ChangeAttribute = ChangeAttribute(11);

    #[test]
    fn an_older_copy_is_found_out_until_it_has_caught_up() {
        let told = Told::default();
        told.note(id(1), NEW, |_| true);
        told.note(id(1), OLD, |_| true);
        assert!(told.may_be_newer(id(1), OLD));
        assert!(!told.may_be_newer(id(2), OLD));
        assert!(!told.may_be_newer(id(1), NEW));
        assert!(!told.may_be_newer(id(1), NEW));
    }

    /// Then no copy counts as new enough, until no other replica decides about anything.
    #[test]
    fn when_there_is_no_space_every_copy_may_be_older() {
        let told = Told::default();
        let most = MOST as u64;
        (0..most).for_each(|number| told.note(id(number), NEW, |_| true));
        assert!(!told.may_be_newer(id(most), OLD));
        told.note(id(most), NEW, |directory| directory != id(7));
        assert!(
            told.may_be_newer(id(most), OLD),
            "it has the place of one that is over"
        );
        assert!(!told.may_be_newer(id(7), OLD));
        told.note(id(7), NEW, |_| true);
        told.note(id(most + 1), NEW, |_| true);
        assert!(told.may_be_newer(id(most + 1), OLD));
        assert!(told.may_be_newer(id(most + 2), OLD));
        told.clear_unless(|| true);
        assert!(told.may_be_newer(id(1), OLD));
        told.clear_unless(|| false);
        assert!(!told.may_be_newer(id(1), OLD));
    }
}
