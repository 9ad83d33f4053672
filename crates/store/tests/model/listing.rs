//! Reading a directory while it changes.

use std::collections::BTreeSet;

use vfs::{Cookie, FileSystem};

use super::pair::{Listing, Pair};
use crate::fixture::root;

impl Pair {
    /// Reads one small page of a directory, and continues where the last one ended.
    pub(super) async fn list_on(&mut self, at: usize) {
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
}
