//! Registers that are read and written at data servers. Each read is recorded with the change attribute that the open shows.
//!
//! What must never enter: how a data server is reached; see `direct`.

use nfs4::{Attr, Bitmap4, LayoutIomode4};
use nfs4_client::{Client, Error, How, OpenFile};

use super::Worker;
use super::answers::{outcome_of, unknown, within};
use super::content::{VALUE_SIZE, of_value, value_in};
use super::registers::{read_value, write_through};
use super::tree::Place;
use crate::history::{Act, Outcome, Seen};

impl Worker {
    /// Reads and writes registers by layouts until the work is over.
    pub(super) async fn layouts(&mut self) {
        while let Some(client) = self.next().await {
            let register = self.random.below(self.common.tree.registers.len() as u64) as usize;
            let place = self.common.tree.registers[register].clone();
            match self.random.below(3) {
                0 => self.write_there(&client, register, &place).await,
                _ => self.read_there(&client, register, &place).await,
            }
        }
    }

    async fn read_there(&mut self, client: &Client, register: usize, place: &Place) {
        let begin = self.now();
        match self.version(client, place).await {
            Ok((change, saw)) => {
                let act = Act::Version {
                    register,
                    change,
                    saw,
                };
                self.record(begin, act, Outcome::Done).await;
            }
            Err(error) => {
                let act = Act::Read {
                    register,
                    saw: None,
                };
                self.record(begin, act, unknown(&error)).await;
            }
        }
    }

    async fn version(&mut self, client: &Client, place: &Place) -> Result<(u64, Seen), Error> {
        let file = within(client.open_handle(&place.handle, &How::read())).await?;
        let wanted = Bitmap4::of(&[Attr::Change]);
        let shown = within(client.getattr(&file.handle, wanted)).await?;
        let change = shown.change.ok_or(Error::Unexpected("GETATTR"))?;
        let seen = self.value(client, &file).await?;
        within(client.close(&file)).await?;
        Ok((change, seen))
    }

    async fn value(&mut self, client: &Client, file: &OpenFile) -> Result<Seen, Error> {
        if let Some(direct) = self.direct(client, file, LayoutIomode4::Read).await {
            let read = direct.read(0, VALUE_SIZE + 1).await;
            self.note(&read).await;
            if self.random.below(2) == 0 {
                self.give_back(client, file, direct.stateid()).await;
            }
            if let Ok(bytes) = read {
                return Ok(value_in(&bytes));
            }
        }
        within(read_value(client, file)).await
    }

    async fn write_there(&mut self, client: &Client, register: usize, place: &Place) {
        let value = self.common.fresh_value();
        let begin = self.now();
        let opened = within(client.open_handle(&place.handle, &How::write())).await;
        let outcome = match opened {
            Err(error) => outcome_of(&error),
            Ok(file) => match self.put(client, &file, value).await {
                Err(error) => unknown(&error),
                Ok(()) => Outcome::Done,
            },
        };
        self.record(begin, Act::Write { register, value }, outcome)
            .await;
    }

    async fn put(&mut self, client: &Client, file: &OpenFile, value: u64) -> Result<(), Error> {
        let commits = self.random.below(2) == 0;
        let mut is_there = false;
        let direct = match self.writes_there {
            true => self.direct(client, file, LayoutIomode4::ReadWrite).await,
            false => None,
        };
        if let Some(direct) = direct {
            let written = direct.write_stably(0, of_value(value), commits).await;
            self.note(&written).await;
            is_there = written.is_ok();
            // Linux sends LAYOUTCOMMIT only after unstable writes.
            if is_there && commits {
                let last = u64::from(VALUE_SIZE) - 1;
                let said = client.commit_layout(&file.handle, direct.stateid(), last);
                // A layout that was fenced meanwhile cannot be committed; the data servers know the size.
                let _ = within(said).await;
            }
            if !is_there || self.random.below(2) == 0 {
                self.give_back(client, file, direct.stateid()).await;
            }
        }
        match is_there {
            true => within(client.close(file)).await,
            false => within(write_through(client, file, value, commits)).await,
        }
    }
}
