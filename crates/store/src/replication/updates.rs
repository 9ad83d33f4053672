//! The store's own update records, once they have served.

use vfs::Result;

use crate::inner::Inner;
use crate::metadata::Table;
use crate::rows::key;

/// Records removed in one batch.
const RECORDS_A_BATCH: usize = 256;

impl Inner {
    pub(super) async fn trim_updates(&self, through: u64) -> Result<()> {
        loop {
            let keys: Vec<Vec<u8>> = {
                let view = self.metadata.view();
                let rows = view.scan(Table::Updates, &[], &[]).take(RECORDS_A_BATCH);
                let keys = rows.map(|row| Ok(row?.key().to_vec()));
                keys.collect::<Result<_>>()?
            };
            let behind = key::number(through);
            let last = keys.last().is_none_or(|last| last[..] > behind[..]);
            let mut mutation = self.begin_upkeep().await?;
            for key in keys.iter().filter(|key| key[..] <= behind[..]) {
                mutation.remove_local(Table::Updates, key);
            }
            mutation.commit_local()?;
            if last {
                return Ok(());
            }
        }
    }
}
