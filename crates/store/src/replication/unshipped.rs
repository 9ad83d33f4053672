//! Which files have data that other replicas may not have.

use vfs::{ObjectId, Result};

use crate::inner::Inner;
use crate::metadata::Table;
use crate::rows::key;

impl Inner {
    pub(super) fn unshipped(&self) -> Result<Vec<ObjectId>> {
        self.health.check()?;
        let view = self.metadata.view();
        let rows = view.scan(Table::Unshipped, &[], &[]);
        rows.map(|row| Ok(key::parse_object(row?.key())?)).collect()
    }

    pub(super) async fn forget_unshipped(
        &self,
        ids: &[ObjectId],
        shipped: &mut (dyn FnMut(ObjectId) -> bool + Send),
    ) -> Result<()> {
        let mut mutation = self.begin_upkeep().await?;
        for id in ids {
            if shipped(*id) {
                mutation.unmark(Table::Unshipped, *id);
            }
        }
        mutation.commit_local().map(|_| ())
    }
}
