//! When the local copy answers for names of a directory about which another replica decides (main paper, section 3.3).
//!
//! What must never enter: how names are looked up and listed.

use vfs::{Attributes, ChangeAttribute, DirectoryPage, ObjectId};

use super::ReplicatedFileSystem;
use crate::state::forward::{Found, Operation, Value};
use crate::state::settings::NameSpace;

impl ReplicatedFileSystem {
    /// Whether the local copy may say what a directory has, though another replica decides about that: names are `relaxed`, and no client of
    /// this server knows a newer version, under which it would cache older names. What a lost replica decided about is frozen.
    pub(super) async fn shows_own_names(&self, directory: ObjectId) -> bool {
        let replica = &self.replica;
        if replica.state.settings.name_space != NameSpace::Relaxed || self.is_forwarded() {
            return false;
        }
        let anything_foreign = || replica.engine.anything_foreign();
        if !anything_foreign() {
            replica.state.told.clear_unless(anything_foreign);
            return false;
        }
        let frozen = self.holder(directory).is_some_and(|by| self.is_lost(by));
        if frozen || !self.may_answer() {
            return false;
        }
        let own = self.local(directory).await;
        own.is_ok_and(|own| !replica.state.told.may_be_newer(directory, own.change))
    }

    /// Notes the versions of directories in an answer of another replica.
    pub(super) async fn note_told(&self, operation: impl Fn() -> Operation, answer: &Value) {
        if self.replica.state.settings.name_space != NameSpace::Relaxed {
            return;
        }
        let mut versions = versions_in(&operation(), answer);
        if let Value::Page(page, _) = answer {
            versions.extend(self.newer_in(page).await);
        }
        for (directory, version) in versions {
            let told = &self.replica.state.told;
            told.note(directory, version, |id| self.holder(id).is_some());
        }
    }

    /// The versions of directories among the entries of a page, if the local copy is older.
    async fn newer_in(&self, page: &DirectoryPage) -> Vec<(ObjectId, ChangeAttribute)> {
        let mut newer = Vec::new();
        for told in page.entries.iter().map(|entry| &entry.attributes) {
            if told.is_directory()
                && (self.local(told.id).await).map_or(true, |own| own.change < told.change)
            {
                newer.push((told.id, told.change));
            }
        }
        newer
    }
}

/// The versions of directories in the answer to an operation.
fn versions_in(operation: &Operation, answer: &Value) -> Vec<(ObjectId, ChangeAttribute)> {
    use Operation as O;
    let of = |found: &Attributes| found.is_directory().then_some((found.id, found.change));
    match (operation, answer) {
        (
            _,
            Value::Attributes(found)
            | Value::Found(Found {
                attributes: found, ..
            }),
        ) => of(found).into_iter().collect(),
        // The rest of the listing is no older.
        (O::ReadDirectory(_, directory, ..), Value::Page(_, version)) => {
            vec![(*directory, *version)]
        }
        (O::Create(_, directory, ..), Value::Created(created)) => {
            let around = (*directory, created.directory.after);
            [around]
                .into_iter()
                .chain(of(&created.attributes))
                .collect()
        }
        (
            O::Remove(_, object, _)
            | O::Link(_, _, object, _)
            | O::SetXattr(_, object, ..)
            | O::RemoveXattr(_, object, _),
            Value::Change(change),
        ) => vec![(*object, change.after)],
        (O::Rename(_, (from, _), (to, _)), Value::Changes(source, target)) => {
            vec![(*from, source.after), (*to, target.after)]
        }
        _ => Vec::new(),
    }
}
