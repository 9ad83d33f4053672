//! Directory pages with entries that live at another home than their names.
//!
//! What must never enter: which home that is.

use std::collections::BTreeMap;

use vfs::{Attributes, Cookie, Credentials, DirectoryPage, Error, ObjectId, ReplicaSlot, Result};

use super::{Home, PoolTree};
use crate::home::ENTRIES_MAX;

impl PoolTree {
    /// [`vfs::FileSystem::read_directory`] for a client of this server, or of another one. Asks each other home once per page. Entries
    /// whose home is away are listed nevertheless (rule 13).
    pub(crate) async fn read_directory_for(
        &self,
        asker: Option<ReplicaSlot>,
        who: &Credentials,
        directory: ObjectId,
        (after, max_entries): (Cookie, usize),
    ) -> Result<DirectoryPage> {
        let at = self.at(directory);
        let max_entries = max_entries.min(ENTRIES_MAX as usize);
        let mut page = at
            .read_directory(who, directory, after, max_entries)
            .await?;
        if !self.has_others() {
            return Ok(page);
        }
        if !self.is_elsewhere(directory) {
            page.entries
                .retain(|entry| !self.is_reserved(directory, &entry.name));
            let leaving = self.leaving_of(directory);
            if page.entries.iter().any(|it| leaving.contains(&it.name)) {
                return Err(Error::Delay);
            }
        }
        let mut elsewhere: BTreeMap<Home, Vec<ObjectId>> = BTreeMap::new();
        for entry in &page.entries {
            let id = entry.attributes.id;
            // An asking server already knows the objects that live there.
            if self.home(id) != self.home(directory) && asker != Some(id.slot()) {
                elsewhere.entry(self.home(id)).or_default().push(id);
            }
        }
        let mut found = BTreeMap::new();
        for ids in elsewhere.into_values() {
            let each = self.attributes_at_home(&ids).await;
            found.extend(ids.into_iter().zip(each));
        }
        if !self.is_elsewhere(directory) {
            self.drop_lost_of(directory, &page, &found).await?;
        }
        let mut unread = std::mem::take(&mut page.unread);
        page.entries
            .retain_mut(|entry| match found.get(&entry.attributes.id).cloned() {
                None => true,
                Some(Ok(attributes)) => {
                    unread.remove(&entry.cookie);
                    entry.attributes = attributes;
                    true
                }
                // The name was removed meanwhile.
                Some(Err(Error::Stale)) => false,
                Some(Err(_)) => {
                    unread.insert(entry.cookie);
                    true
                }
            });
        page.unread = unread;
        Ok(page)
    }

    /// Removes names on the page of files that are lost with their homes.
    async fn drop_lost_of(
        &self,
        directory: ObjectId,
        page: &DirectoryPage,
        found: &BTreeMap<ObjectId, Result<Attributes>>,
    ) -> Result<()> {
        let root = Credentials::root();
        for entry in &page.entries {
            if found.get(&entry.attributes.id) == Some(&Err(Error::Stale)) {
                match self.lookup_for(None, &root, (directory, &entry.name)).await {
                    // It was removed now or meanwhile.
                    Ok(_) | Err(Error::NotFound | Error::Stale) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// The home's attributes of each of these objects, which share one home.
    async fn attributes_at_home(&self, ids: &[ObjectId]) -> Vec<Result<Attributes>> {
        let Some(other) = ids.first().and_then(|id| self.other(*id)) else {
            let mut each = Vec::with_capacity(ids.len());
            for id in ids {
                each.push(self.own.attributes(*id).await);
            }
            return each;
        };
        match other.attributes_of(ids.to_vec()).await {
            Ok(each) => each,
            Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}
