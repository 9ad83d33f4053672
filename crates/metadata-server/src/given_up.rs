//! A home that is lost for good, with the directories that lived there: its names at the first server go, and files of the first server that had
//! names nowhere else get one.
//!
//! What must never enter: who says that it is lost.

use std::collections::BTreeMap;

use vfs::{
    Attributes, Cookie, Credentials, Error, FileSystem, Name, NewObject, ObjectId, ObjectKind,
    ReplicaSlot, Result, SetAttributes, ShownBytes,
};

use crate::held::held_by;
use crate::pool_tree::{Part, PoolTree};
use crate::question::{Answer, Question};

/// Entries that are read at once.
const ENTRIES_AT_ONCE: usize = 256;
/// How often names are looked for, while clients change some.
const WALKS: usize = 8;
/// What only root may do with a directory of files that were found.
const OWNERS_ALONE: u32 = 0o700;
const PERMISSIONS: u32 = 0o777;

/// A name at the first server of something that lives at another home.
struct NameAt {
    directory: ObjectId,
    name: Name,
    id: ObjectId,
    path: String,
}

/// A way through the first server's directories, along all names of what lives at another home.
struct NamesAt {
    home: ReplicaSlot,
    /// Where to go on: directories, and behind which of their entries.
    directories: Vec<(ObjectId, String, Cookie)>,
    /// At most a page of a directory.
    found: Vec<NameAt>,
}

/// A file that is kept for names at homes that are lost.
#[derive(Default)]
struct Kept {
    /// The hidden names that stand for those at the home that is given up.
    names: Vec<Name>,
    /// All hidden names that stand for names at homes that are lost or removed.
    lost: u32,
    /// How many there are for other homes.
    elsewhere: BTreeMap<ReplicaSlot, u32>,
}

impl NamesAt {
    fn new(home: ReplicaSlot) -> NamesAt {
        NamesAt {
            home,
            directories: vec![(ObjectId::ROOT, String::new(), Cookie::START)],
            found: Vec::new(),
        }
    }

    async fn next(&mut self, tree: &PoolTree) -> Result<Option<NameAt>> {
        loop {
            if let Some(found) = self.found.pop() {
                return Ok(Some(found));
            }
            let Some((directory, path, after)) = self.directories.pop() else {
                return Ok(None);
            };
            // Reading waits for nothing, and the whole way may be long.
            tokio::task::yield_now().await;
            let (root, store) = (Credentials::root(), &tree.store);
            let page = store.read_directory(&root, directory, after, ENTRIES_AT_ONCE);
            let page = match page.await {
                // Removed meanwhile.
                Err(Error::Stale) => continue,
                page => page?,
            };
            if let Some(last) = page.entries.last().filter(|_| !page.end) {
                (self.directories).push((directory, path.clone(), last.cookie));
            }
            for entry in page.entries {
                let path = format!("{path}/{}", ShownBytes(entry.name.as_bytes()));
                let id = entry.attributes.id;
                if tree.is_elsewhere(id) && id.slot() == self.home {
                    self.found.push(NameAt {
                        directory,
                        name: entry.name,
                        id,
                        path,
                    });
                } else if !tree.is_elsewhere(id) && entry.attributes.is_directory() {
                    self.directories.push((id, path, Cookie::START));
                }
            }
        }
    }
}

impl PoolTree {
    /// Shows the paths of what lives at another home and has a name here. Takes as long as listing the whole tree.
    ///
    /// # Errors
    /// When the tree cannot be read.
    pub async fn show_paths_at(
        &self,
        home: ReplicaSlot,
        mut show: impl FnMut(String) + Send,
    ) -> Result<()> {
        let mut names = NamesAt::new(home);
        while let Some(found) = names.next(self).await? {
            show(found.path);
        }
        Ok(())
    }

    /// Gives up what lives at another home: its names here go, and their paths are shown. Files that live here and have names only there, or at
    /// other homes that are lost or away, get one in a directory of the root, `lost+found.` and the number of the home. To be repeated until it
    /// succeeds, and not for two homes at once. The home asks nothing any more.
    ///
    /// # Errors
    /// When this server is not the first one, and those of the store; what is done then stays done.
    pub async fn give_up_home(
        &self,
        home: ReplicaSlot,
        mut show: impl FnMut(String) + Send,
    ) -> Result<()> {
        let Part::First { leaving, .. } = &self.part else {
            return Err(Error::NotSupported);
        };
        leaving.write().await.insert(home);
        self.end_moves_to(home).await?;
        self.give_up_held(home).await?;
        for _ in 0..WALKS {
            let (mut names, mut is_clean) = (NamesAt::new(home), true);
            while let Some(at) = names.next(self).await? {
                is_clean = false;
                let removed = self.drop_elsewhere((at.directory, &at.name), at.id);
                match removed.await {
                    Ok(_) => show(at.path),
                    // Somebody else has changed it, which is looked for again.
                    Err(Error::NotFound | Error::Stale | Error::Delay) => {}
                    Err(error) => return Err(error),
                }
            }
            if is_clean {
                return Ok(());
            }
        }
        Err(Error::Delay)
    }

    /// Lets go of files that are kept here for names at a home. What has no name anywhere else gets one.
    async fn give_up_held(&self, home: ReplicaSlot) -> Result<()> {
        let leaving = match &self.part {
            Part::First { leaving, .. } => leaving.read().await.clone(),
            Part::Joined { .. } => return Err(Error::NotSupported),
        };
        let mut kept: BTreeMap<ObjectId, Kept> = BTreeMap::new();
        for (name, id) in self.hidden_names().await? {
            let Some((at, _)) = held_by(&name) else {
                continue;
            };
            let of_file = kept.entry(id).or_default();
            // The other home is lost as well, or has no names any more.
            match leaving.contains(&at) || self.at_server(at).is_none() {
                true => of_file.lost += 1,
                false => *of_file.elsewhere.entry(at).or_default() += 1,
            }
            if at == home {
                of_file.names.push(name);
            }
        }
        let mut found = None;
        for (id, kept) in kept {
            if !kept.names.is_empty() {
                let doubtful = self.count_doubtful(id, &kept).await;
                let file = (id, &kept.names[..], doubtful);
                self.let_go(home, file, &mut found).await?;
            }
        }
        Ok(())
    }

    /// How many hidden names of a file may stand for names that are not there. A home that does not answer may have removed those that it
    /// had, and not have said so.
    async fn count_doubtful(&self, id: ObjectId, kept: &Kept) -> u32 {
        let mut doubtful = kept.lost;
        for (at, held) in &kept.elsewhere {
            let names = match self.at_server(*at) {
                Some(other) => other.ask(Question::NamesOf(id)).await,
                None => Err(Error::Delay),
            };
            if !matches!(names, Ok(Answer::Names(1..))) {
                doubtful += held;
            }
        }
        doubtful
    }

    /// Drops these hidden names of a file. Where it has no links but `doubtful` ones, it gets a name first.
    async fn let_go(
        &self,
        home: ReplicaSlot,
        (id, names, doubtful): (ObjectId, &[Name], u32),
        found: &mut Option<ObjectId>,
    ) -> Result<()> {
        let _alone = self.holding.lock().await;
        // Nobody removes the last of the other names meanwhile.
        let _places = self.places.write().await;
        let links = match self.store.attributes(id).await {
            Ok(attributes) => attributes.links,
            Err(Error::Stale) => return Ok(()),
            Err(error) => return Err(error),
        };
        if links <= doubtful {
            let directory = match *found {
                Some(directory) => directory,
                None => *found.insert(self.lost_and_found(home).await?),
            };
            self.name_in(directory, id).await?;
        }
        for name in names {
            self.drop_hidden(name).await?;
        }
        Ok(())
    }

    async fn name_in(&self, directory: ObjectId, id: ObjectId) -> Result<()> {
        let (root, text) = (Credentials::root(), format!("file-{:x}", id.as_u64()));
        for number in 0..u32::MAX {
            let name = variant(&text, number)?;
            match self.own.link(&root, id, directory, &name).await {
                Ok(_) => return Ok(()),
                Err(Error::Exists) => {
                    if self.store.lookup(&root, directory, &name).await?.id == id {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::NoSpace)
    }

    /// A directory of the root that is root's, and that nobody else may enter. Where the name is something else's, it gets another one.
    async fn lost_and_found(&self, home: ReplicaSlot) -> Result<ObjectId> {
        let (root, text) = (Credentials::root(), format!("lost+found.{}", home.0));
        let set = SetAttributes {
            mode: Some(OWNERS_ALONE),
            ..SetAttributes::default()
        };
        for number in 0..u32::MAX {
            let name = variant(&text, number)?;
            let new = NewObject::Plain(ObjectKind::Directory);
            let made = self.own.create(&root, ObjectId::ROOT, &name, new, &set);
            match made.await {
                Ok(made) => return Ok(made.attributes.id),
                Err(Error::Exists) => {
                    let found = self.store.lookup(&root, ObjectId::ROOT, &name).await?;
                    if !self.is_elsewhere(found.id) && is_roots_alone(&found) {
                        return Ok(found.id);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::NoSpace)
    }
}

fn is_roots_alone(found: &Attributes) -> bool {
    found.is_directory() && found.owner == 0 && found.mode & PERMISSIONS == OWNERS_ALONE
}

/// A name, or another one that begins so.
fn variant(text: &str, number: u32) -> Result<Name> {
    let text = match number {
        0 => text.to_owned(),
        number => format!("{text}.{number}"),
    };
    Ok(Name::new(text.into_bytes())?)
}
