//! Layouts of other metadata servers' clients. These clients read and write at the data servers directly. The home knows for which server
//! it has given each layout, so it can recall and fence them.
//!
//! A holder has one number at its own server and another one at the home. [`Layout`], [`NoLayout`] and [`LayoutEvent`] correspond to the
//! types of the same names in `nfs4-server`, in a form that can be sent: this crate knows no NFS, and `server` converts between the two.
//!
//! What must never enter: stateids, and the meaning of a layout.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use vfs::{Error, ObjectId, ReplicaSlot, Result};

use crate::home::{Asker, Asking, Home};
use crate::question::{Answer, Question, decode, encode};

/// The home's numbers for holders at other servers: this bit, the server, a counter. Holders among its own clients have smaller numbers.
pub(crate) const OF_OTHERS: u64 = 1 << 63;
/// Bits of the counter.
const COUNTER_BITS: u32 = 47;
/// Most layouts of one metadata server's clients.
const GIVEN_MAX: usize = 1 << 18;
/// At most this many layouts are ended in parallel.
const AT_ONCE: usize = 32;
/// Delay before a layout that could not be ended is tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// Where the bytes of a file lie, as told to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Names the data servers.
    pub device: [u8; 16],
    /// Bytes per stripe unit.
    pub stripe_unit: u32,
    /// The index in the device of the data server with the first bytes.
    pub first_index: u32,
    /// The file handle at each data server, in the order of the device.
    pub handles: Vec<Bytes>,
}

/// Why there is no layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoLayout {
    /// The layouts of the file are being recalled: ask again.
    Recalled,
    /// Read and write through the metadata server for now.
    ThroughServer,
    /// The file has no layouts.
    Unavailable,
    /// There is no such file.
    Gone,
}

/// An event of a layout that no request causes. It is sent once and may be lost: a recall is repeated, and the home continues without the
/// holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LayoutEvent {
    /// This holder must return its layout.
    Recall(u64),
    /// Clients must forget this device.
    DeviceGone([u8; 16]),
}

impl LayoutEvent {
    /// Encodes it for sending.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        encode(self)
    }

    /// Decodes what [`LayoutEvent::encode`] wrote. `None` for anything else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<LayoutEvent> {
        decode(bytes)
    }
}

/// Gives layouts of the home's files. The caller numbers the holders.
#[async_trait]
pub trait Layouts: Send + Sync {
    /// A layout of a whole file, for reading, or for `writing` as well.
    ///
    /// # Errors
    /// What the client must do instead.
    async fn layout(
        &self,
        file: ObjectId,
        holder: u64,
        writing: bool,
    ) -> std::result::Result<Layout, NoLayout>;

    /// A holder has returned its layout.
    ///
    /// # Errors
    /// When this cannot be determined now.
    async fn returned(&self, file: ObjectId, holder: u64) -> Result<()>;

    /// A holder has lost the state on which its layout depends. None of its pending I/O can take effect after others have got that state.
    ///
    /// # Errors
    /// [`Error::Delay`]: try again.
    async fn lost(&self, file: ObjectId, holder: u64) -> Result<()>;

    /// Ends a layout. Afterwards none of the holder's pending I/O can take effect.
    ///
    /// # Errors
    /// [`Error::Delay`]: try again.
    async fn fence(&self, file: ObjectId, holder: u64) -> Result<()> {
        self.lost(file, holder).await
    }

    /// A holder has written, and the file ends at `end` at least. Returns the size.
    ///
    /// # Errors
    /// When its layout has ended.
    async fn commit(
        &self,
        file: ObjectId,
        holder: u64,
        end: Option<u64>,
    ) -> std::result::Result<u64, NoLayout>;

    /// The addresses of each data server of a device; `None` when there is no such device.
    async fn device(&self, device: [u8; 16]) -> Option<Vec<Vec<SocketAddr>>>;

    /// All devices that layouts may name.
    async fn devices(&self) -> Vec<[u8; 16]>;
}

/// A holder at a run of another metadata server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct There {
    run: u64,
    holder: u64,
}

/// A holder, as the home knows it.
struct Entry {
    file: ObjectId,
    there: There,
    /// Questions for a layout that are under way.
    asking: u32,
    /// At least one was answered with a layout.
    has: bool,
}

/// Layouts given to the clients of one metadata server, until returned.
#[derive(Default)]
pub(crate) struct Given {
    by_number: BTreeMap<u64, Entry>,
    /// The holders that ask or have a layout.
    numbers: BTreeMap<There, u64>,
}

impl Given {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// The number of an asking holder; `next` if it has none yet. `None` if there is no space. [`Given::answered`] must follow.
    fn enter(&mut self, file: ObjectId, there: There, next: u64) -> Option<u64> {
        if let Some(number) = self.numbers.get(&there) {
            if let Some(entry) = self.by_number.get_mut(number) {
                entry.asking += 1;
            }
            return Some(*number);
        }
        if self.by_number.len() >= GIVEN_MAX {
            return None;
        }
        let entry = Entry {
            file,
            there,
            asking: 1,
            has: false,
        };
        self.by_number.insert(next, entry);
        self.numbers.insert(there, next);
        Some(next)
    }

    /// A holder's question is answered, with a layout or without. Returns what becomes of the holder.
    fn answered(&mut self, number: u64, has: bool) -> Answered {
        let numbers = &mut self.numbers;
        let entry = self.by_number.get_mut(&number);
        let Some(entry) = entry.filter(|entry| numbers.get(&entry.there) == Some(&number)) else {
            return Answered::Ended;
        };
        entry.asking = entry.asking.saturating_sub(1);
        entry.has |= has;
        if entry.has || entry.asking > 0 {
            return Answered::Stays;
        }
        // It stays recorded until it has left. A holder that asks meanwhile gets a new number.
        numbers.remove(&entry.there);
        Answered::Leaves
    }

    fn number(&self, file: ObjectId, there: There) -> Option<u64> {
        let number = self.numbers.get(&there).copied()?;
        let entry = self.by_number.get(&number)?;
        (entry.file == file).then_some(number)
    }

    fn leave(&mut self, number: u64) {
        if let Some(entry) = self.by_number.remove(&number)
            && self.numbers.get(&entry.there) == Some(&number)
        {
            self.numbers.remove(&entry.there);
        }
    }

    /// The layouts of all runs up to this one.
    fn until_run(&self, run: u64) -> Vec<(ObjectId, u64)> {
        let all = self.by_number.iter();
        all.filter(|(_, entry)| entry.there.run <= run)
            .map(|(number, entry)| (entry.file, *number))
            .collect()
    }
}

/// How a layout ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The holder has returned it.
    Returned,
    /// The holder has lost what it depends on.
    Lost,
    /// The holder may have I/O pending, and goes on with the file.
    Fenced,
}

/// What becomes of a holder after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    /// It has a layout, or another question is under way.
    Stays,
    /// It has no layout.
    Leaves,
    /// It has meanwhile returned what it asked for.
    Ended,
}

impl Home {
    /// The same home, which gives layouts of its files.
    #[must_use]
    pub fn with_layouts(mut self, layouts: Arc<dyn Layouts>) -> Home {
        self.layouts = Some(layouts);
        self
    }

    /// The server of the holder with this number, and its number there. `None` for holders among the home's own clients, and for ended
    /// layouts.
    #[must_use]
    pub fn holder_elsewhere(&self, number: u64) -> Option<(Asker, u64)> {
        let server = ReplicaSlot(((number & !OF_OTHERS) >> COUNTER_BITS) as u16);
        if number & OF_OTHERS == 0 {
            return None;
        }
        let accounts = self.accounts();
        let account = accounts.get(&server)?;
        let entry = account.layouts.by_number.get(&number)?;
        let asker = Asker {
            server,
            run: entry.there.run,
        };
        Some((asker, entry.there.holder))
    }

    pub(crate) async fn answer_about_layouts(
        &self,
        asker: Asking,
        question: Question,
    ) -> Result<Answer> {
        let Some(layouts) = &self.layouts else {
            return Ok(without_layouts(&question));
        };
        let there = |holder| There {
            run: asker.run,
            holder,
        };
        Ok(match question {
            Question::Layout(file, holder, writing) => {
                let given = self.give_layout(asker, file, there(holder), writing);
                Answer::Layout(given.await?)
            }
            Question::EndLayout(file, holder, is_lost) => {
                let how = match is_lost {
                    true => Ending::Lost,
                    false => Ending::Returned,
                };
                self.end_layout(asker, file, there(holder), how).await?;
                Answer::Done
            }
            Question::FenceLayout(file, holder) => {
                let how = Ending::Fenced;
                self.end_layout(asker, file, there(holder), how).await?;
                Answer::Done
            }
            Question::CommitLayout(file, holder, end) => {
                let look = |account: &mut crate::home::Account| {
                    account.layouts.number(file, there(holder))
                };
                Answer::Size(match self.account(asker, look)? {
                    Some(number) => layouts.commit(file, number, end).await,
                    None => Err(NoLayout::ThroughServer),
                })
            }
            Question::Device(device) => Answer::Device(layouts.device(device).await),
            Question::Devices => Answer::Devices(layouts.devices().await),
            _ => return Err(Error::NotSupported),
        })
    }

    async fn give_layout(
        &self,
        asker: Asking,
        file: ObjectId,
        there: There,
        writing: bool,
    ) -> Result<std::result::Result<Layout, NoLayout>> {
        let (true, Some(layouts)) = (self.holders.claims.are_over(), &self.layouts) else {
            return Ok(Err(NoLayout::ThroughServer));
        };
        let _holding = self.hold(asker).await?;
        // Recorded first, so that the home knows every holder.
        let number = self.account(asker, |account| {
            account.layouts.enter(file, there, self.next_number(asker))
        })?;
        let Some(number) = number else {
            return Ok(Err(NoLayout::ThroughServer));
        };
        let given = layouts.layout(file, number, writing).await;
        let becomes = match self.accounts().get_mut(&asker.server) {
            Some(account) => account.layouts.answered(number, given.is_ok()),
            None => Answered::Ended,
        };
        match becomes {
            Answered::Stays => Ok(given),
            Answered::Leaves => {
                // `layouts` may still be about to give one.
                layouts.returned(file, number).await?;
                if let Some(account) = self.accounts().get_mut(&asker.server) {
                    account.layouts.leave(number);
                }
                Ok(given)
            }
            Answered::Ended => {
                layouts.lost(file, number).await?;
                Ok(Err(NoLayout::ThroughServer))
            }
        }
    }

    fn next_number(&self, asker: Asking) -> u64 {
        let server = u64::from(asker.server.0) << COUNTER_BITS;
        let counter = self
            .given
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        OF_OTHERS | server | counter
    }

    async fn end_layout(
        &self,
        asker: Asking,
        file: ObjectId,
        there: There,
        how: Ending,
    ) -> Result<()> {
        let _holding = self.hold(asker).await?;
        let number = self.account(asker, |account| account.layouts.number(file, there))?;
        let Some(number) = number else {
            // It was ended here, or an earlier run of the home gave it. Data servers refuse such a layout when that run's leases have
            // expired.
            if how != Ending::Returned {
                self.holders.outlast_forgotten().await;
            }
            return Ok(());
        };
        if let Some(layouts) = &self.layouts {
            match how {
                Ending::Returned => layouts.returned(file, number).await?,
                Ending::Lost => layouts.lost(file, number).await?,
                Ending::Fenced => layouts.fence(file, number).await?,
            }
        }
        if let Some(account) = self.accounts().get_mut(&asker.server) {
            account.layouts.leave(number);
        }
        Ok(())
    }

    /// Fences all layouts that clients of a server got in runs up to this one. The caller ensures that none is being given.
    pub(crate) async fn fence_layouts(&self, server: ReplicaSlot, run: u64) {
        let Some(layouts) = &self.layouts else { return };
        let given = {
            let accounts = self.accounts();
            let account = accounts.get(&server);
            account.map_or_else(Vec::new, |account| account.layouts.until_run(run))
        };
        let mut ending = JoinSet::new();
        for (file, number) in given {
            if ending.len() >= AT_ONCE {
                self.has_ended(server, ending.join_next().await);
            }
            ending.spawn(fence(layouts.clone(), file, number));
        }
        while !ending.is_empty() {
            self.has_ended(server, ending.join_next().await);
        }
    }

    fn has_ended(&self, server: ReplicaSlot, ended: Option<Ended>) {
        if let Some(Ok(number)) = ended
            && let Some(account) = self.accounts().get_mut(&server)
        {
            account.layouts.leave(number);
        }
    }
}

type Ended = std::result::Result<u64, tokio::task::JoinError>;

/// Ends a layout whose holder may have I/O pending, and returns its number.
async fn fence(layouts: Arc<dyn Layouts>, file: ObjectId, number: u64) -> u64 {
    loop {
        match layouts.lost(file, number).await {
            Err(Error::Delay) => tokio::time::sleep(PAUSE).await,
            Ok(()) | Err(Error::Stale) => return number,
            Err(error) => {
                tracing::error!(%file, %error, "a layout of a client of another metadata server is not ended");
                return number;
            }
        }
    }
}

/// The answer of a home that gives no layouts.
fn without_layouts(question: &Question) -> Answer {
    match question {
        Question::Layout(..) => Answer::Layout(Err(NoLayout::Unavailable)),
        Question::CommitLayout(..) => Answer::Size(Err(NoLayout::Unavailable)),
        Question::Device(_) => Answer::Device(None),
        Question::Devices => Answer::Devices(Vec::new()),
        _ => Answer::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_keeps_its_number_until_it_leaves_and_runs_are_told_apart() {
        let (file, other) = (ObjectId::from_u64(7), ObjectId::from_u64(8));
        let there = |run| There { run, holder: 5 };
        let mut given = Given::default();
        assert_eq!(given.enter(file, there(1), 10), Some(10));
        assert_eq!(given.enter(file, there(1), 11), Some(10));
        assert_eq!(given.enter(other, there(2), 12), Some(12));
        assert_eq!(given.number(file, there(1)), Some(10));
        assert_eq!(given.number(other, there(1)), None);
        assert_eq!(given.until_run(1), [(file, 10)]);
        assert_eq!(given.until_run(2), [(file, 10), (other, 12)]);
        given.leave(10);
        assert_eq!(given.number(file, there(1)), None);
        given.leave(12);
        assert!(given.is_empty());
    }

    #[test]
    fn a_holder_leaves_that_has_nothing_and_asks_for_nothing() {
        let (file, there) = (ObjectId::from_u64(7), There { run: 1, holder: 5 });
        let mut given = Given::default();
        given.enter(file, there, 10);
        given.enter(file, there, 11);
        assert_eq!(given.answered(10, false), Answered::Stays);
        assert_eq!(given.answered(10, false), Answered::Leaves);
        assert_eq!(given.until_run(1), [(file, 10)]);
        assert_eq!(given.enter(file, there, 12), Some(12), "another one");
        given.leave(10);
        assert_eq!(given.number(file, there), Some(12));
        assert_eq!(given.answered(12, true), Answered::Stays);
        given.enter(file, there, 13);
        assert_eq!(given.answered(12, false), Answered::Stays, "it has one");
        given.leave(12);
        assert_eq!(given.answered(12, true), Answered::Ended);
        assert!(given.is_empty());
    }
}
