//! Files that are opened, read and closed, or opened, overwritten and closed, to test close-to-open.
//!
//! What must never enter: locks; the clients here write at the same time.

use nfs4_client::{Client, Error, How, OpenFile, StableHow4};

use super::Worker;
use super::answers::{outcome_of, unknown, within};
use super::content::{VALUE_SIZE, of_value, value_in};
use super::tree::Place;
use crate::history::{Act, Outcome, Seen};

impl Worker {
    /// Reads and writes registers until the work is over.
    pub(super) async fn registers(&mut self) {
        while let Some(client) = self.next().await {
            let register = self.random.below(self.common.tree.registers.len() as u64) as usize;
            let place = self.common.tree.registers[register].clone();
            let by_name = self.random.below(2) == 0;
            match self.random.below(5) {
                0 | 1 => self.write(&client, register, &place, by_name).await,
                _ => self.read(&client, register, &place, by_name).await,
            }
        }
    }

    async fn read(&mut self, client: &Client, register: usize, place: &Place, by_name: bool) {
        let begin = self.now();
        let (saw, outcome) = match within(read(client, place, by_name)).await {
            Ok(seen) => (Some(seen), Outcome::Done),
            Err(error) => (None, unknown(&error)),
        };
        self.record(begin, Act::Read { register, saw }, outcome)
            .await;
    }

    async fn write(&mut self, client: &Client, register: usize, place: &Place, by_name: bool) {
        let value = self.common.fresh_value();
        let commits = self.random.below(2) == 0;
        let begin = self.now();
        let outcome = match within(open(client, place, by_name, How::write())).await {
            Err(error) => outcome_of(&error),
            Ok(file) => match within(write_through(client, &file, value, commits)).await {
                Err(error) => unknown(&error),
                Ok(()) => Outcome::Done,
            },
        };
        self.record(begin, Act::Write { register, value }, outcome)
            .await;
    }
}

async fn open(client: &Client, place: &Place, by_name: bool, how: How) -> Result<OpenFile, Error> {
    match by_name {
        true => client.open(&place.directory, &*place.name, &how).await,
        false => client.open_handle(&place.handle, &how).await,
    }
}

async fn read(client: &Client, place: &Place, by_name: bool) -> Result<Seen, Error> {
    let file = open(client, place, by_name, How::read()).await?;
    let seen = read_value(client, &file).await?;
    client.close(&file).await?;
    Ok(seen)
}

/// The value in an open file. Asks for one byte more than there should be.
pub(super) async fn read_value(client: &Client, file: &OpenFile) -> Result<Seen, Error> {
    let answer = client.read(file, 0, VALUE_SIZE + 1).await?;
    Ok(value_in(&answer.data))
}

/// Writes a value through the metadata server, and closes the file.
pub(super) async fn write_through(
    client: &Client,
    file: &OpenFile,
    value: u64,
    commits: bool,
) -> Result<(), Error> {
    let content = of_value(value);
    match commits {
        true => client.write_all(file, 0, &content).await?,
        false => {
            let written = client.write(file, 0, content, StableHow4::FileSync).await?;
            if written.count != VALUE_SIZE {
                return Err(Error::Unexpected("WRITE"));
            }
        }
    }
    client.close(file).await
}
