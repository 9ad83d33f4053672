//! Random operations on the store and on a simple model of it: the same answers, the same tree, and
//! versions that change exactly where something changed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use fixture::{Fixture, READ, directory, file, open_owner, root, symlink, with_size};
use proptest::prelude::*;
use store::{CommitMode, Store};
use vfs::{
    Authority, ChangeAttribute, Cookie, Error, Extent, FileSystem, ObjectId, ObjectKind, Stability,
    XattrMode, XattrName,
};

/// What happens next. Objects are picked by number among those ever made, names from a few, so that
/// operations meet each other.
#[derive(Clone, Debug)]
enum Step {
    Make {
        directory: usize,
        name: u8,
        kind: Kind,
    },
    Remove {
        directory: usize,
        name: u8,
    },
    Rename {
        from: (usize, u8),
        to: (usize, u8),
    },
    Link {
        object: usize,
        directory: usize,
        name: u8,
    },
    Write {
        object: usize,
        offset: u16,
        length: u16,
        byte: u8,
    },
    Resize {
        object: usize,
        size: u16,
    },
    Punch {
        object: usize,
        offset: u16,
        length: u16,
    },
    SetXattr {
        object: usize,
        name: u8,
        length: u8,
    },
    RemoveXattr {
        object: usize,
        name: u8,
    },
    Open {
        object: usize,
    },
    Close {
        object: usize,
    },
    ListOn {
        directory: usize,
    },
    Reopen {
        gracefully: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    Symlink,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let object = 0_usize..12;
    let name = 0_u8..5;
    let place = (object.clone(), name.clone());
    let kind =
        prop_oneof![3 => Just(Kind::File), 3 => Just(Kind::Directory), 1 => Just(Kind::Symlink)];
    let step = prop_oneof![
        8 => (place.clone(), kind)
            .prop_map(|((directory, name), kind)| Step::Make { directory, name, kind }),
        4 => place.clone().prop_map(|(directory, name)| Step::Remove { directory, name }),
        5 => (place.clone(), place.clone()).prop_map(|(from, to)| Step::Rename { from, to }),
        3 => (object.clone(), place)
            .prop_map(|(object, (directory, name))| Step::Link { object, directory, name }),
        4 => (object.clone(), 0_u16..30_000, 0_u16..9000, any::<u8>())
            .prop_map(|(object, offset, length, byte)| Step::Write { object, offset, length, byte }),
        2 => (object.clone(), any::<u16>()).prop_map(|(object, size)| Step::Resize { object, size }),
        2 => (object.clone(), any::<u16>(), 1_u16..20_000)
            .prop_map(|(object, offset, length)| Step::Punch { object, offset, length }),
        2 => (object.clone(), name.clone(), any::<u8>())
            .prop_map(|(object, name, length)| Step::SetXattr { object, name, length }),
        1 => (object.clone(), name).prop_map(|(object, name)| Step::RemoveXattr { object, name }),
        2 => object.clone().prop_map(|object| Step::Open { object }),
        2 => object.clone().prop_map(|object| Step::Close { object }),
        4 => object.prop_map(|directory| Step::ListOn { directory }),
        1 => any::<bool>().prop_map(|gracefully| Step::Reopen { gracefully }),
    ];
    proptest::collection::vec(step, 1..80)
}

/// An object of the model.
#[derive(Clone, Debug)]
struct Node {
    id: ObjectId,
    links: u32,
    xattrs: BTreeMap<String, Bytes>,
    open: bool,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    File(Vec<u8>),
    Directory {
        parent: usize,
        entries: BTreeMap<String, usize>,
    },
    Symlink,
    Gone,
}

/// A directory being read while others change it.
#[derive(Debug)]
struct Listing {
    directory: usize,
    after: Cookie,
    seen: Vec<String>,
    /// Names that were there all the time.
    stayed: BTreeSet<String>,
    /// Names that came while it was read; they may be seen, twice even if they came twice.
    came: BTreeSet<String>,
}

/// The model, and the store it is compared with.
struct Pair {
    store: Fixture,
    nodes: Vec<Node>,
    listing: Option<Listing>,
    versions: BTreeMap<ObjectId, ChangeAttribute>,
}

type Outcome<T> = Result<T, Error>;

fn name(number: u8) -> String {
    format!("n{number}")
}

fn xattr(number: u8) -> XattrName {
    XattrName::new(name(number).into_bytes()).unwrap()
}

impl Pair {
    async fn new(mode: CommitMode) -> Pair {
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

    fn pick(&self, number: usize) -> usize {
        number % self.nodes.len()
    }

    fn entries(&self, at: usize) -> Outcome<&BTreeMap<String, usize>> {
        match &self.nodes[at].body {
            Body::Directory { entries, .. } => Ok(entries),
            Body::Gone => Err(Error::Stale),
            _ => Err(Error::NotDirectory),
        }
    }

    fn entries_mut(&mut self, at: usize) -> &mut BTreeMap<String, usize> {
        match &mut self.nodes[at].body {
            Body::Directory { entries, .. } => entries,
            other => panic!("{other:?} is no directory"),
        }
    }

    fn data(&self, at: usize) -> Outcome<&Vec<u8>> {
        match &self.nodes[at].body {
            Body::File(data) => Ok(data),
            Body::Directory { .. } => Err(Error::IsDirectory),
            Body::Symlink => Err(Error::IsSymlink),
            Body::Gone => Err(Error::Stale),
        }
    }

    fn is_directory(&self, at: usize) -> bool {
        matches!(self.nodes[at].body, Body::Directory { .. })
    }

    /// A name came or went, which listings under way notice.
    fn put_name(&mut self, directory: usize, name: &str, child: Option<usize>) {
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

    /// An object loses a name.
    fn drop_name(&mut self, at: usize, touched: &mut BTreeSet<usize>) {
        let directory = self.is_directory(at);
        let node = &mut self.nodes[at];
        node.links = if directory { 0 } else { node.links - 1 };
        if node.links > 0 || node.open {
            touched.insert(at);
        } else {
            node.body = Body::Gone;
        }
    }

    async fn step(&mut self, step: Step) {
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

    async fn make(&mut self, at: usize, number: u8, kind: Kind, touched: &mut BTreeSet<usize>) {
        let (at, text) = (self.pick(at), name(number));
        let expected = match self.entries(at) {
            Err(error) => Err(error),
            Ok(entries) if entries.contains_key(&text) => Err(Error::Exists),
            Ok(_) => Ok(()),
        };
        let (new, body, links) = match kind {
            Kind::File => (file(), Body::File(Vec::new()), 1),
            Kind::Directory => (
                directory(),
                Body::Directory {
                    parent: at,
                    entries: BTreeMap::new(),
                },
                2,
            ),
            Kind::Symlink => (symlink("target"), Body::Symlink, 1),
        };
        let made = self.store.make(self.nodes[at].id, &text, new).await;
        assert_eq!(made.as_ref().map(|_| ()), expected.as_ref().copied());
        let Ok(made) = made else { return };
        let node = Node {
            id: made.attributes.id,
            links,
            xattrs: BTreeMap::new(),
            open: false,
            body,
        };
        self.nodes.push(node);
        let new = self.nodes.len() - 1;
        self.put_name(at, &text, Some(new));
        touched.extend([at, new]);
    }

    async fn remove(&mut self, at: usize, number: u8, touched: &mut BTreeSet<usize>) {
        let (at, text) = (self.pick(at), name(number));
        let expected = self.entries(at).and_then(|entries| {
            let child = *entries.get(&text).ok_or(Error::NotFound)?;
            let full = self.entries(child).is_ok_and(|entries| !entries.is_empty());
            if full {
                Err(Error::NotEmpty)
            } else {
                Ok(child)
            }
        });
        let removed = self.store.remove(self.nodes[at].id, &text).await;
        assert_eq!(removed, expected.clone().map(|_| ()));
        if let Ok(child) = expected {
            self.put_name(at, &text, None);
            self.drop_name(child, touched);
            touched.insert(at);
        }
    }

    async fn rename(&mut self, from: (usize, u8), to: (usize, u8), touched: &mut BTreeSet<usize>) {
        let (source, target) = (self.pick(from.0), self.pick(to.0));
        let (old, new) = (name(from.1), name(to.1));
        let expected = self.expect_rename(source, &old, target, &new);
        let ids = (self.nodes[source].id, self.nodes[target].id);
        let renamed = self.store.rename((ids.0, &old), (ids.1, &new)).await;
        let refused = |error: &Error| match error {
            Error::Invalid(_) => Error::Invalid(""),
            other => other.clone(),
        };
        assert_eq!(
            renamed.as_ref().map_err(refused),
            expected.as_ref().map(|_| &()).map_err(refused)
        );
        let Ok(moved) = expected else { return };
        if self.entries(target).unwrap().get(&new) == Some(&moved) {
            return;
        }
        let replaced = self.entries(target).unwrap().get(&new).copied();
        self.put_name(target, &new, Some(moved));
        self.put_name(source, &old, None);
        if let Some(replaced) = replaced {
            self.drop_name(replaced, touched);
        }
        if let Body::Directory { parent, .. } = &mut self.nodes[moved].body {
            *parent = target;
        }
        touched.extend([source, target, moved]);
    }

    fn expect_rename(&self, source: usize, old: &str, target: usize, new: &str) -> Outcome<usize> {
        let (from, to) = (self.entries(source), self.entries(target));
        // The store looks at both directories before it looks at their kinds.
        for (result, at) in [(&from, source), (&to, target)] {
            if matches!(self.nodes[at].body, Body::Gone) {
                return Err(result.clone().unwrap_err());
            }
        }
        let (from, to) = (from?, to?);
        let moved = *from.get(old).ok_or(Error::NotFound)?;
        let replaced = to.get(new).copied();
        if replaced == Some(moved) {
            return Ok(moved);
        }
        if self.is_directory(moved) && source != target {
            let mut above = target;
            loop {
                if above == moved {
                    return Err(Error::Invalid(""));
                }
                match &self.nodes[above].body {
                    Body::Directory { parent, .. } if above != 0 => above = *parent,
                    _ => break,
                }
            }
        }
        match replaced {
            Some(replaced) => match (self.is_directory(moved), self.entries(replaced)) {
                (false, Ok(_)) => Err(Error::IsDirectory),
                (true, Err(_)) => Err(Error::NotDirectory),
                (true, Ok(entries)) if !entries.is_empty() => Err(Error::NotEmpty),
                _ => Ok(moved),
            },
            None => Ok(moved),
        }
    }

    async fn link(&mut self, at: usize, home: usize, number: u8, touched: &mut BTreeSet<usize>) {
        let (at, home, text) = (self.pick(at), self.pick(home), name(number));
        let expected = self
            .entries(home)
            .and_then(|entries| match &self.nodes[at] {
                Node {
                    body: Body::Gone, ..
                } => Err(Error::Stale),
                Node {
                    body: Body::Directory { .. },
                    ..
                } => Err(Error::IsDirectory),
                Node { links: 0, .. } => Err(Error::Stale),
                _ if entries.contains_key(&text) => Err(Error::Exists),
                _ => Ok(()),
            });
        let linked = self
            .store
            .link(self.nodes[at].id, self.nodes[home].id, &text)
            .await;
        assert_eq!(linked, expected);
        if linked.is_ok() {
            self.nodes[at].links += 1;
            self.put_name(home, &text, Some(at));
            touched.extend([at, home]);
        }
    }

    async fn write(
        &mut self,
        at: usize,
        offset: u16,
        length: u16,
        byte: u8,
        touched: &mut BTreeSet<usize>,
    ) {
        let at = self.pick(at);
        let bytes = vec![byte; usize::from(length)];
        // Small stable writes take a way of their own, so both kinds have to meet.
        let stability = match byte % 2 {
            0 => Stability::Unstable,
            _ => Stability::File,
        };
        let id = self.nodes[at].id;
        let written = self
            .store
            .write_as(&root(), id, offset.into(), &bytes, stability)
            .await;
        assert_eq!(written, self.data(at).map(|_| ()));
        if let Body::File(data) = &mut self.nodes[at].body
            && length > 0
        {
            let end = usize::from(offset) + bytes.len();
            data.resize(data.len().max(end), 0);
            data[usize::from(offset)..end].copy_from_slice(&bytes);
            touched.insert(at);
        }
    }

    async fn resize(&mut self, at: usize, size: u16, touched: &mut BTreeSet<usize>) {
        let at = self.pick(at);
        let resized = self
            .store
            .set(self.nodes[at].id, &with_size(size.into()))
            .await;
        let expected = match self.data(at) {
            Err(Error::IsSymlink) => Err(()),
            other => other.map(|_| ()).map_err(|_| ()),
        };
        assert_eq!(resized.map(|_| ()).map_err(|_| ()), expected);
        if let Body::File(data) = &mut self.nodes[at].body {
            data.resize(size.into(), 0);
            touched.insert(at);
        }
    }

    async fn punch(&mut self, at: usize, offset: u16, length: u16, touched: &mut BTreeSet<usize>) {
        let at = self.pick(at);
        let extent = Extent {
            offset: offset.into(),
            length: length.into(),
        };
        let who = root();
        let authority = Authority::Credentials(&who);
        let punched = self
            .store
            .store()
            .deallocate(authority, self.nodes[at].id, extent)
            .await;
        assert_eq!(punched, self.data(at).map(|_| ()));
        if let Body::File(data) = &mut self.nodes[at].body {
            let end = data.len().min(usize::from(offset) + usize::from(length));
            if let Some(hole) = data.get_mut(offset.into()..end) {
                hole.fill(0);
            }
            touched.insert(at);
        }
    }

    /// Whether an object can have extended attributes.
    fn expect_xattrs(&self, at: usize) -> Outcome<()> {
        match self.nodes[at].body {
            Body::File(_) | Body::Directory { .. } => Ok(()),
            Body::Symlink => Err(Error::WrongKind),
            Body::Gone => Err(Error::Stale),
        }
    }

    async fn set_xattr(
        &mut self,
        at: usize,
        number: u8,
        length: u8,
        touched: &mut BTreeSet<usize>,
    ) {
        let at = self.pick(at);
        let value = Bytes::from(vec![length; length.into()]);
        let who = root();
        let (id, key) = (self.nodes[at].id, xattr(number));
        let files = self.store.store();
        let set = files
            .set_xattr(&who, id, &key, value.clone(), XattrMode::Any)
            .await;
        assert_eq!(set.map(|_| ()), self.expect_xattrs(at));
        if self.expect_xattrs(at).is_ok() {
            self.nodes[at].xattrs.insert(name(number), value);
            touched.insert(at);
        }
    }

    async fn remove_xattr(&mut self, at: usize, number: u8, touched: &mut BTreeSet<usize>) {
        let at = self.pick(at);
        let id = self.nodes[at].id;
        let removed = self
            .store
            .store()
            .remove_xattr(&root(), id, &xattr(number))
            .await;
        let expected = self.expect_xattrs(at).and_then(|()| {
            let had = self.nodes[at].xattrs.remove(&name(number)).is_some();
            if had { Ok(()) } else { Err(Error::NoXattr) }
        });
        assert_eq!(removed.map(|_| ()), expected);
        if expected.is_ok() {
            touched.insert(at);
        }
    }

    async fn open(&mut self, at: usize) {
        let at = self.pick(at);
        let opened = self.store.open(self.nodes[at].id, "owner", READ).await;
        assert_eq!(opened.map(|_| ()), self.data(at).map(|_| ()));
        self.nodes[at].open |= self.data(at).is_ok();
    }

    async fn close(&mut self, at: usize) {
        let at = self.pick(at);
        self.store
            .store()
            .close(self.nodes[at].id, &open_owner("owner"))
            .await
            .unwrap();
        let node = &mut self.nodes[at];
        if node.open && node.links == 0 {
            node.body = Body::Gone;
        }
        node.open = false;
    }

    /// Reads one small page of a directory, going on where the last one ended.
    async fn list_on(&mut self, at: usize) {
        let at = self.pick(at);
        if self.listing.is_none() {
            let Ok(entries) = self.entries(at) else {
                return;
            };
            self.listing = Some(Listing {
                directory: at,
                after: Cookie::START,
                seen: Vec::new(),
                stayed: entries.keys().cloned().collect(),
                came: BTreeSet::new(),
            });
        }
        let mut listing = self.listing.take().unwrap();
        let id = self.nodes[listing.directory].id;
        let page = self
            .store
            .store()
            .read_directory(&root(), id, listing.after, 2)
            .await;
        let Ok(page) = page else {
            assert!(self.entries(listing.directory).is_err(), "{page:?}");
            return;
        };
        listing
            .seen
            .extend(page.entries.iter().map(|entry| entry.name.to_string()));
        listing.after = page
            .entries
            .last()
            .map_or(listing.after, |entry| entry.cookie);
        if !page.end {
            self.listing = Some(listing);
            return;
        }
        for name in &listing.stayed {
            assert_eq!(
                listing.seen.iter().filter(|seen| *seen == name).count(),
                1,
                "{name}"
            );
        }
        let known = |seen: &String| listing.stayed.contains(seen) || listing.came.contains(seen);
        assert!(listing.seen.iter().all(known), "{listing:?}");
    }

    async fn reopen(&mut self, gracefully: bool) {
        if gracefully {
            self.store.reopen().await;
        } else {
            // What was not committed could be lost, and the model does not know how much of it.
            for node in &self.nodes {
                if let Body::File(_) = node.body {
                    self.store.store().commit(node.id, 0, 0).await.unwrap();
                }
            }
            self.store.crash();
        }
        self.store.store().end_reclaim().await.unwrap();
        for node in &mut self.nodes {
            node.open = false;
            if node.links == 0 {
                node.body = Body::Gone;
            }
        }
    }

    /// What was touched has a newer version; everything else has the same, unless the store was left
    /// without a graceful stop.
    async fn compare_versions(&mut self, touched: &BTreeSet<usize>, trusted: bool) {
        for (at, node) in self.nodes.iter().enumerate() {
            if matches!(node.body, Body::Gone) {
                continue;
            }
            let now = self.store.attributes(node.id).await.change;
            match self.versions.insert(node.id, now) {
                Some(before) if touched.contains(&at) => assert!(now > before, "{node:?}"),
                Some(before) if trusted => assert_eq!(now, before, "{node:?}"),
                Some(before) => assert!(now >= before, "{node:?}"),
                None => {}
            }
        }
    }

    /// Every object of the model is as in the store, and the store agrees with itself.
    async fn compare(&mut self) {
        for node in &self.nodes {
            let found = self.store.store().attributes(node.id).await;
            let kind = match &node.body {
                Body::Gone => {
                    assert_eq!(found, Err(Error::Stale));
                    continue;
                }
                Body::File(_) => ObjectKind::File,
                Body::Directory { .. } => ObjectKind::Directory,
                Body::Symlink => ObjectKind::Symlink,
            };
            let found = found.unwrap();
            assert_eq!(found.kind, kind);
            match &node.body {
                Body::File(data) => {
                    assert_eq!((found.links, found.size), (node.links, data.len() as u64));
                    assert_eq!(self.store.content(node.id).await, data);
                }
                Body::Directory { parent, entries } => {
                    self.compare_directory(node.id, *parent, entries).await;
                }
                _ => assert_eq!(found.links, node.links),
            }
            if !matches!(node.body, Body::Symlink) {
                self.compare_xattrs(node).await;
            }
        }
        self.store.store().sync().await.unwrap();
        self.store.close();
        let report = Store::check(&self.store.options.directory, false).unwrap();
        assert!(report.sound, "{report}");
    }

    async fn compare_directory(
        &self,
        id: ObjectId,
        parent: usize,
        entries: &BTreeMap<String, usize>,
    ) {
        let listed: BTreeMap<String, ObjectId> = self
            .store
            .list(id, 3)
            .await
            .into_iter()
            .map(|entry| (entry.name.to_string(), entry.attributes.id))
            .collect();
        let expected: BTreeMap<String, ObjectId> = entries
            .iter()
            .map(|(name, child)| (name.clone(), self.nodes[*child].id))
            .collect();
        assert_eq!(listed, expected);
        let subdirectories = entries
            .values()
            .filter(|child| self.is_directory(**child))
            .count();
        assert_eq!(
            self.store.attributes(id).await.links as usize,
            2 + subdirectories
        );
        for (name, child) in &expected {
            assert_eq!(self.store.find(id, name).await, Ok(*child));
        }
        if id != ObjectId::ROOT {
            let found = self.store.store().parent(&root(), id).await.unwrap();
            assert_eq!(found.id, self.nodes[parent].id);
        }
    }

    async fn compare_xattrs(&self, node: &Node) {
        let files = self.store.store();
        let page = files.xattrs(&root(), node.id, 0, 1 << 16).await.unwrap();
        let mut found = BTreeMap::new();
        for name in page.names {
            let value = files.xattr(&root(), node.id, &name).await.unwrap();
            let text = String::from_utf8(name.as_bytes().to_vec()).unwrap();
            found.insert(text, value);
        }
        assert_eq!(found, node.xattrs);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn the_store_does_what_the_model_does(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let modes = [CommitMode::Sync, CommitMode::Async];
            let mut pair = Pair::new(modes[steps.len() % 2]).await;
            for step in steps {
                pair.step(step).await;
            }
            pair.compare().await;
        });
    }
}
