//! LISTXATTRS: the names of extended attributes, page by page (RFC 8276, section 8.4.3).

use nfs4::{Component4, ListxattrsArgs, ListxattrsResOk, NfsStat4};
use vfs::{Error, XattrPage};

use crate::compound::Compound;
use crate::handle::ObjectHandle;
use crate::status::status_of;

/// The size of the reply without the names: cookie, count and end mark.
const EMPTY_BYTES: usize = 8 + 4 + 4;

pub(crate) async fn listxattrs(
    compound: &mut Compound<'_>,
    args: ListxattrsArgs,
) -> Result<ListxattrsResOk, NfsStat4> {
    let object = compound.current_object(NfsStat4::NotSupp)?;
    let allowed = (args.maxcount as usize).min(compound.payload_space());
    let space = allowed.checked_sub(EMPTY_BYTES).ok_or(NfsStat4::TooSmall)?;
    let page = page(&object, args.cookie, space).await?;
    Ok(ListxattrsResOk {
        cookie: page.cookie,
        names: page
            .names
            .iter()
            .map(|name| Component4(name.to_bytes()))
            .collect(),
        eof: page.end,
    })
}

/// A page whose encoding takes at most `space` bytes. File systems count names without their padding. So the first
/// request is for less than would fit, and for more only if that is too little for a long name.
async fn page(object: &ObjectHandle, cookie: u64, space: usize) -> Result<XattrPage, NfsStat4> {
    let file_system = &object.export.file_system;
    for max_bytes in [surely_fitting(space), space] {
        match file_system
            .xattrs(&object.who, object.id, cookie, max_bytes)
            .await
        {
            Ok(page) if encoded_bytes(&page) <= space => return Ok(page),
            Ok(_) | Err(Error::XattrTooLarge) => {}
            Err(error) => return Err(status_of(&error)),
        }
    }
    Err(NfsStat4::TooSmall)
}

/// The size of names and lengths that certainly fits into `space` with padding: a name of one byte grows from five
/// bytes to eight, any other name grows less.
fn surely_fitting(space: usize) -> usize {
    space / 8 * 5
}

fn encoded_bytes(page: &XattrPage) -> usize {
    page.names
        .iter()
        .map(|name| xdr::opaque_size(name.as_bytes().len()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::XattrName;

    #[test]
    fn padded_names_fit_whatever_their_lengths() {
        for length in 1..=255 {
            let name = XattrName::new(vec![b'x'; length]).unwrap();
            for space in [64, 300, 1001] {
                let count = surely_fitting(space) / (4 + length);
                let names = vec![name.clone(); count];
                let page = XattrPage {
                    names,
                    cookie: 0,
                    end: false,
                };
                assert!(
                    encoded_bytes(&page) <= space,
                    "{count} names of {length} in {space}"
                );
            }
        }
    }
}
