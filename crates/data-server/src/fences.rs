//! Which contents were fenced, and which are gone: a small file each, under the name of the contents.

use bytes::Bytes;
use pool::{ContentsId, Generation};
use store::Store;
use vfs::{AccessCheck, Credentials, Error, FileSystem, ObjectId, Result, Stability};

use crate::shelf::{file_in, find_in, name_of};

/// Generation (8), and 1 for contents that are gone (1).
const FENCE_BYTES: usize = 9;

/// What is stable about the generation of some contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    /// Handles of another one are worth nothing.
    pub(crate) generation: Generation,
    /// The contents are gone, for ever.
    pub(crate) removed: bool,
}

/// All fences of a shelf.
#[derive(Debug)]
pub(crate) struct Fences {
    directory: ObjectId,
}

impl Fences {
    pub(crate) fn new(directory: ObjectId) -> Fences {
        Fences { directory }
    }

    /// `None`: nobody has fenced them.
    pub(crate) async fn of(&self, store: &Store, contents: ContentsId) -> Result<Option<Fence>> {
        let Some(file) = find_in(store, self.directory, &name_of(contents)?).await? else {
            return Ok(None);
        };
        let who = Credentials::root();
        let read = store.read(AccessCheck::Open(&who), file, 0, FENCE_BYTES as u32 + 1);
        let read = read.await?.bytes;
        match parse(&read) {
            // Its maker was stopped before it said anything.
            None if read.is_empty() => Ok(None),
            None => Err(Error::Io("a fence is damaged".into())),
            fence => Ok(fence),
        }
    }

    /// Notes a fence, stably. Nobody else may do so for the same contents meanwhile.
    pub(crate) async fn raise(
        &self,
        store: &Store,
        contents: ContentsId,
        fence: Fence,
    ) -> Result<()> {
        let file = file_in(store, self.directory, &name_of(contents)?).await?;
        let who = Credentials::root();
        let bytes = Bytes::copy_from_slice(&encode(fence));
        let written = store.write(AccessCheck::Open(&who), file, 0, bytes, Stability::File);
        written.await.map(|_| ())
    }
}

fn encode(fence: Fence) -> [u8; FENCE_BYTES] {
    let mut bytes = [0; FENCE_BYTES];
    bytes[..8].copy_from_slice(&fence.generation.0.to_be_bytes());
    bytes[8] = u8::from(fence.removed);
    bytes
}

fn parse(bytes: &[u8]) -> Option<Fence> {
    let (generation, removed) = bytes.split_at_checked(8)?;
    Some(Fence {
        generation: Generation(u64::from_be_bytes(generation.try_into().ok()?)),
        removed: match removed {
            [0] => false,
            [1] => true,
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_read_as_it_was_written_and_nothing_else_is_one() {
        for removed in [false, true] {
            let fence = Fence {
                generation: Generation(u64::MAX - 9),
                removed,
            };
            let bytes = encode(fence);
            assert_eq!(parse(&bytes), Some(fence));
            assert_eq!(parse(&bytes[..8]), None);
        }
        assert_eq!(parse(&[0, 0, 0, 0, 0, 0, 0, 1, 2]), None);
        assert_eq!(parse(&[0; 10]), None);
    }
}
