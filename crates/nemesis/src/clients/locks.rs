//! Counters that are incremented under a byte-range lock.
//!
//! What must never enter: waiting for callbacks; a client that is denied asks again.

use std::time::Duration;

use nfs4::{NfsLockType4, NfsStat4};
use nfs4_client::{Client, Error, Held, How, LockAnswer, OpenFile, StableHow4};

use super::Worker;
use super::answers::{denied, unknown, within};
use super::content::of_value;
use super::registers::read_value;
use crate::history::{Act, Outcome, Section, Seen};

/// The maximum number of attempts to get a lock before the client does something else.
const TRIES: u32 = 40;

/// The locked range.
const LENGTH: u64 = 16;

impl Worker {
    /// Increments counters under locks until the work is over.
    pub(super) async fn locks(&mut self) {
        while let Some(client) = self.next().await {
            let counter = self.random.below(self.common.tree.counters.len() as u64) as usize;
            let mut section = Section {
                counter,
                ..Section::default()
            };
            let begin = self.now();
            section.asked = begin;
            let outcome = match self.section(&client, &mut section).await {
                Ok(true) => Outcome::Done,
                Ok(false) => denied(),
                Err(error) => unknown(&error),
            };
            self.record(begin, Act::Section(section), outcome).await;
        }
    }

    /// False if another client had the lock all the time.
    async fn section(&mut self, client: &Client, section: &mut Section) -> Result<bool, Error> {
        let place = self.common.tree.counters[section.counter].clone();
        let file = within(client.open_handle(&place.handle, &How::write())).await?;
        let Some(held) = self.acquire(client, &file, section).await? else {
            within(client.close(&file)).await?;
            return Ok(false);
        };
        let locked = OpenFile {
            stateid: held.stateid,
            ..file.clone()
        };
        let asked = self.now();
        let Seen::Value(saw) = within(read_value(client, &locked)).await? else {
            return Err(Error::Unexpected("a counter"));
        };
        section.held_until = asked;
        section.saw = Some(saw);
        let asked = self.now();
        let content = of_value(saw + 1);
        within(client.write(&locked, 0, content, StableHow4::FileSync)).await?;
        section.held_until = asked;
        section.wrote = Some(saw + 1);
        self.rest(30).await;
        let asked = self.now();
        within(client.unlock(&held, 0, LENGTH)).await?;
        section.held_until = asked;
        within(client.close(&file)).await?;
        Ok(true)
    }

    async fn acquire(
        &mut self,
        client: &Client,
        file: &OpenFile,
        section: &mut Section,
    ) -> Result<Option<Held>, Error> {
        for _ in 0..TRIES {
            section.asked = self.now();
            let asking = client.lock(file, "counter", NfsLockType4::Write, 0, LENGTH);
            match within(asking).await {
                Ok(LockAnswer::Granted(held)) => {
                    section.granted = Some(self.now());
                    section.held_until = self.now();
                    return Ok(Some(held));
                }
                Ok(LockAnswer::Denied(_)) => {}
                Err(error) => match error.status() {
                    Some(NfsStat4::Delay | NfsStat4::Grace) => {}
                    _ => return Err(error),
                },
            }
            self.rest(150).await;
        }
        Ok(None)
    }

    /// A random pause of at most this many milliseconds.
    async fn rest(&mut self, ms_max: u64) {
        let ms = self.random.below(ms_max);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}
