//! The model of a tree, and the store that is compared with it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use store::CommitMode;
use vfs::{ChangeAttribute, Cookie, Error, FileSystem, ObjectId, XattrName};

use super::steps::Step;
use crate::fixture::Fixture;

/// An object of the model.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) id: ObjectId,
    pub(super) links: u32,
    pub(super) xattrs: BTreeMap<String, Bytes>,
    pub(super) open: bool,
    pub(super) body: Body,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    File(Vec<u8>),
    Directory {
        parent: usize,
        entries: BTreeMap<String, usize>,
    },
    Symlink,
    Gone,
}

/// A directory that is read while it changes.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) directory: usize,
    pub(super) after: Cookie,
    pub(super) seen: Vec<String>,
    /// Names that existed all the time.
    pub(super) stayed: BTreeSet<String>,
    /// Names that were added while it was read; they may be seen, even twice if they were added twice.
    pub(super) came: BTreeSet<String>,
}

/// The model, and the store it is compared with.
pub(super) struct Pair {
    pub(super) store: Fixture,
    pub(super) nodes: Vec<Node>,
    pub(super) listing: Option<Listing>,
    pub(super) versions: BTreeMap<ObjectId, ChangeAttribute>,
}

pub(super) type Outcome<T> = Result<T, Error>;

pub(super) fn name(number: u8) -> String {
    format!("n{number}")
}

pub(super) fn xattr(number: u8) -> XattrName {
    XattrName::new(name(number).into_bytes()).unwrap()
}

impl Pair {
    pub(super) async fn new(mode: CommitMode) -> Pair {
        let store = Fixture::with(|options| options.commit = mode);
        store.store().end_reclaim().await.unwrap();
        let body = Body::Directory {
            parent: 0,
            entries: BTreeMap::new(),
        };
        let root = Node {
            id: ObjectId::ROOT,
            links: 2,
            xattrs: BTreeMap::new(),
            open: false,
            body,
        };
        Pair {
            store,
            nodes: vec![root],
            listing: None,
            versions: BTreeMap::new(),
        }
    }

    pub(super) fn pick(&self, number: usize) -> usize {
        number % self.nodes.len()
    }

    pub(super) fn entries(&self, at: usize) -> Outcome<&BTreeMap<String, usize>> {
        match &self.nodes[at].body {
            Body::Directory { entries, .. } => Ok(entries),
            Body::Gone => Err(Error::Stale),
            _ => Err(Error::NotDirectory),
        }
    }

    pub(super) fn entries_mut(&mut self, at: usize) -> &mut BTreeMap<String, usize> {
        match &mut self.nodes[at].body {
            Body::Directory { entries, .. } => entries,
            other => panic!("{other:?} is no directory"),
        }
    }

    pub(super) fn data(&self, at: usize) -> Outcome<&Vec<u8>> {
        match &self.nodes[at].body {
            Body::File(data) => Ok(data),
            Body::Directory { .. } => Err(Error::IsDirectory),
            Body::Symlink => Err(Error::IsSymlink),
            Body::Gone => Err(Error::Stale),
        }
    }

    pub(super) fn is_directory(&self, at: usize) -> bool {
        matches!(self.nodes[at].body, Body::Directory { .. })
    }

    /// Adds or removes a name, and notes this in listings in progress.
    pub(super) fn put_name(&mut self, directory: usize, name: &str, child: Option<usize>) {
        let entries = self.entries_mut(directory);
        let had = match child {
            Some(child) => entries.insert(name.into(), child).is_some(),
            None => entries.remove(name).is_some(),
        };
        if let Some(listing) = &mut self.listing
            && listing.directory == directory
            && (child.is_none() || !had)
        {
            listing.stayed.remove(name);
            listing.came.insert(name.into());
        }
    }

    /// Removes a name from an object's count.
    pub(super) fn drop_name(&mut self, at: usize, touched: &mut BTreeSet<usize>) {
        let directory = self.is_directory(at);
        let node = &mut self.nodes[at];
        node.links = if directory { 0 } else { node.links - 1 };
        if node.links > 0 || node.open {
            touched.insert(at);
        } else {
            node.body = Body::Gone;
        }
    }

    pub(super) async fn step(&mut self, step: Step) {
        let mut touched = BTreeSet::new();
        let mut trusted = true;
        match step {
            Step::Make {
                directory,
                name: number,
                kind,
            } => {
                self.make(directory, number, kind, &mut touched).await;
            }
            Step::Remove {
                directory,
                name: number,
            } => {
                self.remove(directory, number, &mut touched).await;
            }
            Step::Rename { from, to } => self.rename(from, to, &mut touched).await,
            Step::Link {
                object,
                directory,
                name: number,
            } => {
                self.link(object, directory, number, &mut touched).await;
            }
            Step::Write {
                object,
                offset,
                length,
                byte,
            } => {
                self.write(object, offset, length, byte, &mut touched).await;
            }
            Step::Resize { object, size } => self.resize(object, size, &mut touched).await,
            Step::Punch {
                object,
                offset,
                length,
            } => {
                self.punch(object, offset, length, &mut touched).await;
            }
            Step::SetXattr {
                object,
                name: number,
                length,
            } => {
                self.set_xattr(object, number, length, &mut touched).await;
            }
            Step::RemoveXattr {
                object,
                name: number,
            } => {
                self.remove_xattr(object, number, &mut touched).await;
            }
            Step::Open { object } => self.open(object).await,
            Step::Close { object } => self.close(object).await,
            Step::ListOn { directory } => self.list_on(directory).await,
            Step::Reopen { gracefully } => {
                self.reopen(gracefully).await;
                trusted = gracefully;
            }
        }
        self.compare_versions(&touched, trusted).await;
    }
}
