//! Striped contents: reads and writes go to all data servers of a file in parallel, and changes go through the home's decisions.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use nfs4::{NfsStat4, Verifier4};
use nfs4_server::DeviceId;
use pool::home::{FileRow, Outcome, Request, ServerView};
use pool::{Act, ContentsId, DataServerNumber, DeviceGroupNumber, Segment, ToHome};
use store::{PlacedRows, SyncError};
use throttle::Throttle;
use tokio::runtime;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use vfs::{Error, ObjectId, Result};

use crate::control::Control;
use crate::driver::Driver;
use crate::layouts::Recalls;
use crate::sessions::{Answer, Io, Sessions, Unserved};
use crate::settings::Settings;
use crate::settling::Uses;
use crate::sweeping::Unknown;
use crate::view::{PoolView, Whereabouts};

/// Log entries about data servers that do not serve, the first one and then sums.
static AWAY: Throttle = Throttle::new();
const NOT_SERVED: &str = "a data server does not serve";

/// Most requests of one read or write that are under way at once.
const AT_ONCE: usize = 16;
/// Delay before a data server that did not serve is asked again. It may have no session, no lease, or the bytes of an older generation, and
/// no event announces the end of all these states.
const BETWEEN: Duration = Duration::from_millis(50);

/// The contents of files that are striped over the data servers of a pool, for the store that has their rows.
///
/// The store gets it when it is opened ([`store::StoreOptions::elsewhere`]). It starts later, with the store's rows; until then all callers
/// are told to retry. Calls of the store block, and belong outside of asynchronous tasks.
pub struct Striped {
    pub(crate) files: Arc<StripedFiles>,
    pub(crate) runtime: runtime::Handle,
}

/// What is known of striped files, and the parts that change them. Shared with everything that outlives a call of [`Striped`].
pub(crate) struct StripedFiles {
    settings: Settings,
    view: RwLock<PoolView>,
    driver: OnceLock<Arc<Driver>>,
    sessions: Sessions,
    unstable: Mutex<HashMap<ContentsId, Unstable>>,
    pub(crate) recalls: Arc<Recalls>,
    pub(crate) uses: Uses,
    pub(crate) unknown: Unknown,
    /// Each running creation subscribes. [`Striped::creations_ended`] replaces the sender and waits for its subscribers.
    pub(crate) creations: Mutex<watch::Sender<()>>,
    /// The devices that clients may know.
    pub(crate) given: Mutex<BTreeMap<DeviceId, DeviceGroupNumber>>,
}

/// Writes to a file that may not be stable.
#[derive(Clone, Debug, Default)]
struct Unstable {
    /// The data servers with such writes, and their verifiers.
    verifiers: BTreeMap<DataServerNumber, Verifier4>,
    /// Some writes are known to be lost.
    lost: bool,
    /// Counts writes.
    writes: u64,
}

impl std::fmt::Debug for Striped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Striped").finish_non_exhaustive()
    }
}

impl Striped {
    /// For a store that is about to be opened. Call it within a tokio runtime, which sends the requests.
    #[must_use]
    pub fn new(settings: Settings, view: PoolView) -> Striped {
        Striped {
            files: Arc::new(StripedFiles {
                settings,
                view: RwLock::new(view),
                driver: OnceLock::new(),
                sessions: Sessions::new(settings.patience),
                unstable: Mutex::default(),
                recalls: Arc::default(),
                uses: Uses::default(),
                unknown: Unknown::default(),
                creations: Mutex::default(),
                given: Mutex::default(),
            }),
            runtime: runtime::Handle::current(),
        }
    }

    /// Takes up what the home has kept in the store, under a new issue number, and begins to decide. Call it once.
    ///
    /// # Errors
    /// [`Error::Io`] when the stored state cannot be read or written; [`Error::Exists`] when it was started before.
    pub async fn start(&self, rows: PlacedRows, control: Arc<dyn Control>) -> Result<()> {
        let view = self.files.view();
        let driver = Driver::start(
            view.home,
            self.files.settings.home,
            view.servers.iter().copied(),
            rows,
            (control, self.files.recalls.clone()),
            |object, stored| Ok(view.find(object, stored)?.row),
        );
        let driver = driver.await?;
        self.files.driver.set(driver).map_err(|_| Error::Exists)
    }

    /// A data server of the pool has sent a message. Pass the messages of one data server one after the other, in their order. A message
    /// before [`Striped::start`] is ignored: the data server repeats it.
    pub fn receive(&self, from: DataServerNumber, message: ToHome) {
        if let Some(driver) = self.files.driver.get() {
            let is_back = driver.receive(from, message);
            if is_back {
                self.files.server_is_back(from);
            }
        }
    }

    /// The pool's book has changed.
    pub fn update_view(&self, view: PoolView) {
        if let Some(driver) = self.files.driver.get() {
            driver.add_servers(view.servers.iter().copied());
        }
        *(self.files.view.write()).unwrap_or_else(PoisonError::into_inner) = view;
    }

    /// A data server without files was removed from the pool: it gets no more leases.
    pub fn dismiss(&self, server: DataServerNumber) {
        if let Some(driver) = self.files.driver.get() {
            driver.dismiss(server);
        }
    }

    /// Waits until every creation of a file that may use an earlier view has ended.
    ///
    /// # Errors
    /// [`Error::Io`] when the store has failed.
    pub async fn creations_ended(&self) -> Result<()> {
        let before = {
            let creations = self.files.creations.lock();
            let mut creations = creations.unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *creations)
        };
        before.closed().await;
        // Rows of other copies enter the store on another way. Their placements are chosen under the lock that this takes.
        (self.files.driver()?.rows().keep(Vec::new(), Vec::new())).await
    }

    /// An administrator confirms that a data server has the right contents, although an older copy of them was seen. Returns `false` if the
    /// server was not refused for this reason alone.
    #[must_use]
    pub fn readmit(&self, server: DataServerNumber) -> bool {
        let driver = self.files.driver.get();
        driver.is_some_and(|driver| driver.readmit(server))
    }

    /// The data servers, by number: which ones serve, which ones have unexpected contents, and how much waits for each. Empty before the
    /// start.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerView> {
        let driver = self.files.driver.get();
        driver.map_or_else(Vec::new, |driver| driver.servers())
    }

    /// Whether a file may be longer and newer than its row says, because clients write, or wrote, directly to the data servers.
    #[must_use]
    pub fn is_written_past_home(&self, file: ObjectId) -> bool {
        // No client may do so before the start.
        let driver = self.files.driver.get();
        driver.is_some_and(|driver| driver.is_unsettled(file))
    }

    /// Waits for work that a store needs, outside of asynchronous tasks.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

impl StripedFiles {
    pub(crate) fn view(&self) -> PoolView {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        view.clone()
    }

    pub(crate) fn driver(&self) -> Result<&Arc<Driver>> {
        self.driver.get().ok_or(Error::Delay)
    }

    /// How long contents must belong to nothing before they are removed.
    pub(crate) fn sweep_after(&self) -> Duration {
        self.settings.sweep_after
    }

    /// How long to wait for a data server that is away.
    pub(crate) fn patience(&self) -> Duration {
        self.settings.patience
    }

    /// As [`Settings::holds_writes`].
    pub(crate) fn holds_writes(&self) -> bool {
        self.settings.holds_writes
    }

    pub(crate) fn find(&self, id: ObjectId, placement: &[u8]) -> Result<Whereabouts> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        view.find(id, placement)
    }

    /// Where a file lies now, if it exists and lies at data servers.
    pub(crate) fn present(&self, id: ObjectId) -> Result<Option<Whereabouts>> {
        let stored = self.driver()?.rows().placement(id)?;
        stored.map(|stored| self.find(id, &stored)).transpose()
    }

    /// Begins a request about a file. `None` if the file is gone or does not lie at data servers, and no `last` row is given.
    pub(crate) fn begin(
        &self,
        id: ObjectId,
        last: Option<&FileRow>,
        request: Request,
    ) -> Result<Option<oneshot::Receiver<Outcome>>> {
        let driver = self.driver()?;
        loop {
            let as_of = driver.switched();
            let Some(row) = self.row(id)?.or_else(|| last.cloned()) else {
                return Ok(None);
            };
            if let Some(begun) = driver.begin(as_of, &row, request)? {
                return Ok(Some(begun));
            }
        }
    }

    /// Makes a request about a file and waits for its outcome, at most until the leases of silent data servers have expired.
    /// [`Outcome::Gone`] where [`StripedFiles::begin`] begins nothing.
    pub(crate) async fn request(&self, id: ObjectId, request: Request) -> Result<Outcome> {
        match self.begin(id, None, request)? {
            None => Ok(Outcome::Gone),
            Some(begun) => outcome_of(begun).await,
        }
    }

    /// Has contents changed that no other task uses.
    pub(crate) async fn change(&self, file: &Whereabouts, act: Act) -> Result<()> {
        let id = file.row.contents.object;
        let Some(begun) = self.begin(id, Some(&file.row), Request::Change(act))? else {
            return Ok(());
        };
        if !matches!(outcome_of(begun).await?, Outcome::Done | Outcome::Gone) {
            let why = "a change was answered like another request";
            return Err(Error::Io(why.into()));
        }
        if act == Act::Remove {
            self.unstable().retain(|contents, _| contents.object != id);
        }
        Ok(())
    }

    /// Fills a buffer. Holes read as zeros.
    pub(crate) async fn read(
        self: &Arc<Self>,
        file: Whereabouts,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<()> {
        let file = Arc::new(file);
        buffer.fill(0);
        let segments = file.stripes.segments(offset, buffer.len() as u64);
        let read = |segment: Segment| {
            let (files, file) = (Arc::clone(self), Arc::clone(&file));
            async move { files.read_segment(&file, segment).await }
        };
        side_by_side(segments.map(read), |pieces: Vec<(u64, Bytes)>| {
            for (at, bytes) in pieces {
                // Within the buffer, because segments stay within the requested range.
                let from = (at - offset) as usize;
                buffer[from..from + bytes.len()].copy_from_slice(&bytes);
            }
        })
        .await
    }

    /// The bytes of one segment, with their offsets. Holes are left out.
    async fn read_segment(
        &self,
        file: &Whereabouts,
        segment: Segment,
    ) -> Result<Vec<(u64, Bytes)>> {
        let server = member(file, segment)?;
        let (mut offset, end) = (segment.offset, segment.offset + segment.length);
        let mut pieces = Vec::new();
        while offset < end {
            let length = end - offset;
            match self.ask(file, server, Io::Read { offset, length }).await? {
                Answer::Read(bytes) => {
                    let read = bytes.len() as u64;
                    pieces.push((offset, bytes));
                    offset += read;
                }
                Answer::Hole(length) => offset += length,
                other => return Err(unexpected(&other)),
            }
        }
        Ok(pieces)
    }

    /// Writes all of the bytes, unstably.
    pub(crate) async fn write(
        self: &Arc<Self>,
        file: Whereabouts,
        bytes: Bytes,
        offset: u64,
    ) -> Result<()> {
        let file = Arc::new(file);
        let segments = file.stripes.segments(offset, bytes.len() as u64);
        let write = |segment: Segment| {
            let (files, file) = (Arc::clone(self), Arc::clone(&file));
            // Within the bytes, as above.
            let from = (segment.offset - offset) as usize;
            let part = bytes.slice(from..from + segment.length as usize);
            async move { files.write_segment(&file, segment, part).await }
        };
        side_by_side(segments.map(write), |()| {}).await
    }

    async fn write_segment(
        &self,
        file: &Whereabouts,
        segment: Segment,
        mut bytes: Bytes,
    ) -> Result<()> {
        let server = member(file, segment)?;
        let mut offset = segment.offset;
        while !bytes.is_empty() {
            let write = Io::Write {
                offset,
                bytes: bytes.clone(),
            };
            let (count, unstable) = match self.ask(file, server, write).await? {
                Answer::Written { count, unstable } => (count, unstable),
                other => return Err(unexpected(&other)),
            };
            if let Some(verifier) = unstable {
                self.note_unstable(file.row.contents, server, verifier);
            }
            bytes.advance(count);
            offset += count as u64;
        }
        Ok(())
    }

    fn note_unstable(&self, of: ContentsId, server: DataServerNumber, verifier: Verifier4) {
        let mut unstable = self.unstable();
        let of = unstable.entry(of).or_default();
        of.writes += 1;
        let before = of.verifiers.insert(server, verifier);
        // The data server restarted between two writes.
        of.lost |= before.is_some_and(|before| before != verifier);
    }

    /// Makes all writes to a file stable.
    pub(crate) async fn sync(
        self: &Arc<Self>,
        file: Whereabouts,
    ) -> std::result::Result<(), SyncError> {
        let id = file.row.contents;
        let known = self.unstable().get(&id).cloned();
        // After a restart of the home, it is unknown which data servers have writes.
        let servers: Vec<DataServerNumber> = match &known {
            Some(known) => known.verifiers.keys().copied().collect(),
            None => file.row.members.clone(),
        };
        let known = known.unwrap_or_default();
        let there = |server: &DataServerNumber| file.row.members.contains(server);
        let (servers, gone): (Vec<_>, Vec<_>) = servers.into_iter().partition(there);
        let mut lost = known.lost || !gone.is_empty();
        let file = Arc::new(file);
        let commit = |server: DataServerNumber| {
            let (files, file) = (Arc::clone(self), Arc::clone(&file));
            async move {
                match files.ask(&file, server, Io::Commit).await? {
                    Answer::Committed(verifier) => Ok((server, verifier)),
                    other => Err(unexpected(&other)),
                }
            }
        };
        let committed = side_by_side(servers.into_iter().map(commit), |(server, verifier)| {
            let written = known.verifiers.get(&server);
            lost |= written.is_some_and(|written| *written != verifier);
        });
        committed.await.map_err(SyncError::Later)?;
        let mut unstable = self.unstable();
        if unstable
            .get(&id)
            .is_some_and(|now| now.writes == known.writes)
        {
            unstable.remove(&id);
        } else if lost && let Some(now) = unstable.get_mut(&id) {
            // The loss is reported now.
            now.lost = false;
            now.verifiers
                .retain(|server, verifier| known.verifiers.get(server) != Some(verifier));
        }
        match lost {
            false => Ok(()),
            true => Err(SyncError::Lost(
                "a data server was started anew before it was stable there".into(),
            )),
        }
    }

    /// Sends a request to a data server in the name of the home, until the server serves or patience ends. A write whose answer was lost is
    /// not repeated: it could take effect twice, with another write in between.
    async fn ask(&self, file: &Whereabouts, server: DataServerNumber, ask: Io) -> Result<Answer> {
        let driver = self.driver()?;
        let called = || driver.rows().called(file.row.contents.object);
        if !file.row.members.contains(&server) {
            return Err(Error::Io(format!(
                "a part of {} lay on data server {}, which was given up with all it had",
                called(),
                server.0
            )));
        }
        let repeats = !matches!(ask, Io::Write { .. });
        let begun = Instant::now();
        let mut row = file.row.clone();
        let mut reason = Unserved::Away;
        loop {
            let handle = driver.handle(&row, server);
            let address = driver.control().address(server);
            if let (Some(handle), Some(address)) = (handle, address) {
                let answered =
                    (self.sessions).ask((server, address), handle.as_bytes(), ask.clone());
                reason = match answered.await {
                    Ok(done) => {
                        let subject = (NOT_SERVED, u64::from(server.0));
                        if let Some(sum) = AWAY.works(subject, Instant::now()) {
                            tracing::info!(server = server.0, %sum, "a data server serves again");
                        }
                        return Ok(done);
                    }
                    Err(Unserved::Uncertain) if !repeats => return Err(Error::Delay),
                    Err(reason) => reason,
                };
            }
            if let Unserved::Status(status) = reason
                && let Some(error) = error_of(status, server, called)
            {
                return Err(error);
            }
            if begun.elapsed() > self.settings.patience {
                let subject = (NOT_SERVED, u64::from(server.0));
                if let Some(sum) = AWAY.failed(subject, Instant::now()) {
                    tracing::warn!(server = server.0, why = %why(reason), %sum, "a data server does not serve; clients are told to come again");
                }
                return Err(Error::Delay);
            }
            tokio::time::sleep(BETWEEN).await;
            // An operation from before the home's restart may have been completed meanwhile, under another generation.
            let now = match file.is_named {
                true => self.present(row.contents.object)?,
                false => None,
            };
            match now {
                Some(now) if now.row.contents == row.contents => row = now.row,
                // It was moved meanwhile. The client retries, and then the new place is found.
                Some(_) => return Err(Error::Delay),
                None => {}
            }
        }
    }

    /// All writes to the old contents of a file were copied and are stable. With `lost`, some were lost before, and the client must be
    /// told.
    pub(crate) fn forget_unstable(&self, old: ContentsId, new: ContentsId, lost: bool) {
        let mut unstable = self.unstable();
        let known = unstable.remove(&old);
        unstable.remove(&new);
        if lost || known.is_some_and(|known| known.lost) {
            let lost = Unstable {
                lost: true,
                ..Unstable::default()
            };
            unstable.insert(new, lost);
        }
    }

    fn unstable(&self) -> MutexGuard<'_, HashMap<ContentsId, Unstable>> {
        self.unstable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the outcome of a request.
pub(crate) async fn outcome_of(begun: oneshot::Receiver<Outcome>) -> Result<Outcome> {
    // The home was stopped.
    begun.await.map_err(|_| Error::Delay)
}

/// The error that a home returns to its client for this status of a data server. `None` for a temporary status.
fn error_of(
    status: NfsStat4,
    server: DataServerNumber,
    called: impl Fn() -> String,
) -> Option<Error> {
    match status {
        // No lease at this moment, or another generation: the handle is built again.
        NfsStat4::Stale | NfsStat4::Delay | NfsStat4::Grace => None,
        NfsStat4::NoSpc => Some(Error::NoSpace),
        NfsStat4::FBig => Some(Error::TooLarge),
        other => Some(Error::Io(format!(
            "data server {} has answered {other} about its part of {}; its log says why",
            server.0,
            called()
        ))),
    }
}

/// Why a data server has not served, for the log.
fn why(reason: Unserved) -> String {
    match reason {
        Unserved::Status(status) => format!("it has answered {status}"),
        Unserved::Away => "it is away, or has no lease".to_owned(),
        Unserved::Uncertain => "it has not answered".to_owned(),
    }
}

fn unexpected(answer: &Answer) -> Error {
    let what = match answer {
        Answer::Read(_) | Answer::Hole(_) => "READ",
        Answer::Written { .. } => "WRITE",
        Answer::Committed(_) => "COMMIT",
    };
    Error::Io(format!(
        "a data server has answered {what}, which was not asked"
    ))
}

fn member(file: &Whereabouts, segment: Segment) -> Result<DataServerNumber> {
    let member = file.members.get(segment.index).copied();
    member.ok_or_else(|| Error::Io("a stripe has no data server".into()))
}

/// Runs some work in parallel, within a bound, and passes each result to `take`. After an error it waits for the rest, so that nothing
/// stays under way.
pub(crate) async fn side_by_side<T: Send + 'static, W>(
    works: impl Iterator<Item = W>,
    mut take: impl FnMut(T),
) -> Result<()>
where
    W: Future<Output = Result<T>> + Send + 'static,
{
    let (mut under_way, mut result) = (JoinSet::new(), Ok(()));
    let mut ended = |ended: std::result::Result<Result<T>, tokio::task::JoinError>,
                     result: &mut Result<()>| {
        match ended {
            Ok(Ok(done)) => take(done),
            // Report a full data server rather than one that is away: it stays full.
            Ok(Err(error)) if result.is_ok() || error != Error::Delay => *result = Err(error),
            Ok(Err(_)) => {}
            Err(error) => *result = Err(Error::broken_off(error.is_cancelled(), &error)),
        }
    };
    for work in works {
        if under_way.len() >= AT_ONCE
            && let Some(done) = under_way.join_next().await
        {
            ended(done, &mut result);
        }
        if result.is_err() {
            break;
        }
        under_way.spawn(work);
    }
    while let Some(done) = under_way.join_next().await {
        ended(done, &mut result);
    }
    result
}

/// The extent of a range.
pub(crate) fn extent_of(range: &Range<u64>) -> vfs::Extent {
    vfs::Extent {
        offset: range.start,
        length: range.end - range.start,
    }
}
