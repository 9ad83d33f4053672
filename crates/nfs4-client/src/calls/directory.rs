//! Reading directories, in pages or whole.

use nfs4::{Attributes4, Bitmap4, Component4, Entry4, NfsFh4, ReaddirResOk, Verifier4};

use crate::client::{Client, take};
use crate::error::Error;
use crate::ops;

/// The size of a page, in bytes of the reply.
const PAGE_SIZE: u32 = 128 * 1024;

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The cookie after which the next entries begin.
    pub cookie: u64,
    /// Its name.
    pub name: Component4,
    /// The requested attributes that the server has.
    pub attributes: Attributes4,
}

/// Consecutive entries of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The verifier that the next request must repeat.
    pub verifier: Verifier4,
    /// The entries.
    pub entries: Vec<Entry>,
    /// True when nothing follows.
    pub is_last: bool,
}

impl Client {
    /// Entries of a directory after `cookie`, which is zero at the beginning, like the verifier,
    /// in at most `size` bytes of reply.
    pub async fn readdir_page(
        &self,
        directory: &NfsFh4,
        cookie: u64,
        verifier: Verifier4,
        size: u32,
        wanted: Bitmap4,
    ) -> Result<Page, Error> {
        let readdir = ops::readdir(cookie, verifier, size, wanted);
        let mut results = self.call(vec![ops::putfh(directory), readdir]).await?;
        page(take!(results, Readdir))
    }

    /// All entries of a directory, in as many requests as needed.
    pub async fn readdir(&self, directory: &NfsFh4, wanted: Bitmap4) -> Result<Vec<Entry>, Error> {
        let size = PAGE_SIZE.min(self.io_max());
        let mut entries: Vec<Entry> = Vec::new();
        let mut verifier = Verifier4::default();
        loop {
            let cookie = entries.last().map_or(0, |entry| entry.cookie);
            let page = self
                .readdir_page(directory, cookie, verifier, size, wanted)
                .await?;
            // An empty page that is not the last would be requested again for ever.
            if page.entries.is_empty() && !page.is_last {
                return Err(Error::Unexpected("READDIR"));
            }
            verifier = page.verifier;
            entries.extend(page.entries);
            if page.is_last {
                return Ok(entries);
            }
        }
    }
}

fn page(result: ReaddirResOk) -> Result<Page, Error> {
    let entries: Result<Vec<Entry>, Error> = result.reply.entries.into_iter().map(entry).collect();
    Ok(Page {
        verifier: result.cookieverf,
        entries: entries?,
        is_last: result.reply.eof,
    })
}

fn entry(entry: Entry4) -> Result<Entry, Error> {
    Ok(Entry {
        cookie: entry.cookie,
        attributes: Attributes4::decode(&entry.attrs)?,
        name: entry.name,
    })
}
