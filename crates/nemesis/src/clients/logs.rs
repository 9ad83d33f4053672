//! Logs of one writer each: a record is appended and committed, so that it survives as durability was set.
//!
//! What must never enter: reading; what is there at the end is seen by `survey`.

use nfs4_client::{Client, Error, How, OpenFile};

use super::content::{RECORD_SIZE, of_record};
use super::{Worker, unknown, within};
use crate::history::{Act, Outcome};

/// After this many records the file is closed and opened again.
const RECORDS_PER_OPEN: u64 = 20;

/// A log has no more records, so that the disks suffice for long runs.
const RECORDS_MAX: u64 = 12_000;

impl Worker {
    /// Appends to a log until the work is over.
    pub(super) async fn log(&mut self, log: usize) {
        let mut number = 0;
        let mut open: Option<OpenFile> = None;
        while let Some(client) = self.next().await {
            if number >= RECORDS_MAX {
                return;
            }
            let begin = self.now();
            let outcome = match self.append(&client, log, number, &mut open).await {
                Ok(()) => Outcome::Done,
                Err(error) => {
                    open = None;
                    unknown(&error)
                }
            };
            self.record(begin, Act::Append { log, number }, outcome)
                .await;
            number += 1;
            if number % RECORDS_PER_OPEN == 0
                && let Some(file) = open.take()
                && within(client.close(&file)).await.is_err()
            {
                self.forget().await;
            }
        }
    }

    async fn append(
        &self,
        client: &Client,
        log: usize,
        number: u64,
        open: &mut Option<OpenFile>,
    ) -> Result<(), Error> {
        let file = match open.take() {
            Some(file) => file,
            None => {
                let place = &self.common.tree.logs[log];
                within(client.open_handle(&place.handle, &How::write())).await?
            }
        };
        let record = of_record(log, number);
        within(client.write_all(&file, number * RECORD_SIZE, &record)).await?;
        *open = Some(file);
        Ok(())
    }
}
