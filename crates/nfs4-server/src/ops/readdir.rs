//! READDIR: lists the current directory page by page (RFC 8881, section 18.23).

use nfs4::{
    Attr, Bitmap4, DirList4, EntryWriter, Fattr4, NfsStat4, ReaddirArgs, ReaddirResOk, Verifier4,
};
use vfs::{Cookie, Name};
use xdr::{Rope, Writer};

use super::directory::status_in_directory;
use crate::attributes::{
    AttributeEncoder, OF_ABSENT_TREE, check_readable, of_absent, unreadable_entry,
};
use crate::compound::Compound;
use crate::handle::{Handle, ObjectHandle};
use crate::places::Absent;
use crate::pseudo::{self, LeadsTo};
use crate::reply;
use crate::status::OrStatus;

/// Cookies belong to names and never become stale, so one verifier is right for all directories.
const VERIFIER: Verifier4 = Verifier4([0; 8]);

/// The approximate size of an entry without its attributes.
const ENTRY_BYTES: usize = 40;

/// The initial size of the buffer for entries; it grows if necessary.
const BUFFER_BYTES: usize = 32 << 10;

/// The maximum number of entries that are read from a file system at once, to bound memory.
const PAGE_ENTRIES_MAX: usize = 1024;

pub(crate) async fn readdir(
    compound: &mut Compound<'_>,
    args: ReaddirArgs,
) -> Result<ReaddirResOk, NfsStat4> {
    compound.current()?;
    check_place(&args)?;
    check_readable(&args.attr_request)?;
    let space = compound.payload_space();
    let mut listing = Listing::new(&args, space, reply::too_big(compound))?;
    let eof = match compound.current()? {
        Handle::Pseudo(node) => list_pseudo(compound, *node, &args, &mut listing).await?,
        Handle::Object(directory) => list(compound, directory, &args, &mut listing).await?,
        Handle::Absent(_) => return Err(NfsStat4::Moved),
    };
    let reply = DirList4 {
        encoded: listing.into_entries(eof)?,
        eof,
        ..DirList4::default()
    };
    Ok(ReaddirResOk {
        cookieverf: VERIFIER,
        reply,
    })
}

/// Checks the start cookie. Cookies 1 and 2 mean `.` and `..`, which clients generate themselves (RFC 8881, section
/// 18.23.3).
fn check_place(args: &ReaddirArgs) -> Result<(), NfsStat4> {
    match args.cookie {
        0 => Ok(()),
        cookie if cookie < Cookie::FIRST.0 => Err(NfsStat4::BadCookie),
        _ if args.cookieverf != VERIFIER => Err(NfsStat4::NotSame),
        _ => Ok(()),
    }
}

/// Lists a directory of an export. Returns whether the listing is complete.
async fn list(
    compound: &Compound<'_>,
    directory: &ObjectHandle,
    args: &ReaddirArgs,
    listing: &mut Listing,
) -> Result<bool, NfsStat4> {
    let file_system = &directory.export.file_system;
    let encoder =
        AttributeEncoder::for_export(compound, &directory.export, &args.attr_request).await?;
    let entry_bytes = ENTRY_BYTES + encoder.estimated_bytes();
    let mut after = Cookie(args.cookie);
    while let Some(wanted) = listing.entries_that_may_fit(entry_bytes) {
        let page = file_system
            .read_directory(&directory.who, directory.id, after, wanted)
            .await
            .map_err(status_in_directory)?;
        for entry in &page.entries {
            let is_unread = page.unread.contains(&entry.cookie);
            if is_unread && !args.attr_request.contains(Attr::RdattrError) {
                // The entries before the error form a page (RFC 8881, section 18.23.3).
                return match listing.entries.is_empty() {
                    true => Err(NfsStat4::Delay),
                    false => Ok(false),
                };
            }
            let attributes = |w: &mut Writer| match is_unread {
                true => {
                    let id = entry.attributes.id.as_u64();
                    w.write(&unreadable_entry(NfsStat4::Delay, id, &args.attr_request));
                }
                false => encoder.write(&entry.attributes, w),
            };
            if !listing.push(entry.cookie, &entry.name, attributes) {
                return Ok(false);
            }
            after = entry.cookie;
        }
        if page.end {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lists a directory of the pseudo file system. Returns whether the listing is complete.
async fn list_pseudo(
    compound: &Compound<'_>,
    node: usize,
    args: &ReaddirArgs,
    listing: &mut Listing,
) -> Result<bool, NfsStat4> {
    let service = compound.service;
    for entry in pseudo::entries(service, node, &compound.caller, Cookie(args.cookie)) {
        let attributes = match entry.leads_to {
            LeadsTo::Directory(node) => pseudo_entry(compound, node, &args.attr_request).await?,
            LeadsTo::Elsewhere(junction) => junction_entry(&junction, &args.attr_request)?,
        };
        if !listing.push(entry.cookie, &entry.name, |w| w.write(&attributes)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The attributes of an entry with a tree at other servers. Without `rdattr_error` none may be missing (RFC 8881,
/// section 11.4.2).
fn junction_entry(junction: &Absent, request: &Bitmap4) -> Result<Fattr4, NfsStat4> {
    if request.contains(Attr::RdattrError) || request.is_subset_of(&OF_ABSENT_TREE) {
        Ok(of_absent(junction, request))
    } else {
        Err(NfsStat4::Moved)
    }
}

/// The attributes of an entry of the pseudo file system: those of the root of the export that covers it, or its own. If
/// the root's attributes cannot be read, the entry has the error, if the client wants that.
async fn pseudo_entry(
    compound: &Compound<'_>,
    node: usize,
    request: &Bitmap4,
) -> Result<Fattr4, NfsStat4> {
    let namespace = &compound.service.namespace;
    let outcome = match namespace.enter(node, &compound.caller) {
        Ok(Handle::Pseudo(node)) => {
            let attributes = pseudo::attributes(compound.service, node);
            Ok(AttributeEncoder::for_pseudo(compound, node, request).encode(&attributes))
        }
        Ok(Handle::Object(root)) => root_of_export(compound, &root, request).await,
        Ok(Handle::Absent(_)) => Err(NfsStat4::Moved),
        Err(status) => Err(status),
    };
    match outcome {
        Err(status) if request.contains(Attr::RdattrError) => {
            Ok(unreadable_entry(status, namespace.node(node).id, request))
        }
        // READDIR itself never fails with this status (RFC 8881, section 18.29.4).
        Err(NfsStat4::WrongSec) => Err(NfsStat4::Access),
        outcome => outcome,
    }
}

async fn root_of_export(
    compound: &Compound<'_>,
    root: &ObjectHandle,
    request: &Bitmap4,
) -> Result<Fattr4, NfsStat4> {
    let attributes = root
        .export
        .file_system
        .attributes(root.id)
        .await
        .or_status()?;
    let encoder = AttributeEncoder::for_export(compound, &root.export, request).await?;
    Ok(encoder.encode(&attributes))
}

/// Entries up to the limits of the client and the session.
#[derive(Debug)]
struct Listing {
    entries: EntryWriter,
    /// The remaining bytes of the reply.
    space: usize,
    /// The remaining bytes for names and cookies, by the client's hint.
    names_space: usize,
    /// The error when not even one entry fits.
    too_small: NfsStat4,
}

impl Listing {
    /// # Errors
    /// `TOOSMALL` when even an empty listing exceeds the client's limit, `too_big` when it exceeds the session's limit.
    fn new(
        args: &ReaddirArgs,
        payload_space: usize,
        too_big: NfsStat4,
    ) -> Result<Listing, NfsStat4> {
        let allowed = args.maxcount as usize;
        let too_small = if allowed <= payload_space {
            NfsStat4::TooSmall
        } else {
            too_big
        };
        let space = allowed
            .min(payload_space)
            .checked_sub(ReaddirResOk::EMPTY_SIZE);
        // No hint means no limit (RFC 8881, section 18.23.4).
        let names_space = if args.dircount == 0 {
            usize::MAX
        } else {
            args.dircount as usize
        };
        Ok(Listing {
            entries: EntryWriter::with_capacity(payload_space.min(allowed).min(BUFFER_BYTES)),
            space: space.ok_or(too_small)?,
            names_space,
            too_small,
        })
    }

    /// How many entries of about `entry_bytes` to read next. `None` when the listing is full, as far as this is known
    /// in advance.
    fn entries_that_may_fit(&self, entry_bytes: usize) -> Option<usize> {
        let by_space = self.space / entry_bytes;
        let by_names = self.names_space / ENTRY_BYTES;
        match by_space.min(by_names) {
            0 if self.entries.is_empty() => Some(1),
            0 => None,
            count => Some(count.min(PAGE_ENTRIES_MAX)),
        }
    }

    /// Adds an entry if it fits; `attributes` writes a [`nfs4::Fattr4`].
    fn push(&mut self, cookie: Cookie, name: &Name, attributes: impl FnOnce(&mut Writer)) -> bool {
        let name = name.as_bytes();
        let name_size = 8 + xdr::opaque_size(name.len());
        // The first entry may exceed the hint, because otherwise the listing could not continue.
        if name_size > self.names_space && !self.entries.is_empty() {
            return false;
        }
        let Some(size) = (self.entries).push(self.space, (cookie.0, name), attributes) else {
            return false;
        };
        self.space -= size;
        self.names_space = self.names_space.saturating_sub(name_size);
        true
    }

    /// The entries. An empty result is valid only at the end of the directory.
    fn into_entries(self, eof: bool) -> Result<Rope, NfsStat4> {
        if self.entries.is_empty() && !eof {
            Err(self.too_small)
        } else {
            Ok(self.entries.finish())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(maxcount: u32, dircount: u32) -> ReaddirArgs {
        ReaddirArgs {
            cookie: 0,
            cookieverf: VERIFIER,
            dircount,
            maxcount,
            attr_request: Bitmap4::EMPTY,
        }
    }

    fn begin(args: &ReaddirArgs, payload_space: usize) -> Result<Listing, NfsStat4> {
        Listing::new(args, payload_space, NfsStat4::RepTooBig)
    }

    fn push(listing: &mut Listing, name: &str) -> bool {
        let name = Name::new(name.as_bytes().to_vec()).unwrap();
        listing.push(Cookie(7), &name, |w| w.write(&Fattr4::default()))
    }

    /// On the wire: one word before the entry, 8 bytes cookie, 8 bytes name, two empty counts.
    const SMALL_ENTRY: usize = 4 + 8 + 8 + 4 + 4;

    #[test]
    fn a_listing_is_as_large_as_its_encoding() {
        let mut listing = begin(&args(100, 0), 1000).unwrap();
        assert!(push(&mut listing, "abc"));
        assert!(push(&mut listing, "abcde"));
        let used = 100 - listing.space;
        let reply = DirList4 {
            encoded: listing.into_entries(true).unwrap(),
            eof: true,
            ..DirList4::default()
        };
        let mut w = xdr::Writer::new();
        w.write(&ReaddirResOk {
            cookieverf: VERIFIER,
            reply,
        });
        assert_eq!(w.position(), used);
    }

    #[test]
    fn entries_are_added_until_the_space_is_used_up() {
        let exact = (ReaddirResOk::EMPTY_SIZE + 2 * SMALL_ENTRY) as u32;
        let mut listing = begin(&args(exact, 0), 1000).unwrap();
        assert!(push(&mut listing, "a"));
        assert!(push(&mut listing, "b"));
        assert!(!push(&mut listing, "c"));
        let mut listing = begin(&args(exact - 1, 0), 1000).unwrap();
        assert!(push(&mut listing, "a"));
        assert!(!push(&mut listing, "b"));
    }

    #[test]
    fn an_empty_listing_needs_sixteen_bytes() {
        assert_eq!(begin(&args(15, 0), 1000).unwrap_err(), NfsStat4::TooSmall);
        let listing = begin(&args(16, 0), 1000).unwrap();
        assert_eq!(listing.into_entries(true), Ok(Rope::default()));
    }

    #[test]
    fn not_one_entry_is_an_error_of_whom_it_was_too_much_for() {
        let mut listing = begin(&args(30, 0), 1000).unwrap();
        assert!(!push(&mut listing, "a"));
        assert_eq!(listing.into_entries(false), Err(NfsStat4::TooSmall));
        let mut listing = begin(&args(1000, 0), 30).unwrap();
        assert!(!push(&mut listing, "a"));
        assert_eq!(listing.into_entries(false), Err(NfsStat4::RepTooBig));
    }

    #[test]
    fn the_hint_limits_all_entries_but_the_first() {
        let mut listing = begin(&args(1000, 20), 1000).unwrap();
        assert!(push(&mut listing, "a name that is longer than the hint"));
        assert!(!push(&mut listing, "b"));
        let mut listing = begin(&args(1000, 32), 1000).unwrap();
        assert!(push(&mut listing, "a"));
        assert!(push(&mut listing, "b"));
        assert!(!push(&mut listing, "c"));
    }

    #[test]
    fn at_least_one_entry_is_tried() {
        let mut listing = begin(&args(60, 0), 1000).unwrap();
        assert_eq!(listing.entries_that_may_fit(200), Some(1));
        push(&mut listing, "a");
        assert_eq!(listing.entries_that_may_fit(200), None);
        let listing = begin(&args(u32::MAX, 0), usize::MAX).unwrap();
        assert_eq!(listing.entries_that_may_fit(200), Some(PAGE_ENTRIES_MAX));
    }

    #[test]
    fn reserved_cookies_and_foreign_verifiers_are_refused() {
        for cookie in [1, 2] {
            let place = ReaddirArgs {
                cookie,
                ..args(100, 0)
            };
            assert_eq!(check_place(&place), Err(NfsStat4::BadCookie));
        }
        let foreign = ReaddirArgs {
            cookie: 3,
            cookieverf: Verifier4([1; 8]),
            ..args(100, 0)
        };
        assert_eq!(check_place(&foreign), Err(NfsStat4::NotSame));
        let start = ReaddirArgs {
            cookie: 0,
            ..foreign
        };
        assert_eq!(check_place(&start), Ok(()));
    }
}
