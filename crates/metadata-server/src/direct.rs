//! Layouts under which this server reads and writes at the data servers itself, for its clients (rule 12 of `docs/design/striping.md`).
//! Otherwise the bytes of all clients would pass the home.
//!
//! The home gives this server a layout as it gives one to a client. It knows this server as the holder, and recalls and fences the layout as
//! any other. A layout is returned when it is recalled, when it has not been used for a while, and, if it allows writing, when a client
//! closes the file. The operations under way end first.
//!
//! A write whose outcome is unknown may still happen while its layout is valid. So the home fences that layout, and meanwhile no other write
//! to the file begins, and no client gives up an open or a lock of it.
//!
//! What must never enter: NFS and sockets.

mod held;
mod tables;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Notify;
use vfs::{Error, ObjectId, Result, WriteVerifier};

pub(crate) use self::held::Held;
use self::held::expire;
use self::tables::{Tables, decrement};
use crate::layouts::{Layout, LayoutEvent, NoLayout, OF_OTHERS};
use crate::remote_tree::RemoteTree;

/// Holders with this bit, and without [`OF_OTHERS`], are this server itself. Its clients' holders have smaller numbers.
const ITSELF: u64 = 1 << 62;
/// At most this many files have layouts at a time.
const FILES_MAX: usize = 1024;
/// After this time without use a layout is returned.
const IDLE: Duration = Duration::from_secs(30);
/// When a layout was refused for now, or was returned, this long no other one is asked for.
const PAUSE: Duration = Duration::from_secs(1);
/// The same where a data server did not serve: perhaps it cannot be reached from here. And for a layout for writing that was recalled: somebody
/// writes through the home, and would have it recalled again.
const LATER: Duration = Duration::from_secs(10);
/// The same for a file that has no layouts.
const NONE: Duration = Duration::from_secs(60);
/// Delay before a layout that could not be ended is tried again.
const AGAIN: Duration = Duration::from_millis(200);
/// How long a layout for writing is waited for while this server's own writes through the home end. The way there may be full of them, and they would
/// fill it again and again if they went on meanwhile.
const DRAINED: Duration = Duration::from_secs(30);
/// How long to wait for writes under way before their layout is fenced, and for the fence before the client is told to retry.
const PATIENCE: Duration = Duration::from_secs(2);

/// The addresses of each data server of a device.
type Device = Arc<Vec<Vec<SocketAddr>>>;

/// Reads and writes at data servers.
#[async_trait]
pub trait DataServers: Send + Sync + 'static {
    /// The bytes of a range that lies within a file with this layout; holes read as zeros. `None` if a data server does not serve its part.
    async fn read(
        &self,
        layout: &Layout,
        device: &[Vec<SocketAddr>],
        offset: u64,
        count: u32,
    ) -> Option<Bytes>;

    /// Writes and waits until the bytes are stable. If it returns `false`, parts may be written, or may still be written while the layout
    /// is valid.
    async fn write(
        &self,
        layout: &Layout,
        device: &[Vec<SocketAddr>],
        offset: u64,
        bytes: Bytes,
    ) -> bool;
}

/// What is to be done for a request that needs a layout.
enum Found {
    Held(Arc<Held>),
    /// Ask for one.
    None,
    /// One is being asked for.
    Asked,
    /// Do without.
    NotNow,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Direct {
    /// With the size from which on they are used.
    servers: OnceLock<(Arc<dyn DataServers>, u64)>,
    tables: Mutex<Tables>,
    /// A write has ended, or a layout was fenced.
    changed: Notify,
    devices: Mutex<BTreeMap<[u8; 16], Device>>,
    /// The last verifier of a write or commit at the home.
    verifier: Mutex<Option<WriteVerifier>>,
    next: AtomicU64,
}

/// A write under way. If it is dropped before it is done, its layout is fenced.
pub(crate) struct Writing<'d> {
    direct: &'d Direct,
    held: Arc<Held>,
    number: u64,
    is_done: bool,
}

impl Writing<'_> {
    /// All of it is stable.
    pub(crate) fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut tables = self.direct.tables();
        tables.writes.remove(&(self.held.file, self.number));
        if !self.is_done {
            tables.distrust(&self.held);
        }
        drop(tables);
        self.direct.changed.notify_waiters();
    }
}

/// A write under way through the home.
pub(crate) struct ThroughHome<'d> {
    direct: &'d Direct,
    file: ObjectId,
}

impl Drop for ThroughHome<'_> {
    fn drop(&mut self) {
        decrement(&mut self.direct.tables().through_home, self.file);
        self.direct.changed.notify_waiters();
    }
}

/// A layout for writing is being asked for. It was given or refused when this is dropped.
struct Asking {
    tree: Arc<RemoteTree>,
    file: ObjectId,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.tree.direct.is_answered(self.file);
    }
}

impl Direct {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn devices(&self) -> MutexGuard<'_, BTreeMap<[u8; 16], Device>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn verifier(&self) -> Option<WriteVerifier> {
        *self.verifier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note_verifier(&self, verifier: WriteVerifier) {
        *self.verifier.lock().unwrap_or_else(PoisonError::into_inner) = Some(verifier);
    }

    pub(crate) fn servers(&self) -> Option<&(Arc<dyn DataServers>, u64)> {
        self.servers.get()
    }

    /// For reading, other requests go through the home until the layout is there. For writing they wait, as writes through the home would end it.
    fn find(&self, file: ObjectId, writing: bool, clients: u64) -> Found {
        let mut tables = self.tables();
        let place = tables.place(file);
        if let Some(held) = &place.held
            && (held.writing || !writing)
            && held.clients == clients
        {
            return Found::Held(held.clone());
        }
        let (now, not_before) = (place.used, &mut place.not_before[usize::from(writing)]);
        let may_ask = *not_before <= now;
        if may_ask && !writing {
            *not_before = now + PAUSE;
        }
        match writing && tables.asked.contains(&file) {
            true => Found::Asked,
            false if !may_ask => Found::NotNow,
            false => {
                if writing {
                    tables.asked.insert(file);
                }
                Found::None
            }
        }
    }

    /// A layout for writing was given or refused.
    fn is_answered(&self, file: ObjectId) {
        self.tables().asked.remove(&file);
        self.changed.notify_waiters();
    }

    /// Whether there is a layout for writing. The home would have to recall it before it writes.
    pub(crate) fn is_for_writing(&self, file: ObjectId) -> bool {
        let tables = self.tables();
        let held = tables
            .places
            .get(&file)
            .and_then(|place| place.held.as_ref());
        held.is_some_and(|held| held.writing)
    }

    fn keep(&self, held: &Arc<Held>) {
        let mut unused = Vec::new();
        let mut tables = self.tables();
        unused.extend(tables.place(held.file).held.replace(held.clone()));
        if tables.places.len() > FILES_MAX {
            let others = tables.places.iter().filter(|(of, _)| **of != held.file);
            let oldest = others.min_by_key(|(_, place)| place.used);
            let oldest = oldest.map(|(of, _)| *of);
            unused.extend(oldest.and_then(|of| tables.places.remove(&of)?.held));
        }
        drop(tables);
        // Layouts are returned behind the lock.
        drop(unused);
    }

    fn refused(&self, file: ObjectId, writing: bool, pause: Duration) {
        let mut tables = self.tables();
        tables.place(file).not_before[usize::from(writing)] = Instant::now() + pause;
        if tables.places.len() > FILES_MAX {
            // It is asked for again, at worst.
            tables.places.remove(&file);
        }
    }

    fn is_in_use(&self, file: ObjectId, holder: u64) -> bool {
        let tables = self.tables();
        let place = tables.places.get(&file);
        place.is_some_and(|place| {
            let is_it = |held: &Arc<Held>| held.holder == holder;
            place.held.as_ref().is_some_and(is_it) && place.used.elapsed() < IDLE
        })
    }

    /// These layouts did not serve, or must be returned. No other ones for reading and for writing are asked for in the given times.
    fn drop_held(&self, pauses: [Duration; 2], is_it: impl Fn(&Held) -> bool) {
        let (now, mut unused) = (Instant::now(), Vec::new());
        let mut tables = self.tables();
        for place in tables.places.values_mut() {
            if let Some(held) = place.held.take_if(|held| is_it(held)) {
                place.not_before = pauses.map(|pause| now + pause);
                unused.push(held);
            }
        }
        drop(tables);
        drop(unused);
    }

    pub(crate) fn did_not_serve(&self, held: &Held) {
        self.drop_held([LATER; 2], |other| other.holder == held.holder);
    }

    /// An event of a layout. Returns whether it concerns only this server's own.
    pub(crate) fn hear(&self, event: LayoutEvent) -> bool {
        match event {
            LayoutEvent::Recall(holder) => {
                self.drop_held([PAUSE, LATER], |held| held.holder == holder);
                holder & (OF_OTHERS | ITSELF) == ITSELF
            }
            LayoutEvent::DeviceGone(device) => {
                self.devices().remove(&device);
                self.drop_held([PAUSE; 2], |held| held.layout.device == device);
                false
            }
        }
    }

    /// A write begins. `None` if the layout has ended.
    pub(crate) fn begin(&self, held: &Arc<Held>) -> Option<Writing<'_>> {
        let mut tables = self.tables();
        if held.is_ended.get().is_some() {
            return None;
        }
        let number = tables.next_write;
        tables.next_write += 1;
        tables.writes.insert((held.file, number), held.clone());
        Some(Writing {
            direct: self,
            held: held.clone(),
            number,
            is_done: false,
        })
    }

    /// A write through the home begins, when no earlier one at the data servers can happen any more. While a layout for writing is asked for, it
    /// waits for that, for a while.
    ///
    /// # Errors
    /// As [`Direct::until_certain`].
    pub(crate) async fn through_home(&self, file: ObjectId) -> Result<ThroughHome<'_>> {
        self.until_certain(file).await?;
        self.until_answered(file).await;
        *self.tables().through_home.entry(file).or_default() += 1;
        Ok(ThroughHome { direct: self, file })
    }

    /// Waits until a layout for writing that is being asked for is there, or refused.
    pub(crate) async fn until_answered(&self, file: ObjectId) {
        let answered = self.until(|tables| !tables.asked.contains(&file));
        // It then goes through the home, which is right, too.
        let _ = tokio::time::timeout(2 * DRAINED, answered).await;
    }

    /// Returns when this server's own writes through the home have ended, or after a while: the home gives no layout meanwhile.
    async fn until_none_through_home(&self, file: ObjectId) {
        let none = self.until(|tables| !tables.through_home.contains_key(&file));
        let _ = tokio::time::timeout(DRAINED, none).await;
    }

    fn has_ended(&self, file: ObjectId) {
        decrement(&mut self.tables().fencing, file);
        self.changed.notify_waiters();
    }

    async fn until(&self, so: impl Fn(&Tables) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if so(&self.tables()) {
                return;
            }
            changed.await;
        }
    }

    /// Returns when no write with an unknown outcome can happen any more.
    ///
    /// # Errors
    /// [`Error::Delay`] if the home does not answer.
    pub(crate) async fn until_certain(&self, file: ObjectId) -> Result<()> {
        let fenced = self.until(|tables| !tables.fencing.contains_key(&file));
        let fenced = tokio::time::timeout(PATIENCE, fenced).await;
        fenced.map_err(|_| Error::Delay)
    }

    /// Returns when no write that has begun can happen any more. A client is about to lose what it writes under.
    ///
    /// # Errors
    /// As [`Direct::until_certain`].
    pub(crate) async fn until_written(&self, file: ObjectId) -> Result<()> {
        let before = self.tables().next_write;
        let none = |tables: &Tables| tables.writing(file, before).next().is_none();
        let ended = tokio::time::timeout(PATIENCE, self.until(none)).await;
        if ended.is_err() {
            let mut tables = self.tables();
            let late: Vec<Arc<Held>> = tables.writing(file, before).cloned().collect();
            late.iter().for_each(|held| tables.distrust(held));
        }
        self.until_certain(file).await
    }

    /// A client has closed a file. Others may want to look at it, which takes longer while there is a layout for writing.
    pub(crate) fn closed(&self, file: ObjectId) {
        self.drop_held([PAUSE, Duration::ZERO], |held| {
            held.file == file && held.writing
        });
    }
}

impl RemoteTree {
    /// From now on files are read and written at these data servers, if they have at least this many bytes.
    pub fn use_directly(&self, servers: Arc<dyn DataServers>, size: u64) {
        // It is set once.
        let _ = self.direct.servers.set((servers, size));
    }

    /// A layout of a file for clients of this generation. `None`: the home must be asked for the bytes.
    pub(crate) async fn own_layout(
        &self,
        file: ObjectId,
        writing: bool,
        clients: u64,
    ) -> Option<Arc<Held>> {
        let direct = &self.direct;
        let mut found = direct.find(file, writing, clients);
        if matches!(found, Found::Asked) {
            direct.until_answered(file).await;
            found = direct.find(file, writing, clients);
        }
        match found {
            Found::Held(held) => return Some(held),
            Found::None => {}
            Found::Asked | Found::NotNow => return None,
        }
        let tree = self.this().upgrade()?;
        let asking = writing.then(|| Asking {
            tree: tree.clone(),
            file,
        });
        // In a task of its own: nobody would return a layout that comes for a request that is given up.
        let held = tokio::spawn(async move {
            if writing {
                tree.direct.until_none_through_home(file).await;
            }
            let held = tree.hold_layout(file, writing, clients).await;
            drop(asking);
            held
        });
        held.await.ok()?
    }

    async fn hold_layout(&self, file: ObjectId, writing: bool, clients: u64) -> Option<Arc<Held>> {
        let holder = ITSELF | self.direct.next.fetch_add(1, Ordering::Relaxed);
        let layout = match self.layout(file, holder, writing).await {
            Ok(layout) => layout,
            Err(reason) => {
                let pause = match reason {
                    NoLayout::Unavailable => NONE,
                    NoLayout::Recalled | NoLayout::ThroughServer | NoLayout::Gone => PAUSE,
                };
                self.direct.refused(file, writing, pause);
                return None;
            }
        };
        let held = Arc::new(Held {
            tree: self.this(),
            file,
            holder,
            writing,
            clients,
            device: self.device_once(layout.device).await.unwrap_or_default(),
            layout,
            is_ended: OnceLock::new(),
        });
        // Clients of a later generation may have it under this number. It is fenced with those of `clients`, or returned.
        if held.device.is_empty() || !self.clients.still_are(clients) {
            return None;
        }
        self.direct.keep(&held);
        tokio::spawn(expire(self.this(), file, holder));
        Some(held)
    }

    async fn device_once(&self, device: [u8; 16]) -> Option<Device> {
        if let Some(known) = self.direct.devices().get(&device) {
            return Some(known.clone());
        }
        let found = Arc::new(self.device(device).await?);
        self.direct.devices().insert(device, found.clone());
        Some(found)
    }
}

#[cfg(test)]
mod tests;
