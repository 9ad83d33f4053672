//! The pseudo file system for clients: read-only directories that lead to the exports (RFC 8881, section 7.3). The
//! [`Namespace`] decides which directories exist.

use std::sync::Arc;

use vfs::{
    Attributes, ChangeAttribute, Cookie, Credentials, Name, ObjectId, ObjectKind, ROOT_ID,
    Timestamp,
};

use crate::namespace::{Caller, Namespace, ROOT_NODE};
use crate::places::Absent;
use crate::service::Service;

/// All users may list and search; none may change anything.
const MODE: u32 = 0o555;

/// The reported size of directories of the pseudo file system, in bytes.
const NOMINAL_BYTES: u64 = 4096;

/// An entry of a directory of the pseudo file system.
pub(crate) struct Entry {
    /// Reading after this cookie continues behind the entry.
    pub(crate) cookie: Cookie,
    /// Its name.
    pub(crate) name: Name,
    /// The object behind it.
    pub(crate) leads_to: LeadsTo,
}

/// The object behind an entry.
pub(crate) enum LeadsTo {
    /// A directory, by its index.
    Directory(usize),
    /// A tree of other servers.
    Elsewhere(Arc<Absent>),
}

/// The attributes of a directory: the same at every replica and after every start, while the exports and junctions are
/// the same.
pub(crate) fn attributes(service: &Service, node: usize) -> Attributes {
    let namespace = &service.namespace;
    let directory = namespace.node(node);
    let junctions = match namespace.is_domain(node) {
        true => service.places.junctions().len(),
        false => 0,
    };
    let epoch = Timestamp::default();
    Attributes {
        id: ObjectId::from_u64(directory.id),
        kind: ObjectKind::Directory,
        mode: MODE,
        links: u32::try_from(directory.children.len() + junctions + 2).unwrap_or(u32::MAX),
        owner: ROOT_ID,
        group: ROOT_ID,
        size: NOMINAL_BYTES,
        space_used: 0,
        change: ChangeAttribute(namespace.pseudo_change() ^ service.places.change()),
        accessed: epoch,
        modified: epoch,
        changed: epoch,
        created: epoch,
    }
}

/// The identity of callers in the pseudo file system: it belongs to the superuser, and callers are not the superuser.
pub(crate) fn visitor() -> Credentials {
    Credentials {
        user: crate::namespace::NOBODY_ID,
        group: crate::namespace::NOBODY_ID,
        groups: [].into(),
        request: None,
    }
}

/// The directory behind a name. Also `None` when it leads only to exports that the caller may not use from its address.
pub(crate) fn child(
    namespace: &Namespace,
    node: usize,
    name: &Name,
    caller: &Caller,
) -> Option<usize> {
    let child = *namespace.node(node).children.get(name)?;
    is_visible(namespace, child, caller).then_some(child)
}

/// The entries after `after` that a caller may see, in the order of their cookies.
pub(crate) fn entries(
    service: &Service,
    node: usize,
    caller: &Caller,
    after: Cookie,
) -> Vec<Entry> {
    let namespace = &service.namespace;
    let children = namespace.node(node).children.iter();
    let directories = children
        .filter(|(_, child)| is_visible(namespace, **child, caller))
        .map(|(name, child)| Entry {
            cookie: cookie(namespace.node(*child).id),
            name: name.clone(),
            leads_to: LeadsTo::Directory(*child),
        });
    let mut entries: Vec<Entry> = directories.collect();
    for name in service.places.junctions().keys() {
        if let Some(junction) = service.junction(node, name) {
            entries.push(Entry {
                cookie: cookie(junction.id),
                name: name.clone(),
                leads_to: LeadsTo::Elsewhere(junction),
            });
        }
    }
    entries.retain(|entry| entry.cookie > after);
    entries.sort_unstable_by_key(|entry| entry.cookie);
    entries
}

/// The upper bits of the hash of the path, so that a cookie stays valid when other exports come and go.
fn cookie(path_hash: u64) -> Cookie {
    Cookie(path_hash >> 1).max(Cookie::FIRST)
}

fn is_visible(namespace: &Namespace, node: usize, caller: &Caller) -> bool {
    let directory = namespace.node(node);
    match directory.export {
        Some(export) => namespace.exports()[export].is_open_to(caller.peer),
        // Every client that may use this server sees its domain.
        None => {
            namespace.is_domain(node)
                || directory
                    .children
                    .values()
                    .any(|child| is_visible(namespace, *child, caller))
        }
    }
}

/// The names on the path from the root to a directory.
pub(crate) fn path(namespace: &Namespace, mut node: usize) -> Vec<Name> {
    let mut path = Vec::new();
    while node != ROOT_NODE {
        let parent = namespace.node(node).parent;
        let mut children = namespace.node(parent).children.iter();
        let name = children.find(|(_, child)| **child == node);
        path.extend(name.map(|(name, _)| name.clone()));
        node = parent;
    }
    path.reverse();
    path
}
