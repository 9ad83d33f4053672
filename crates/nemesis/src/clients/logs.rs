//! Logs with one writer each: a record is appended and committed, so that it survives with the configured durability.
//!
//! What must never enter: reading; `survey` reads the logs at the end.

use nfs4::LayoutIomode4;
use nfs4_client::{Client, Error, How, OpenFile};

use super::Worker;
use super::answers::{unknown, within};
use super::content::{RECORD_SIZE, of_record};
use super::direct::Direct;
use crate::history::{Act, Outcome};

/// After this many records the file is closed and opened again.
const RECORDS_PER_OPEN: u64 = 20;

/// The maximum number of records in a log, so that the disks suffice for long runs.
const RECORDS_MAX: u64 = 12_000;

/// An open log, and its layout, if there is one.
type Opened = (OpenFile, Option<Direct>);

impl Worker {
    /// Appends to a log until the work is over.
    pub(super) async fn log(&mut self, log: usize) {
        let mut number = 0;
        let mut open: Option<Opened> = None;
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
                && let Some((file, _)) = open.take()
                && within(client.close(&file)).await.is_err()
            {
                self.forget().await;
            }
        }
    }

    async fn append(
        &mut self,
        client: &Client,
        log: usize,
        number: u64,
        open: &mut Option<Opened>,
    ) -> Result<(), Error> {
        let (file, mut direct) = match open.take() {
            Some(opened) => opened,
            None => {
                let handle = self.common.tree.logs[log].handle.clone();
                let file = within(client.open_handle(&handle, &How::write())).await?;
                // Only one of the two logs of a site.
                let direct = match self.writes_there && log.is_multiple_of(2) {
                    true => self.direct(client, &file, LayoutIomode4::ReadWrite).await,
                    false => None,
                };
                (file, direct)
            }
        };
        let (record, offset) = (of_record(log, number), number * RECORD_SIZE);
        if let Some(has) = &direct {
            let (stateid, written) = (
                has.stateid(),
                has.write_stably(offset, record.clone(), true),
            );
            let written = written.await;
            self.note(&written).await;
            if written.is_err() {
                // The client goes through the metadata server until it opens the file again.
                self.give_back(client, &file, stateid).await;
                direct = None;
            }
        }
        if direct.is_none() {
            within(client.write_all(&file, offset, &record)).await?;
        }
        *open = Some((file, direct));
        Ok(())
    }
}
