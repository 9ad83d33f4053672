//! Which files of a tree lie on which data servers, by walking the tree.
//!
//! What must never enter: what becomes of them.

use std::collections::BTreeSet;

use pool::{DeviceGroupNumber, Placement};
use store::Store;
use vfs::{Cookie, Credentials, FileSystem, ObjectId, ObjectKind, ShownBytes};

/// Entries that are looked at in one step.
const PAGE: usize = 256;

/// The path of a file that is striped over one of the groups; nothing when there is none. Takes as long as listing the whole tree.
///
/// # Errors
/// When the tree cannot be read.
pub(super) async fn find(
    store: &Store,
    groups: &BTreeSet<DeviceGroupNumber>,
) -> vfs::Result<Option<String>> {
    let (who, rows) = (Credentials::root(), store.placed_rows());
    let mut directories = vec![(ObjectId::ROOT, String::new())];
    while let Some((directory, path)) = directories.pop() {
        let mut after = Cookie::START;
        loop {
            let page = match store.read_directory(&who, directory, after, PAGE).await {
                // Removed meanwhile.
                Err(vfs::Error::Stale) => break,
                page => page?,
            };
            for entry in &page.entries {
                let path = format!("{path}/{}", ShownBytes(entry.name.as_bytes()));
                let id = entry.attributes.id;
                match entry.attributes.kind {
                    ObjectKind::Directory => directories.push((id, path)),
                    ObjectKind::File if lies_on(rows.placement(id)?, groups) => {
                        return Ok(Some(path));
                    }
                    _ => {}
                }
            }
            match page.entries.last() {
                Some(last) if !page.end => after = last.cookie,
                _ => break,
            }
        }
    }
    Ok(None)
}

/// What cannot be read might lie there.
fn lies_on(placement: Option<Vec<u8>>, groups: &BTreeSet<DeviceGroupNumber>) -> bool {
    placement.is_some_and(|stored| {
        Placement::decode(&stored).map_or(true, |placement| groups.contains(&placement.group))
    })
}
