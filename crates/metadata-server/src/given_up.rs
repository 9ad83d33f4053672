//! A home that is lost for good, with the directories that lived there. Its names at the first server are removed. Files of other homes
//! whose only names were there get new ones.
//!
//! What must never enter: who declares it lost.

use std::collections::BTreeMap;

use vfs::{
    Attributes, Cookie, Credentials, Error, FileSystem, Name, NewObject, ObjectId, ObjectKind,
    ReplicaSlot, Result, SetAttributes, ShownBytes,
};

use crate::held::held_by;
use crate::pool_tree::{Part, PoolTree, locked};
use crate::question::{Answer, Question};

/// Entries read at once.
const ENTRIES_AT_ONCE: usize = 256;
/// At most this many walks in search of names, because clients may change some meanwhile.
const WALKS: usize = 8;
/// The mode of a directory of found files: only root may use it.
const OWNERS_ALONE: u32 = 0o700;
const PERMISSIONS: u32 = 0o777;

/// A name at the first server of something that lives at another home.
struct NameAt {
    directory: ObjectId,
    name: Name,
    id: ObjectId,
    path: String,
    /// It stands for a name at a third home, which removes its own when a client looks for it.
    is_hidden: bool,
}

/// A walk through the first server's directories, in search of all names of objects at another home.
struct NamesAt {
    home: ReplicaSlot,
    /// Where to continue: directories, and the entry after which to read.
    directories: Vec<(ObjectId, String, Cookie)>,
    /// At most one page of a directory.
    found: Vec<NameAt>,
}

/// What is known of the links of a file.
enum Links {
    /// It is gone, or lost with its home.
    None,
    Of(u32),
    /// Its home is away.
    Unknown,
}

/// A file that is kept for names at lost homes.
#[derive(Default)]
struct Kept {
    /// The hidden names that stand for names at the home that is given up.
    names: Vec<Name>,
    /// The number of hidden names that stand for names at lost or removed homes.
    lost: u32,
    /// The number of hidden names for other homes.
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
            // Reads never wait, and the walk may be long.
            tokio::task::yield_now().await;
            let (root, store) = (Credentials::root(), &tree.store);
            let page = store.read_directory(&root, directory, after, ENTRIES_AT_ONCE);
            let page = match page.await {
                // It was removed meanwhile.
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
                        is_hidden: tree.hidden_directory.get() == Some(&directory),
                    });
                } else if !tree.is_elsewhere(id) && entry.attributes.is_directory() {
                    self.directories.push((id, path, Cookie::START));
                }
            }
        }
    }
}

impl PoolTree {
    /// Shows the paths of local names of objects that live at another home. Takes as long as listing the whole tree.
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
            if !found.is_hidden {
                show(found.path);
            }
        }
        Ok(())
    }

    /// Gives up objects that live at another home: removes their local names and shows the paths. A local file whose only names are there,
    /// or at other homes that are lost or away, gets one in a directory of the root, named `lost+found.` and the number of the home. Repeat
    /// the call until it succeeds, and never call it for two homes at once. The home must not ask questions any more.
    ///
    /// # Errors
    /// When this server is not the first one, and the errors of the store. What was done by then stays done.
    pub async fn give_up_home(
        &self,
        home: ReplicaSlot,
        mut show: impl FnMut(String) + Send,
    ) -> Result<()> {
        let Part::First { leaving, .. } = &self.part else {
            return Err(Error::NotSupported);
        };
        leaving.write().await.insert(home);
        locked(&self.lost).insert(home);
        self.end_moves_to(home).await?;
        // Moves from there need it no more.
        self.settle_came(home).await;
        self.settle_passed(home).await;
        self.give_up_held(home).await?;
        for _ in 0..WALKS {
            let (mut names, mut is_clean) = (NamesAt::new(home), true);
            while let Some(at) = names.next(self).await? {
                is_clean = false;
                let removed = self.drop_elsewhere((at.directory, &at.name), at.id);
                match removed.await {
                    Ok(_) if at.is_hidden => {}
                    Ok(_) => show(at.path),
                    // Another task has changed it. The next walk looks again.
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

    /// Releases files that are kept for names at a home. A file without other names gets one.
    async fn give_up_held(&self, home: ReplicaSlot) -> Result<()> {
        let leaving = match &self.part {
            Part::First { leaving, .. } => leaving.read().await.clone(),
            Part::Joined { .. } => return Err(Error::NotSupported),
        };
        let mut kept: BTreeMap<ObjectId, Kept> = BTreeMap::new();
        for (name, id) in self.hidden_names().await? {
            let Some((at, _)) = held_by(&name) else {
                if self.is_kept_for_lost(&name, &leaving) {
                    kept.entry(id).or_default().lost += 1;
                }
                continue;
            };
            let of_file = kept.entry(id).or_default();
            // The other home is lost, too, or has no names any more.
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

    /// The number of hidden names of a file that may stand for names that do not exist. A home that does not answer may have removed its
    /// names without a report.
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

    /// Drops these hidden names of a file. If it has at most `doubtful` links, it first gets a name.
    async fn let_go(
        &self,
        home: ReplicaSlot,
        (id, names, doubtful): (ObjectId, &[Name], u32),
        found: &mut Option<ObjectId>,
    ) -> Result<()> {
        let is_elsewhere = self.is_elsewhere(id);
        // No other task works on its names here, or removes the last other one, meanwhile.
        let _elsewhere = is_elsewhere.then(|| self.use_names(id)).transpose()?;
        let _here = match is_elsewhere {
            true => None,
            false => Some((self.holding.lock().await, self.places.write().await)),
        };
        let needs_name = match self.links_of(home, id).await? {
            Links::Of(links) => links <= doubtful,
            Links::Unknown => true,
            Links::None => false,
        };
        if needs_name {
            let directory = match *found {
                Some(directory) => directory,
                None => *found.insert(self.lost_and_found(home).await?),
            };
            self.name_in(directory, id).await?;
        }
        for name in names {
            self.drop_hidden(name).await?;
        }
        if is_elsewhere {
            locked(&self.owed).insert(id);
        }
        Ok(())
    }

    async fn links_of(&self, lost: ReplicaSlot, id: ObjectId) -> Result<Links> {
        if self.is_elsewhere(id) && id.slot() == lost {
            return Ok(Links::None);
        }
        let found = match self.is_elsewhere(id) {
            // Its links count only if it knows the number of names here.
            true => match self.try_to_tell_names(id).await {
                Ok(()) => self.at(id).attributes(id).await,
                Err(error) => Err(error),
            },
            false => self.own.attributes(id).await,
        };
        match found {
            Ok(attributes) => Ok(Links::Of(attributes.links)),
            Err(Error::Stale) => Ok(Links::None),
            Err(_) if self.is_elsewhere(id) => Ok(Links::Unknown),
            Err(error) => Err(error),
        }
    }

    async fn name_in(&self, directory: ObjectId, id: ObjectId) -> Result<()> {
        let (root, text) = (Credentials::root(), format!("file-{:x}", id.as_u64()));
        for number in 0..u32::MAX {
            let name = variant(&text, number)?;
            let file = self.store.attributes(id).await?;
            match self.name_again((directory, &name), &file).await {
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

    /// A directory in the root that only root may enter. If the name is taken, uses another one.
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

/// A name, or a numbered variant of it.
fn variant(text: &str, number: u32) -> Result<Name> {
    let text = match number {
        0 => text.to_owned(),
        number => format!("{text}.{number}"),
    };
    Ok(Name::new(text.into_bytes())?)
}
