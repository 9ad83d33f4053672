//! Compares the store with the model.

use std::collections::{BTreeMap, BTreeSet};

use store::Store;
use vfs::{Error, FileSystem, ObjectId, ObjectKind};

use super::pair::{Body, Node, Pair};
use crate::fixture::root;

impl Pair {
    /// Checks versions: touched objects have a newer one, all others the same, unless the store was left
    /// without a graceful stop.
    pub(super) async fn compare_versions(&mut self, touched: &BTreeSet<usize>, trusted: bool) {
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

    /// Checks that every object of the model is the same in the store, and that the store is consistent.
    pub(super) async fn compare(&mut self) {
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

    pub(super) async fn compare_directory(
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

    pub(super) async fn compare_xattrs(&self, node: &Node) {
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
