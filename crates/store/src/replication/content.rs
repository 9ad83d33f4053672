//! Bytes of files on their way to other replicas, and from them.

use std::sync::Arc;

use vfs::{Error, ObjectId, Result};

use super::ContentPiece;
use crate::inner::Inner;

impl Inner {
    pub(super) fn content(
        &self,
        _id: ObjectId,
        _offset: u64,
        _count: u64,
    ) -> Result<Vec<ContentPiece>> {
        Err(Error::NotSupported)
    }

    pub(super) async fn put_content(
        self: &Arc<Self>,
        _id: ObjectId,
        _piece: ContentPiece,
    ) -> Result<()> {
        Err(Error::NotSupported)
    }
}
