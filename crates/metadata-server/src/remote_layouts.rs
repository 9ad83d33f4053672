//! Layouts at a joined metadata server. The home gives them and knows the holders.
//!
//! This server only records which holders may have a layout, so it does not ask the home about others. The home fences clients' layouts
//! when this server meets it in a new session, and a restarted home knows no layouts. So data servers refuse a client that continues with
//! an old layout, and the client asks for another.
//!
//! What must never enter: stateids.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vfs::{Error, ObjectId, Result};

use crate::layouts::{Layout, LayoutEvent, NoLayout};
use crate::question::{Answer, Question, other_answer};
use crate::remote_tree::RemoteTree;

type Listener = Arc<dyn Fn(LayoutEvent) + Send + Sync>;

/// Called with each event of a layout.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<Vec<Listener>>);

/// What the home may know of a holder.
#[derive(Clone, Copy, Default)]
struct AtHome {
    /// Questions for a layout that are under way.
    asking: u32,
    /// A question was answered with a layout, or its outcome is unknown.
    may_have: bool,
}

/// The holders that the home may know.
#[derive(Default)]
pub(crate) struct Known(Mutex<BTreeMap<u64, AtHome>>);

/// A pending question for a layout. If it is dropped without a refusal, the holder may have a layout.
struct Asking<'k> {
    known: &'k Known,
    holder: u64,
    was_refused: bool,
}

impl Known {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, AtHome>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, holder: u64) -> Asking<'_> {
        self.all().entry(holder).or_default().asking += 1;
        Asking {
            known: self,
            holder,
            was_refused: false,
        }
    }

    fn has(&self, holder: u64) -> bool {
        self.all().contains_key(&holder)
    }

    fn update(&self, holder: u64, change: impl FnOnce(&mut AtHome)) {
        let mut all = self.all();
        if let Some(at_home) = all.get_mut(&holder) {
            change(at_home);
            if at_home.asking == 0 && !at_home.may_have {
                all.remove(&holder);
            }
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.known.update(self.holder, |at_home| {
            at_home.asking = at_home.asking.saturating_sub(1);
            at_home.may_have |= !self.was_refused;
        });
    }
}

/// A lost layout: the client generation, the file and the holder.
type Lost = (u64, ObjectId, u64);

/// Lost layouts that could not be reported to the home.
#[derive(Default)]
pub(crate) struct Owed {
    lost: Mutex<VecDeque<Lost>>,
    /// Held while the home is told.
    telling: tokio::sync::Mutex<()>,
}

impl Owed {
    fn lost(&self) -> MutexGuard<'_, VecDeque<Lost>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The home has ended all layouts of this server's clients.
    pub(crate) fn have_ended(&self) {
        self.lost().clear();
    }
}

impl RemoteTree {
    /// Has the home release some state of a client, after the client's lost layouts have ended, and the writes that this server has begun.
    pub(crate) async fn let_go(&self, clients: u64, question: Question) -> Result<()> {
        self.end_what_is_owed().await?;
        if let Question::Close(file, _)
        | Question::Downgrade(file, ..)
        | Question::Unlock(file, ..) = &question
        {
            self.direct.until_written(*file).await?;
        }
        if let Question::Close(file, _) = &question {
            self.direct.closed(*file);
        }
        self.do_for(clients, question).await
    }

    async fn end_what_is_owed(&self) -> Result<()> {
        let _one_at_a_time = self.owed.telling.lock().await;
        loop {
            let Some((clients, file, holder)) = self.owed.lost().front().copied() else {
                return Ok(());
            };
            // The home itself ends all layouts of forgotten clients.
            let ended = match self.clients.still_are(clients) {
                true => {
                    let end = Question::EndLayout(file, holder, true);
                    self.do_for(clients, end).await
                }
                false => Ok(()),
            };
            match ended {
                Err(Error::Delay) => return Err(Error::Delay),
                Ok(()) | Err(Error::Stale) => {}
                // A retry would fail the same way and block all later releases.
                Err(error) => tracing::error!(%file, %error, "a layout cannot be ended"),
            }
            // The queue was not cleared meanwhile: `hand_over` does that while no task is here.
            self.owed.lost().pop_front();
        }
    }

    /// A layout of a whole file, for reading, or for `writing` as well. The caller numbers the holders and uses each number once.
    ///
    /// # Errors
    /// What the client must do instead.
    pub async fn layout(
        &self,
        file: ObjectId,
        holder: u64,
        writing: bool,
    ) -> std::result::Result<Layout, NoLayout> {
        let clients = self.clients.forgotten();
        let _noted = self.clients.telling.read().await;
        let question = Question::Layout(file, holder, writing);
        let mut asking = self.holders.ask(holder);
        match self.ask_for(clients, question).await {
            Ok(Answer::Layout(given)) => {
                asking.was_refused = given.is_err();
                given
            }
            _ => Err(NoLayout::ThroughServer),
        }
    }

    /// A holder has returned its layout, or has lost the state on which it depends and may have I/O pending. A home that is away hears of a
    /// lost layout before it releases any other state of the client. The client's other state need not wait for it.
    ///
    /// # Errors
    /// [`Error::Delay`]: try again.
    pub async fn end_layout(&self, file: ObjectId, holder: u64, is_lost: bool) -> Result<()> {
        let clients = self.clients.forgotten();
        let _noted = self.clients.telling.read().await;
        // The home keeps nothing for refused holders. It fences layouts of forgotten clients before others can get the state on which they
        // depend.
        if self.holders.has(holder) && self.clients.still_are(clients) {
            let ended = self.do_for(clients, Question::EndLayout(file, holder, is_lost));
            match ended.await {
                Err(Error::Delay) if is_lost => {
                    self.owed.lost().push_back((clients, file, holder));
                }
                ended => ended?,
            }
        }
        self.has_no_layout(holder);
        Ok(())
    }

    /// Returns when nothing can happen under a holder's layout any more.
    ///
    /// # Errors
    /// [`Error::Delay`]: try again.
    pub async fn fence_layout(&self, file: ObjectId, holder: u64) -> Result<()> {
        let clients = self.clients.forgotten();
        match self.holders.has(holder) {
            true => self.fence_for(clients, file, holder).await,
            false => Ok(()),
        }
    }

    /// The same for clients of this generation.
    pub(crate) async fn fence_for(&self, clients: u64, file: ObjectId, holder: u64) -> Result<()> {
        // The home itself fences the layouts of forgotten clients.
        if self.clients.still_are(clients) {
            match self
                .do_for(clients, Question::FenceLayout(file, holder))
                .await
            {
                Ok(()) | Err(Error::Stale) => {}
                Err(error) => return Err(error),
            }
        }
        self.has_no_layout(holder);
        Ok(())
    }

    fn has_no_layout(&self, holder: u64) {
        self.holders
            .update(holder, |at_home| at_home.may_have = false);
    }

    /// A holder reports that it has written, and that the file ends at `end` at least. Returns the size.
    ///
    /// # Errors
    /// When its layout has ended, or the home does not answer.
    pub async fn commit_layout(
        &self,
        file: ObjectId,
        holder: u64,
        end: Option<u64>,
    ) -> std::result::Result<u64, NoLayout> {
        match self.ask(Question::CommitLayout(file, holder, end)).await {
            Ok(Answer::Size(size)) => size,
            Err(Error::Stale) => Err(NoLayout::Gone),
            _ => Err(NoLayout::ThroughServer),
        }
    }

    /// The addresses of each data server of a device. `None` if there is no such device, or the home does not answer.
    pub async fn device(&self, device: [u8; 16]) -> Option<Vec<Vec<SocketAddr>>> {
        match self.ask(Question::Device(device)).await {
            Ok(Answer::Device(found)) => found,
            _ => None,
        }
    }

    /// All devices that layouts may name.
    ///
    /// # Errors
    /// When the home does not answer.
    pub async fn devices(&self) -> Result<Vec<[u8; 16]>> {
        match self.ask(Question::Devices).await? {
            Answer::Devices(all) => Ok(all),
            _ => Err(other_answer()),
        }
    }

    /// Has `listener` called with each event of a layout.
    pub fn on_layout_event(&self, listener: Listener) {
        let mut listeners = self
            .layouts
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.push(listener);
    }

    /// An event of this server's own layouts. Returns whether it concerns nothing else.
    pub fn takes_event(&self, event: LayoutEvent) -> bool {
        self.direct.hear(event)
    }

    /// The home reports an event of a layout of this server or its clients, or of a device.
    pub fn hear_of_layouts(&self, event: LayoutEvent) {
        if self.takes_event(event) {
            return;
        }
        let listeners = self
            .layouts
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let listeners = listeners.clone();
        listeners.iter().for_each(|listener| listener(event));
    }
}
