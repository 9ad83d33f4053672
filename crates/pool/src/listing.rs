//! The contents of a data server, as it lists them for a home (rule 8). The home answers with intents for contents that belong to no file.

use crate::message::ContentsId;
use crate::numbers::{Generation, PlacementNumber};
use fields::{Fields, Malformed};
use vfs::ObjectId;

/// Some contents of a data server, each with its fenced generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing(pub Vec<(ContentsId, Generation)>);

/// The encoded length of one entry.
const ENTRY_BYTES: usize = 20;

impl Listing {
    /// The maximum number of entries in one listing.
    pub const MOST: usize = 1000;

    /// The encoded bytes: 20 for each entry.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * ENTRY_BYTES);
        for (contents, generation) in &self.0 {
            bytes.extend(contents.object.as_u64().to_be_bytes());
            bytes.extend(contents.placement.0.to_be_bytes());
            bytes.extend(generation.0.to_be_bytes());
        }
        bytes
    }

    /// Reads what [`Listing::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are not of that form, or there are more than [`Listing::MOST`] entries.
    pub fn decode(bytes: &[u8]) -> Result<Listing, Malformed> {
        let is_whole = bytes.len().is_multiple_of(ENTRY_BYTES);
        if !is_whole || bytes.len() > Listing::MOST * ENTRY_BYTES {
            return Err(Malformed("a list of contents has an impossible length"));
        }
        let entries = bytes.chunks(ENTRY_BYTES).map(entry);
        Ok(Listing(entries.collect::<Result<_, Malformed>>()?))
    }
}

fn entry(bytes: &[u8]) -> Result<(ContentsId, Generation), Malformed> {
    let mut fields = Fields::new(bytes);
    let contents = ContentsId {
        object: ObjectId::from_u64(fields.u64()?),
        placement: PlacementNumber(fields.u32()?),
    };
    Ok((contents, Generation(fields.u64()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_comes_back_and_other_bytes_are_refused() {
        let entry = |number: u32| {
            let contents = ContentsId {
                object: ObjectId::from_u64(u64::from(number) + 7),
                placement: PlacementNumber(number),
            };
            (contents, Generation(u64::from(number) * 3))
        };
        let listing = Listing((1..=1000).map(entry).collect());
        let bytes = listing.encode();
        assert_eq!(Listing::decode(&bytes), Ok(listing));
        assert_eq!(Listing::decode(&[]), Ok(Listing::default()));
        assert!(Listing::decode(&bytes[1..]).is_err());
        let more = [&bytes[..], &bytes[..20]].concat();
        assert!(Listing::decode(&more).is_err());
    }
}
