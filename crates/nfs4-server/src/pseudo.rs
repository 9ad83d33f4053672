//! The pseudo file system as clients see it: directories that lead to the exports and can only be read
//! (RFC 8881, section 7.3). Which directories there are is up to the [`Namespace`].

use vfs::{
    Attributes, ChangeAttribute, Cookie, Credentials, Name, ObjectId, ObjectKind, ROOT_ID,
    Timestamp,
};

use crate::namespace::{Caller, Namespace};

/// Everybody may list and search, nobody may change.
const MODE: u32 = 0o555;

/// Size that directories of the pseudo file system claim to have, in bytes.
const NOMINAL_BYTES: u64 = 4096;

/// An entry of a directory of the pseudo file system.
pub(crate) struct Entry<'a> {
    /// Reading after this cookie continues behind the entry.
    pub(crate) cookie: Cookie,
    /// Its name.
    pub(crate) name: &'a Name,
    /// The directory it leads to, by its index.
    pub(crate) node: usize,
}

/// A directory's attributes: the same at every replica and after every start, as long as the exports
/// are the same.
pub(crate) fn attributes(namespace: &Namespace, node: usize) -> Attributes {
    let directory = namespace.node(node);
    let epoch = Timestamp::default();
    Attributes {
        id: ObjectId::from_u64(directory.id),
        kind: ObjectKind::Directory,
        mode: MODE,
        links: u32::try_from(directory.children.len() + 2).unwrap_or(u32::MAX),
        owner: ROOT_ID,
        group: ROOT_ID,
        size: NOMINAL_BYTES,
        space_used: 0,
        change: ChangeAttribute(namespace.pseudo_change()),
        accessed: epoch,
        modified: epoch,
        changed: epoch,
        created: epoch,
    }
}

/// As whom callers access the pseudo file system: it belongs to the superuser, and they are not.
pub(crate) fn visitor() -> Credentials {
    Credentials {
        user: crate::namespace::NOBODY_ID,
        group: crate::namespace::NOBODY_ID,
        groups: [].into(),
        request: None,
    }
}

/// The directory behind a name. `None` too when it leads only to exports that the caller may not use from
/// where it is.
pub(crate) fn child(
    namespace: &Namespace,
    node: usize,
    name: &Name,
    caller: &Caller,
) -> Option<usize> {
    let child = *namespace.node(node).children.get(name)?;
    is_visible(namespace, child, caller).then_some(child)
}

/// The entries behind `after` that a caller gets to see, in the order of their cookies.
pub(crate) fn entries<'a>(
    namespace: &'a Namespace,
    node: usize,
    caller: &Caller,
    after: Cookie,
) -> Vec<Entry<'a>> {
    let children = namespace.node(node).children.iter();
    let mut entries: Vec<Entry<'a>> = children
        .filter(|(_, child)| is_visible(namespace, **child, caller))
        .map(|(name, child)| Entry {
            cookie: cookie(namespace, *child),
            name,
            node: *child,
        })
        .filter(|entry| entry.cookie > after)
        .collect();
    entries.sort_unstable_by_key(|entry| entry.cookie);
    entries
}

/// The upper bits of the hash of the path, so that a cookie stays valid when other exports come and go.
fn cookie(namespace: &Namespace, node: usize) -> Cookie {
    Cookie(namespace.node(node).id >> 1).max(Cookie::FIRST)
}

fn is_visible(namespace: &Namespace, node: usize, caller: &Caller) -> bool {
    let directory = namespace.node(node);
    match directory.export {
        Some(export) => namespace.exports()[export].is_open_to(caller.peer),
        None => directory
            .children
            .values()
            .any(|child| is_visible(namespace, *child, caller)),
    }
}
