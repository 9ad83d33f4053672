//! One replica's copy of the tree: names, links and versions instead of contents.
//!
//! A version counts every change an object ever had, at whichever primary. Control never enters.

use control::{Subject, Tree, Update, ancestors};
use std::collections::BTreeMap;
use vfs::ObjectId;

/// The intent of a client, in its own terms. The replica that carries it out resolves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Write to a file.
    Write(ObjectId),
    /// Make a file or directory.
    Create {
        /// Its directory.
        parent: ObjectId,
        /// Its name there.
        name: u64,
        /// Whether it will be a directory.
        directory: bool,
    },
    /// Remove a name.
    Remove {
        /// The directory that has it.
        parent: ObjectId,
        /// The name.
        name: u64,
    },
    /// Give a file another name.
    Link {
        /// The file.
        file: ObjectId,
        /// The directory of the new name.
        parent: ObjectId,
        /// The new name.
        name: u64,
    },
    /// Rename, and replace the target if it exists.
    Rename {
        /// The directory of the old name.
        from: ObjectId,
        /// The old name.
        name: u64,
        /// The directory of the new name.
        to: ObjectId,
        /// The new name.
        new: u64,
    },
    /// Lock a file.
    Lock {
        /// The file.
        file: ObjectId,
        /// The client that wants the lock.
        client: u64,
    },
    /// Unlock a file.
    Unlock {
        /// The file.
        file: ObjectId,
        /// The client that has the lock.
        client: u64,
    },
}

/// The outcome of an operation for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out.
    Done,
    /// The tree did not allow it: a name missing or taken, a directory not empty, a cycle.
    Refused,
}

/// A change as it is sent: objects and names, never paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// `object` gets the name; `birth` gives its kind if it is new.
    Enter {
        /// The directory.
        parent: ObjectId,
        /// The name.
        name: u64,
        /// The object.
        object: ObjectId,
        /// For a new object: whether it is a directory.
        birth: Option<bool>,
    },
    /// `object` loses the name.
    Leave {
        /// The directory.
        parent: ObjectId,
        /// The name.
        name: u64,
        /// The object.
        object: ObjectId,
    },
    /// The object's version becomes this one.
    Version {
        /// The object.
        object: ObjectId,
        /// Its version.
        version: u64,
    },
    /// A file is locked or unlocked.
    Lock {
        /// The file.
        file: ObjectId,
        /// The client with the lock.
        by: Option<u64>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    entries: Option<BTreeMap<u64, ObjectId>>,
    parents: Vec<ObjectId>,
    version: u64,
    lock: Option<u64>,
}

/// A copy of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    nodes: BTreeMap<ObjectId, Node>,
    /// New versions are at least this: the high bits of a version count settlements of lost replicas.
    floor: u64,
}

impl Tree for Copy {
    fn parents(&self, object: ObjectId) -> Vec<ObjectId> {
        self.nodes
            .get(&object)
            .map_or_else(Vec::new, |node| node.parents.clone())
    }
}

impl Default for Copy {
    fn default() -> Copy {
        let root = Node {
            entries: Some(BTreeMap::new()),
            parents: Vec::new(),
            version: 0,
            lock: None,
        };
        let nodes = BTreeMap::from([(ObjectId::ROOT, root)]);
        Copy { nodes, floor: 0 }
    }
}

impl Copy {
    /// All objects this copy knows.
    pub fn objects(&self) -> impl Iterator<Item = ObjectId> {
        self.nodes.keys().copied()
    }

    /// The version of an object, if it exists here.
    #[must_use]
    pub fn version(&self, object: ObjectId) -> Option<u64> {
        self.nodes.get(&object).map(|node| node.version)
    }

    /// The version that the next change of an object makes.
    #[must_use]
    pub fn next_version(&self, object: ObjectId) -> u64 {
        let next = self.version(object).unwrap_or(0) + 1;
        next.max(self.floor)
    }

    /// This number of settlements of lost replicas is in force here: versions made by those are never
    /// made again.
    pub(crate) fn count_settlements(&mut self, settlements: u64) {
        self.floor = settlements << 32;
    }

    /// Another replica's copy replaces this one. What is in force here stays in force.
    pub(crate) fn replaced_by(&self, other: &Copy) -> Copy {
        Copy {
            nodes: other.nodes.clone(),
            floor: self.floor.max(other.floor),
        }
    }

    /// The kind of the object, if it exists here.
    #[must_use]
    pub fn subject(&self, object: ObjectId) -> Option<Subject> {
        let node = self.nodes.get(&object)?;
        Some(match (&node.entries, node.parents.len()) {
            (Some(_), _) => Subject::Directory(object),
            (None, 0 | 1) => Subject::File(object),
            (None, _) => Subject::LinkedFile(object),
        })
    }

    /// The client that has locked a file.
    #[must_use]
    pub fn lock_of(&self, file: ObjectId) -> Option<u64> {
        self.nodes.get(&file)?.lock
    }

    /// All locked files, and the clients that have locked them.
    pub(crate) fn locks(&self) -> impl Iterator<Item = (ObjectId, u64)> {
        let nodes = self.nodes.iter();
        nodes.filter_map(|(file, node)| Some((*file, node.lock?)))
    }

    /// The names in a directory.
    #[must_use]
    pub fn entries(&self, directory: ObjectId) -> Option<&BTreeMap<u64, ObjectId>> {
        self.nodes.get(&directory)?.entries.as_ref()
    }

    fn entry(&self, directory: ObjectId, name: u64) -> Option<ObjectId> {
        self.entries(directory)?.get(&name).copied()
    }

    /// The control that the intent needs here and now, or `None` if the tree does not allow it.
    #[must_use]
    pub fn resolve(&self, intent: &Intent) -> Option<Update> {
        match *intent {
            // Only the primary knows which client has the lock.
            Intent::Write(file) | Intent::Lock { file, .. } | Intent::Unlock { file, .. } => {
                let subject = self.subject(file)?;
                let is_file = !matches!(subject, Subject::Directory(_));
                is_file.then_some(Update::Change(subject))
            }
            Intent::Create { parent, name, .. } => {
                let free = !self.entries(parent)?.contains_key(&name);
                free.then_some(Update::Create { parent })
            }
            Intent::Remove { parent, name } => {
                let object = self.entry(parent, name)?;
                let removed = self.removable(object)?;
                Some(Update::Remove { parent, removed })
            }
            Intent::Link { file, parent, name } => {
                let free = !self.entries(parent)?.contains_key(&name);
                let is_file = !matches!(self.subject(file)?, Subject::Directory(_));
                (free && is_file).then_some(Update::Link { file, parent })
            }
            Intent::Rename {
                from,
                name,
                to,
                new,
            } => self.resolve_rename(from, name, to, new),
        }
    }

    fn removable(&self, object: ObjectId) -> Option<Subject> {
        let empty = self.entries(object).is_none_or(BTreeMap::is_empty);
        self.subject(object).filter(|_| empty)
    }

    fn resolve_rename(&self, from: ObjectId, name: u64, to: ObjectId, new: u64) -> Option<Update> {
        let object = self.entry(from, name)?;
        let moved = self.subject(object)?;
        let below_itself = to == object || ancestors(self, to).contains(&object);
        let replaced = match self.entries(to)?.get(&new) {
            None => None,
            Some(same) if *same == object => return None,
            Some(other) => Some(self.removable(*other)?),
        };
        let is_directory = |subject| matches!(subject, Subject::Directory(_));
        let alike = replaced.is_none_or(|other| is_directory(other) == is_directory(moved));
        (!below_itself && alike).then_some(Update::Rename {
            from,
            to,
            moved,
            replaced,
        })
    }

    /// The changes that carry the intent out, including the new versions of the objects that it changes. Call it
    /// only for an intent that [`Copy::resolve`] allows.
    #[must_use]
    pub fn edits(&self, intent: &Intent, fresh: ObjectId) -> Vec<Edit> {
        let mut edits = Vec::new();
        match *intent {
            Intent::Write(file) => edits.extend(self.touched(&[file])),
            Intent::Lock { file, client } => {
                let by = Some(client);
                edits.push(Edit::Lock { file, by });
            }
            Intent::Unlock { file, client } => {
                let by = self.lock_of(file).filter(|holder| *holder != client);
                edits.push(Edit::Lock { file, by });
            }
            Intent::Create {
                parent,
                name,
                directory,
            } => {
                edits.push(Edit::Enter {
                    parent,
                    name,
                    object: fresh,
                    birth: Some(directory),
                });
                edits.extend(self.touched(&[parent]));
            }
            Intent::Remove { parent, name } => {
                edits.extend(self.leave(parent, name));
                edits.extend(self.touched(&[parent]));
            }
            Intent::Link { file, parent, name } => {
                edits.push(Edit::Enter {
                    parent,
                    name,
                    object: file,
                    birth: None,
                });
                edits.extend(self.touched(&[parent]));
            }
            Intent::Rename {
                from,
                name,
                to,
                new,
            } => {
                edits.extend(self.leave(to, new));
                edits.extend(self.leave(from, name));
                if let Some(object) = self.entry(from, name) {
                    edits.push(Edit::Enter {
                        parent: to,
                        name: new,
                        object,
                        birth: None,
                    });
                }
                let both = [from, to];
                let parents = if from == to { &both[..1] } else { &both[..] };
                edits.extend(self.touched(parents));
            }
        }
        edits
    }

    fn leave(&self, parent: ObjectId, name: u64) -> Option<Edit> {
        let object = self.entry(parent, name)?;
        Some(Edit::Leave {
            parent,
            name,
            object,
        })
    }

    fn touched(&self, objects: &[ObjectId]) -> Vec<Edit> {
        let versions = objects.iter().filter_map(|object| {
            let object = *object;
            self.version(object)?;
            let version = self.next_version(object);
            Some(Edit::Version { object, version })
        });
        versions.collect()
    }

    /// Whether everything except the contents of files is the same in both copies.
    pub(crate) fn has_names_of(&self, other: &Copy) -> bool {
        let rows = |copy: &Copy| {
            let mut nodes = copy.nodes.clone();
            let files = nodes.values_mut().filter(|node| node.entries.is_none());
            files.for_each(|file| file.version = 0);
            nodes
        };
        self.floor == other.floor && rows(self) == rows(other)
    }

    /// Makes one change. `false` when this copy cannot: it lacks what the change builds on.
    pub fn apply(&mut self, edit: &Edit) -> bool {
        match *edit {
            Edit::Enter {
                parent,
                name,
                object,
                birth,
            } => self.enter(parent, name, object, birth),
            Edit::Leave {
                parent,
                name,
                object,
            } => self.remove_entry(parent, name, object),
            Edit::Version { object, version } => match self.nodes.get_mut(&object) {
                Some(node) => {
                    node.version = node.version.max(version);
                    true
                }
                None => false,
            },
            Edit::Lock { file, by } => match self.nodes.get_mut(&file) {
                Some(node) => {
                    node.lock = by;
                    true
                }
                None => false,
            },
        }
    }

    fn enter(
        &mut self,
        parent: ObjectId,
        name: u64,
        object: ObjectId,
        birth: Option<bool>,
    ) -> bool {
        if let Some(directory) = birth {
            let entries = directory.then(BTreeMap::new);
            self.nodes.entry(object).or_insert(Node {
                entries,
                parents: Vec::new(),
                version: 0,
                lock: None,
            });
        }
        let free = self
            .entries(parent)
            .is_some_and(|entries| !entries.contains_key(&name));
        if !free || !self.nodes.contains_key(&object) {
            return false;
        }
        if let Some(node) = self.nodes.get_mut(&object) {
            node.parents.push(parent);
        }
        let directory = self
            .nodes
            .get_mut(&parent)
            .and_then(|node| node.entries.as_mut());
        directory.is_some_and(|entries| entries.insert(name, object).is_none())
    }

    fn remove_entry(&mut self, parent: ObjectId, name: u64, object: ObjectId) -> bool {
        let Some(entries) = self
            .nodes
            .get_mut(&parent)
            .and_then(|node| node.entries.as_mut())
        else {
            return false;
        };
        if entries.get(&name) != Some(&object) {
            return false;
        }
        entries.remove(&name);
        if let Some(node) = self.nodes.get_mut(&object)
            && let Some(place) = node.parents.iter().position(|other| *other == parent)
        {
            node.parents.remove(place);
        }
        true
    }

    /// Forgets an object without a name, as a removal does once no client needs it.
    pub fn forget_nameless(&mut self, object: ObjectId) {
        let nameless = self
            .nodes
            .get(&object)
            .is_some_and(|node| node.parents.is_empty());
        if nameless && object != ObjectId::ROOT {
            self.nodes.remove(&object);
        }
    }

    /// Whether a directory lies below itself, which no order of applied renames may produce.
    #[must_use]
    pub fn has_cycle(&self) -> bool {
        self.nodes
            .keys()
            .any(|object| ancestors(self, *object).contains(object))
    }
}
