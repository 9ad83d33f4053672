//! Creating, removing, renaming and linking, in the model and in the store.

use std::collections::{BTreeMap, BTreeSet};

use vfs::Error;

use super::pair::{Body, Node, Outcome, Pair, name};
use super::steps::Kind;
use crate::fixture::{directory, file, symlink};

impl Pair {
    pub(super) async fn make(
        &mut self,
        at: usize,
        number: u8,
        kind: Kind,
        touched: &mut BTreeSet<usize>,
    ) {
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

    pub(super) async fn remove(&mut self, at: usize, number: u8, touched: &mut BTreeSet<usize>) {
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

    pub(super) async fn rename(
        &mut self,
        from: (usize, u8),
        to: (usize, u8),
        touched: &mut BTreeSet<usize>,
    ) {
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

    pub(super) fn expect_rename(
        &self,
        source: usize,
        old: &str,
        target: usize,
        new: &str,
    ) -> Outcome<usize> {
        let (from, to) = (self.entries(source), self.entries(target));
        // The store looks up both directories before it checks their kinds.
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

    pub(super) async fn link(
        &mut self,
        at: usize,
        home: usize,
        number: u8,
        touched: &mut BTreeSet<usize>,
    ) {
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
}
