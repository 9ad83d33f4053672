//! Where a home keeps names that no client sees: names that keep files alive for names at other homes, and records of operations over two
//! homes. So each store is a complete tree.
//!
//! At a joined server they are in the root of its store. At the first server they are in a directory of the root with a reserved name.
//!
//! What must never enter: what the names stand for.

use std::fmt::Write;

use vfs::{
    Cookie, Credentials, DirectoryChange, Error, FileSystem, Name, NewObject, ObjectId, ObjectKind,
    Result,
};

use crate::pool_tree::{Part, PoolTree};
use crate::question::other_answer;

/// The directory at the first server.
const RESERVED: &str = ".meridian-pool";
/// Entries read at once.
const ENTRIES_AT_ONCE: usize = 1024;

/// A name of numbers after a word that says what it stands for.
pub(crate) fn numbered(word: &str, numbers: &[u64]) -> Result<Name> {
    let mut name = word.to_owned();
    for number in numbers {
        write!(name, "-{number:x}").map_err(|_| other_answer())?;
    }
    Ok(Name::new(name.into_bytes())?)
}

/// The numbers of such a name. `None` for other names.
pub(crate) fn numbers<const N: usize>(word: &str, name: &Name) -> Option<[u64; N]> {
    let name = std::str::from_utf8(name.as_bytes()).ok()?;
    let rest = name.strip_prefix(word)?.strip_prefix('-')?;
    let each = rest.split('-');
    let each: std::result::Result<Vec<u64>, _> =
        each.map(|part| u64::from_str_radix(part, 16)).collect();
    each.ok()?.try_into().ok()
}

impl PoolTree {
    /// Whether this name is reserved.
    pub(crate) fn is_reserved(&self, directory: ObjectId, name: &Name) -> bool {
        let is_first = matches!(self.part, Part::First { .. });
        is_first
            && directory == ObjectId::ROOT
            && name.as_bytes() == RESERVED.as_bytes()
            && self.has_others()
    }

    /// The directory of hidden names, if there is one.
    pub(crate) async fn find_hidden(&self) -> Result<Option<ObjectId>> {
        if matches!(self.part, Part::Joined { .. }) {
            return Ok(Some(ObjectId::ROOT));
        }
        if let Some(known) = self.hidden_directory.get() {
            return Ok(Some(*known));
        }
        let (root, name) = (Credentials::root(), reserved()?);
        // Also at the start, before this server has met others.
        match self.store.lookup(&root, ObjectId::ROOT, &name).await {
            Ok(found) => {
                // Another task may already have set the same value.
                let _ = self.hidden_directory.set(found.id);
                Ok(Some(found.id))
            }
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The directory of hidden names, made if there is none.
    pub(crate) async fn need_hidden(&self) -> Result<ObjectId> {
        if let Some(known) = self.find_hidden().await? {
            return Ok(known);
        }
        let (root, name) = (Credentials::root(), reserved()?);
        let plain = NewObject::Plain(ObjectKind::Directory);
        let set = vfs::SetAttributes {
            mode: Some(0o700),
            ..vfs::SetAttributes::default()
        };
        let made = self
            .own
            .create(&root, ObjectId::ROOT, &name, plain, &set)
            .await;
        match made {
            Ok(_) | Err(Error::Exists) => self.find_hidden().await?.ok_or(Error::Delay),
            Err(error) => Err(error),
        }
    }

    /// All hidden names, and the objects they lead to.
    pub(crate) async fn hidden_names(&self) -> Result<Vec<(Name, ObjectId)>> {
        let Some(directory) = self.find_hidden().await? else {
            return Ok(Vec::new());
        };
        let (root, mut after, mut all) = (Credentials::root(), Cookie::START, Vec::new());
        loop {
            let page = self
                .store
                .read_directory(&root, directory, after, ENTRIES_AT_ONCE);
            let page = page.await?;
            let entries = page.entries.into_iter();
            all.extend(entries.map(|entry| {
                after = entry.cookie;
                (entry.name, entry.attributes.id)
            }));
            if page.end {
                return Ok(all);
            }
        }
    }

    /// The object that a hidden name leads to.
    pub(crate) async fn hidden_name(&self, name: &Name) -> Result<Option<ObjectId>> {
        let Some(directory) = self.find_hidden().await? else {
            return Ok(None);
        };
        let root = Credentials::root();
        match self.store.lookup(&root, directory, name).await {
            Ok(found) => Ok(Some(found.id)),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a hidden name, if it is there.
    pub(crate) async fn drop_hidden(&self, name: &Name) -> Result<()> {
        let Some(directory) = self.find_hidden().await? else {
            return Ok(());
        };
        self.drop_name((directory, name)).await
    }

    /// Removes a name if it exists, unless it leads to a directory. The object may lie here or elsewhere.
    pub(crate) async fn drop_name(&self, (directory, name): (ObjectId, &Name)) -> Result<()> {
        let root = Credentials::root();
        let removed = match self.own.remove(&root, directory, name).await {
            Err(Error::CrossHome) => {
                let id = self.store.lookup(&root, directory, name).await?.id;
                self.drop_elsewhere((directory, name), id).await
            }
            removed => removed,
        };
        match removed {
            Ok(_) | Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes a name of an object that lies elsewhere, without asking its home.
    pub(crate) async fn drop_elsewhere(
        &self,
        place: (ObjectId, &Name),
        id: ObjectId,
    ) -> Result<DirectoryChange> {
        let (root, since) = (Credentials::root(), self.holders.begin_again());
        let removed = self.store.remove_elsewhere(&root, place, id).await;
        self.holders.settled(since, &[place.0, id]).await;
        removed
    }
}

fn reserved() -> Result<Name> {
    Ok(Name::new(RESERVED.as_bytes().to_vec())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_other_names_have_none() {
        let name = numbered("move", &[7, u64::MAX]).unwrap();
        assert_eq!(numbers("move", &name), Some([7, u64::MAX]));
        assert_eq!(numbers::<3>("move", &name), None);
        assert_eq!(numbers::<2>("moved", &name), None);
        let other = Name::new(b"move-7-".to_vec()).unwrap();
        assert_eq!(numbers::<2>("move", &other), None);
    }
}
