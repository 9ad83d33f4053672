//! Contents that are striped: reads and writes at all data servers of a file side by side, and changes through the home's decisions.

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

/// What is told of data servers that do not serve, once and then in sums.
static AWAY: Throttle = Throttle::new();
const NOT_SERVED: &str = "a data server does not serve";

/// Requests of one read or write that are on their way at once.
const AT_ONCE: usize = 16;
/// Before a data server is asked again that did not serve: it may have no session, no lease, or the bytes of an older generation, and nothing tells of
/// all of these.
const BETWEEN: Duration = Duration::from_millis(50);

/// The contents of files that are striped over the data servers of a pool, for the store that has their rows.
///
/// It is handed to the store when that is opened ([`store::StoreOptions::elsewhere`]), and started with the store's rows behind
/// that; until then everybody is told to come again. Calls of the store block, and belong outside of asynchronous tasks.
pub struct Striped {
    pub(crate) files: Arc<StripedFiles>,
    pub(crate) runtime: runtime::Handle,
}

/// What is known of striped files, and who carries out what is done to them. Whatever outlives a call of [`Striped`] shares it.
pub(crate) struct StripedFiles {
    settings: Settings,
    view: RwLock<PoolView>,
    driver: OnceLock<Arc<Driver>>,
    sessions: Sessions,
    unstable: Mutex<HashMap<ContentsId, Unstable>>,
    pub(crate) recalls: Arc<Recalls>,
    pub(crate) uses: Uses,
    pub(crate) unknown: Unknown,
    /// Held by each creation that is under way, and another one after each question for their end.
    pub(crate) creations: Mutex<watch::Sender<()>>,
    /// The devices that clients may have been told of.
    pub(crate) given: Mutex<BTreeMap<DeviceId, DeviceGroupNumber>>,
}

/// What was written to a file and may not be stable.
#[derive(Clone, Debug, Default)]
struct Unstable {
    /// At these data servers, under these verifiers.
    verifiers: BTreeMap<DataServerNumber, Verifier4>,
    /// Some of it is known to be lost.
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
    /// For a store that is about to be opened. To be called within a tokio runtime, which carries the requests.
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

    /// Takes up what the home has kept in the store, under a new issue number, and begins to decide. Called once.
    ///
    /// # Errors
    /// [`Error::Io`] when what was kept cannot be read or kept; [`Error::Exists`] when it was started before.
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

    /// A data server of the pool has sent a message. Messages of one data server are to be handed over one after the other, as they
    /// have come. One that comes before [`Striped::start`] is not heard: it is said again.
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

    /// A data server on which no file lies was removed from the pool: it gets no lease any more.
    pub fn dismiss(&self, server: DataServerNumber) {
        if let Some(driver) = self.files.driver.get() {
            driver.dismiss(server);
        }
    }

    /// Waits until every creation of a file has ended that may go by an earlier view.
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
        // Rows of other copies come to the store past all that. Placements are chosen under the lock that this takes.
        (self.files.driver()?.rows().keep(Vec::new(), Vec::new())).await
    }

    /// An administrator says that a data server has the contents that it is to have, though an older copy of them was seen. `false`
    /// where it is not refused for that alone.
    #[must_use]
    pub fn readmit(&self, server: DataServerNumber) -> bool {
        let driver = self.files.driver.get();
        driver.is_some_and(|driver| driver.readmit(server))
    }

    /// The data servers, by number: who serves, who has other contents than before, and how much waits for each. None before the start.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerView> {
        let driver = self.files.driver.get();
        driver.map_or_else(Vec::new, |driver| driver.servers())
    }

    /// Whether a file may be longer, and newer, than its row says, because clients write to it past the home, or did.
    #[must_use]
    pub fn is_written_past_home(&self, file: ObjectId) -> bool {
        // Nobody may before the start.
        let driver = self.files.driver.get();
        driver.is_some_and(|driver| driver.is_unsettled(file))
    }

    /// Waits for something that a store wants, outside of asynchronous tasks.
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

    /// How long contents belong to nothing before they go.
    pub(crate) fn sweep_after(&self) -> Duration {
        self.settings.sweep_after
    }

    /// How long a data server that is away is waited for.
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

    /// Where a file lies now, if it is there and lies at data servers.
    pub(crate) fn present(&self, id: ObjectId) -> Result<Option<Whereabouts>> {
        let stored = self.driver()?.rows().placement(id)?;
        stored.map(|stored| self.find(id, &stored)).transpose()
    }

    /// Begins to have something done with a file. Nothing for one that is gone, or does not lie at data servers, and of which no
    /// `last` row is known.
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

    /// Has something done with a file, and waits for what comes of it: at most until the leases of data servers that do not answer
    /// have run out. [`Outcome::Gone`] where [`StripedFiles::begin`] begins nothing.
    pub(crate) async fn request(&self, id: ObjectId, request: Request) -> Result<Outcome> {
        match self.begin(id, None, request)? {
            None => Ok(Outcome::Gone),
            Some(begun) => outcome_of(begun).await,
        }
    }

    /// Has contents changed that nobody else uses.
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

    /// Fills a buffer; where nothing was written, with zeros.
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
                // Within the buffer, since no segment goes beyond what was asked for.
                let from = (at - offset) as usize;
                buffer[from..from + bytes.len()].copy_from_slice(&bytes);
            }
        })
        .await
    }

    /// The bytes of one segment, with their places; what is left out is a hole.
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
        // The data server was started anew between two writes.
        of.lost |= before.is_some_and(|before| before != verifier);
    }

    /// Makes everything stable that was written to a file.
    pub(crate) async fn sync(
        self: &Arc<Self>,
        file: Whereabouts,
    ) -> std::result::Result<(), SyncError> {
        let id = file.row.contents;
        let known = self.unstable().get(&id).cloned();
        // After a restart of the home nobody knows where something was written.
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
            // It is told now.
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

    /// Asks a data server for something, in the name of the home, until it serves, as long as patience lasts. A write that may have
    /// been done without an answer is not done again: it could come twice, with another one between.
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
                let answered = (self.sessions).ask((server, address), &handle, ask.clone());
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
            // What was begun before a restart of the home may have been finished meanwhile, under another generation.
            let now = match file.is_named {
                true => self.present(row.contents.object)?,
                false => None,
            };
            match now {
                Some(now) if now.row.contents == row.contents => row = now.row,
                // It was moved meanwhile. The client asks again, and then this looks where it lies
                // now.
                Some(_) => return Err(Error::Delay),
                None => {}
            }
        }
    }

    /// Everything that was written to the old contents of a file was copied, and is stable; with
    /// `lost`, some of it was lost before, and the client that wrote it is to be told.
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

/// What comes of something that was begun.
pub(crate) async fn outcome_of(begun: oneshot::Receiver<Outcome>) -> Result<Outcome> {
    let closed = |_| Error::Io("the home was stopped".into());
    begun.await.map_err(closed)
}

/// What a home tells its client when a data server has answered so; `None` for what passes.
fn error_of(
    status: NfsStat4,
    server: DataServerNumber,
    called: impl Fn() -> String,
) -> Option<Error> {
    match status {
        // No lease at this moment, or another generation: the handle is made anew.
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

/// Why a data server has not served, for people.
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

/// Runs some work side by side, not too much of it at once, and shows what came of each to `take`. After an error the rest is
/// waited for, so that nothing is under way any more.
async fn side_by_side<T: Send + 'static, W>(
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
            // A full data server is more than one that is away: it stays full.
            Ok(Err(error)) if result.is_ok() || error != Error::Delay => *result = Err(error),
            Ok(Err(_)) => {}
            Err(stopped) => *result = Err(Error::Io(format!("the runtime ended: {stopped}"))),
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

/// The extent that a range is.
pub(crate) fn extent_of(range: &Range<u64>) -> vfs::Extent {
    vfs::Extent {
        offset: range.start,
        length: range.end - range.start,
    }
}
