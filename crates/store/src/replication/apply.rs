//! Taking over changes of another primary.

use vfs::{Error, ReplicaSlot, Result};

use super::{ForeignUpdate, LinkChange};
use crate::codec::Fields;
use crate::committer::Ticket;
use crate::inner::Inner;
use crate::metadata::Table;

impl Inner {
    pub(super) async fn apply(
        &self,
        _update: ForeignUpdate,
        _oversee: &mut (
                 dyn FnMut(&[LinkChange], &mut dyn FnMut() -> Result<()>) -> Result<()> + Send
             ),
    ) -> Result<Ticket> {
        Err(Error::NotSupported)
    }

    pub(super) fn applied(&self, from: ReplicaSlot) -> Result<u64> {
        self.health.check()?;
        let row = self.metadata.row(Table::Applied, &from.0.to_be_bytes())?;
        row.map_or(Ok(0), |row| Ok(Fields::new(&row).u64()?))
    }
}
