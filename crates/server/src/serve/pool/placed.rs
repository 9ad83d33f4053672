//! Finds out which files of a tree lie on which data servers, by walking the tree.
//!
//! What must never enter: what becomes of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;

use pool::{DataServerNumber, DeviceGroup, DeviceGroupNumber, Placement};
use store::Store;
use vfs::{Attributes, Cookie, Credentials, FileSystem, ObjectId, ObjectKind, ShownBytes};

/// Entries read in one step.
const PAGE: usize = 256;
/// At most this many paths are named.
const NAMED: usize = 1000;
/// And only while all of them together have at most this many bytes, since a path may be hundreds of KiB long.
const NAMED_BYTES: usize = 2 << 20;

/// Files that concern a data server.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// The number of their names.
    pub(super) files: u64,
    /// The first paths.
    pub(super) paths: Vec<String>,
    bytes: usize,
}

impl Listed {
    pub(super) fn add(&mut self, path: String) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(path.len());
        if self.paths.len() < NAMED && self.bytes <= NAMED_BYTES {
            self.paths.push(path);
        }
    }
}

/// The path of a file that is striped over one of the groups. `None` if there is none. Takes as long as listing the whole tree.
///
/// # Errors
/// When the tree cannot be read.
pub(super) async fn find(
    store: &Store,
    groups: &BTreeSet<DeviceGroupNumber>,
) -> vfs::Result<Option<String>> {
    let mut found = None;
    walk(store, |path, _, placement| {
        match lies_on(placement, groups) {
            true => {
                found = Some(path);
                ControlFlow::Break(())
            }
            false => ControlFlow::Continue(()),
        }
    })
    .await?;
    Ok(found)
}

/// All files that are striped over one of the groups. Takes as long as listing the whole tree.
///
/// # Errors
/// When the tree cannot be read.
pub(super) async fn all(
    store: &Store,
    groups: &BTreeSet<DeviceGroupNumber>,
) -> vfs::Result<Listed> {
    let mut listed = Listed::default();
    walk(store, |path, _, placement| {
        if lies_on(placement, groups) {
            listed.add(path);
        }
        ControlFlow::Continue(())
    })
    .await?;
    Ok(listed)
}

/// An unreadable placement might be on these groups.
fn lies_on(placement: Option<Placement>, groups: &BTreeSet<DeviceGroupNumber>) -> bool {
    placement.is_none_or(|placement| groups.contains(&placement.group))
}

/// Shows the files that had a stripe on a data server, by the sizes in their rows. Takes as long as listing the whole tree.
///
/// # Errors
/// When the tree cannot be read.
pub(super) async fn walk_lost(
    store: &Store,
    groups: &BTreeMap<DeviceGroupNumber, DeviceGroup>,
    server: DataServerNumber,
    mut show: impl FnMut(String),
) -> vfs::Result<()> {
    let mut walk = Walk::new();
    while let Some(found) = walk.next(store).await? {
        if found.had_part_at(server, groups) {
            show(found.path);
        }
    }
    Ok(())
}

/// Shows every file that lies at data servers, with its placement. `None` if that is unreadable.
async fn walk(
    store: &Store,
    mut show: impl FnMut(String, &Attributes, Option<Placement>) -> ControlFlow<()>,
) -> vfs::Result<()> {
    let mut walk = Walk::new();
    while let Some(found) = walk.next(store).await? {
        if show(found.path, &found.attributes, found.placement).is_break() {
            break;
        }
    }
    Ok(())
}

/// A file that lies at data servers.
pub(super) struct Found {
    pub(super) path: String,
    pub(super) attributes: Attributes,
    /// `None` if it is unreadable.
    pub(super) placement: Option<Placement>,
}

impl Found {
    /// Whether it is striped over one of these groups. An unreadable placement might be.
    pub(super) fn lies_on(&self, groups: &BTreeSet<DeviceGroupNumber>) -> bool {
        lies_on(self.placement, groups)
    }

    /// Whether it had a stripe on a data server, by the size in its row. A file with an unreadable placement might have had one.
    pub(super) fn had_part_at(
        &self,
        server: DataServerNumber,
        groups: &BTreeMap<DeviceGroupNumber, DeviceGroup>,
    ) -> bool {
        let Some(placement) = &self.placement else {
            return true;
        };
        let had = || {
            let group = groups.get(&placement.group)?;
            let mut members = group.members().iter();
            let index = members.position(|member| *member == server)?;
            let stripes = placement.stripes(group).ok()?;
            Some(stripes.end_at(index, self.attributes.size) > 0)
        };
        had() == Some(true)
    }
}

/// A walk through a tree, file by file.
pub(super) struct Walk {
    /// Where to continue: directories, and the entry after which to read.
    directories: Vec<(ObjectId, String, Cookie)>,
    found: VecDeque<Found>,
}

impl Walk {
    /// Starts at the root.
    pub(super) fn new() -> Walk {
        Walk {
            directories: vec![(ObjectId::ROOT, String::new(), Cookie::START)],
            found: VecDeque::new(),
        }
    }

    /// The next file that lies at data servers. `None` after the last.
    ///
    /// # Errors
    /// When the tree cannot be read.
    pub(super) async fn next(&mut self, store: &Store) -> vfs::Result<Option<Found>> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Ok(Some(found));
            }
            let Some((directory, path, after)) = self.directories.pop() else {
                return Ok(None);
            };
            // Reads never wait, and the walk may be long.
            tokio::task::yield_now().await;
            let who = Credentials::root();
            let page = match store.read_directory(&who, directory, after, PAGE).await {
                // It was removed meanwhile.
                Err(vfs::Error::Stale) => continue,
                page => page?,
            };
            if let Some(last) = page.entries.last().filter(|_| !page.end) {
                self.directories
                    .push((directory, path.clone(), last.cookie));
            }
            let rows = store.placed_rows();
            for entry in page.entries {
                let path = format!("{path}/{}", ShownBytes(entry.name.as_bytes()));
                let attributes = entry.attributes;
                match attributes.kind {
                    ObjectKind::Directory => {
                        (self.directories).push((attributes.id, path, Cookie::START));
                    }
                    ObjectKind::File => {
                        if let Some(stored) = rows.placement(attributes.id)? {
                            self.found.push_back(Found {
                                path,
                                attributes,
                                placement: Placement::decode(&stored).ok(),
                            });
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_named_as_far_as_an_answer_has_space_for_them() {
        let mut listed = Listed::default();
        for _ in 0..3000 {
            listed.add("/short".to_owned());
        }
        assert_eq!((listed.files, listed.paths.len()), (3000, NAMED));
        let mut listed = Listed::default();
        for _ in 0..100 {
            listed.add("x".repeat(170 << 10));
        }
        assert_eq!((listed.files, listed.paths.len()), (100, 12));
    }
}
