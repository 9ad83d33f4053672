//! Carries out what `pool::data_server` decides. One lock protects the decisions, and tasks carry out the commands.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use control::Moment;
use nfs4_server::Shown;
use pool::data_server::{Command, Fenced, Shelf as Known, Ticket};
use pool::{
    Access, Act, ContentsId, DataServerNumber, Generation, HomeNumber, Intent, IntentNumber,
    KeyNumber, LeaseClock, LeaseSettings, Report, Rules, ToDataServer, ToHome,
};
use throttle::Throttle;

use crate::shelf::Shelf;

/// Log entries about contents that cannot be changed as a home wants, the first one and then sums.
static FAILURES: Throttle = Throttle::new();

/// Delay before a home's request is tried again after a disk error.
const AGAIN: Duration = Duration::from_secs(1);
/// After this many failed attempts to cut contents off, or to punch a hole, they count as damaged. An error of the disk may be temporary.
const ATTEMPTS_TO_CUT: u32 = 5;

/// How a data server reaches homes and clients.
pub trait Outward: Send + Sync {
    /// Sends a message to a home, after all earlier ones or not at all. Does not wait.
    fn send(&self, home: HomeNumber, message: ToHome);

    /// Closes every client connection to this data server's NFS service. Unread bytes there were sent before a gap between two leases, and
    /// their client may have continued elsewhere since (rule 4). Does not wait.
    fn drop_connections(&self);
}

/// A data server. While it has a lease of a home, a client with a handle that this home has sealed may use the contents as the handle
/// permits.
///
/// The data server must ask for leases: see [`DataServer::ask`]. Clones are the same data server.
#[derive(Clone)]
pub struct DataServer {
    pub(crate) running: Arc<RunningServer>,
}

/// Shared by the handles and the tasks of a data server. Tasks end when the last handle is dropped.
pub(crate) struct RunningServer {
    pub(crate) shelf: Arc<Shelf>,
    outward: Arc<dyn Outward>,
    core: Mutex<pool::data_server::DataServer>,
    now: LeaseClock,
    /// Homes that have answered the last lease request of this run.
    have_answered: Mutex<BTreeSet<HomeNumber>>,
}

impl DataServer {
    /// A data server that serves for no home yet and measures leases on this clock.
    #[must_use]
    pub fn new(
        number: DataServerNumber,
        (lease, now): (LeaseSettings, LeaseClock),
        shelf: Arc<Shelf>,
        outward: Arc<dyn Outward>,
    ) -> DataServer {
        let core = pool::data_server::DataServer::new(number, lease, Rules::ALL);
        DataServer {
            running: Arc::new(RunningServer {
                shelf,
                outward,
                core: Mutex::new(core),
                now,
                have_answered: Mutex::default(),
            }),
        }
    }

    /// Asks a home for a lease. Call it once a second for every home of the pool, whatever the answers are.
    ///
    /// # Errors
    /// When the counter by which homes recognize this data server cannot be made stable. Nothing is asked then.
    pub async fn ask(&self, home: HomeNumber) -> vfs::Result<()> {
        let running = &self.running;
        let answered = running.have_answered().remove(&home);
        let identity = running.shelf.identity(home, answered).await;
        let identity = identity.inspect_err(|_| {
            if answered {
                running.have_answered().insert(home);
            }
        })?;
        let ask = running.core().ask(running.now(), home, identity);
        running.carry_out_all(vec![ask]);
        Ok(())
    }

    /// A home has sent a message. Pass the messages of one home one after the other, in their order. The requested work is done after this
    /// call and answered through [`Outward::send`].
    pub async fn receive(&self, home: HomeNumber, message: ToDataServer) {
        let running = &self.running;
        let about = match &message {
            ToDataServer::Lease { .. } => {
                running.have_answered().insert(home);
                None
            }
            ToDataServer::Take(intent, _) => Some(intent.contents),
            ToDataServer::Look { contents, .. } => Some(*contents),
        };
        let report = match about {
            None => None,
            Some(contents) => match running.shelf.report(contents).await {
                Ok(report) => Some((contents, report)),
                // The message is ignored: the home repeats it when this server next asks for a lease.
                Err(error) => return tell(&error),
            },
        };
        let now = running.now();
        let known = running.known(report);
        let commands = running.core().handle(now, &known, home, message);
        running.carry_out_all(commands);
    }
}

impl RunningServer {
    fn core(&self) -> MutexGuard<'_, pool::data_server::DataServer> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn have_answered(&self) -> MutexGuard<'_, BTreeSet<HomeNumber>> {
        let answered = self.have_answered.lock();
        answered.unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Moment {
        (self.now)()
    }

    fn known(&self, report: Option<(ContentsId, Report)>) -> KnownOf<'_> {
        KnownOf {
            shelf: &self.shelf,
            report,
        }
    }

    /// Does some work on contents that a handle allows. From admission to end, the work is one step (rule 3), which completes even if the
    /// caller is dropped.
    ///
    /// # Errors
    /// [`NotDone`].
    pub(crate) async fn with_handle<T, F>(
        self: &Arc<Self>,
        shown: Shown<'_>,
        wanted: Access,
        work: impl FnOnce(Arc<Shelf>, ContentsId) -> F,
    ) -> Result<T, NotDone>
    where
        T: Send + 'static,
        F: Future<Output = vfs::Result<T>> + Send + 'static,
    {
        let (now, known) = (self.now(), self.known(None));
        let times = (now, Moment(shown.connected.0));
        let begun = self.core().begin(times, &known, shown.handle, wanted);
        let (ticket, capability) = begun.map_err(|_| NotDone::NotServed)?;
        let contents = capability.contents();
        let (running, work) = (Arc::clone(self), work(Arc::clone(&self.shelf), contents));
        let step = tokio::spawn(async move {
            let done = work.await;
            let answered = running.finish(ticket, contents).await;
            answered.map_err(|_| NotDone::NotServed)?;
            done.map_err(|error| NotDone::Failed(error, capability.access))
        });
        step.await.map_err(|_| NotDone::NotServed)?
    }

    fn carry_out_all(self: &Arc<Self>, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Send(home, message) => self.outward.send(home, message),
                Command::DropConnections => self.outward.drop_connections(),
                Command::CarryOut(home, intent, key) => {
                    let running = Arc::downgrade(self);
                    tokio::spawn(async move { carry_out(running, home, intent, key).await });
                }
                Command::Forget(home, oldest) => {
                    let running = Arc::downgrade(self);
                    tokio::spawn(async move { forget(running, home, oldest).await });
                }
                Command::MakeStable(home, question, contents) => {
                    let running = Arc::downgrade(self);
                    tokio::spawn(
                        async move { make_stable(running, home, question, contents).await },
                    );
                }
            }
        }
    }

    /// Ends a step. Reads the report only if a home may wait for it.
    async fn finish(
        self: &Arc<Self>,
        ticket: Ticket,
        contents: ContentsId,
    ) -> Result<(), pool::data_server::NotServed> {
        let mut report = None;
        loop {
            {
                let mut core = self.core();
                if report.is_some() || !core.is_awaited(contents) {
                    let (answered, commands) = core.finish(self.now(), &self.known(report), ticket);
                    drop(core);
                    self.carry_out_all(commands);
                    return answered;
                }
            }
            match self.shelf.report(contents).await {
                Ok(found) => report = Some((contents, found)),
                Err(error) => {
                    tell(&error);
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }
}

/// Why a request was not done.
pub(crate) enum NotDone {
    /// The handle is not valid here and now.
    NotServed,
    /// The shelf has failed.
    Failed(vfs::Error, Access),
}

/// Carries an intent out, with as many attempts as necessary. Until it is done, these contents are not served.
async fn carry_out(running: Weak<RunningServer>, home: HomeNumber, intent: Intent, key: KeyNumber) {
    for attempt in 1.. {
        let Some(running) = running.upgrade() else {
            return;
        };
        let done = match running.shelf.carry_out(intent, (home, key)).await {
            Ok(()) => running.shelf.report(intent.contents).await,
            Err(error) => Err(error),
        };
        let cuts = matches!(intent.act, Act::Truncate(_) | Act::Punch(_));
        let is_unable =
            cuts && attempt >= ATTEMPTS_TO_CUT && matches!(done, Err(vfs::Error::Io(_)));
        if is_unable && let Err(error) = running.shelf.note_damaged(intent.contents).await {
            tell(&error);
        }
        match done {
            Ok(report) => {
                let known = running.known(Some((intent.contents, report)));
                let commands = running.core().carried_out(&known, home, intent);
                return running.carry_out_all(commands);
            }
            Err(error) => tell(&error),
        }
        drop(running);
        tokio::time::sleep(AGAIN).await;
    }
}

/// Clears tombstones. If a run does not finish this, the first lease of the next run starts it again.
async fn forget(running: Weak<RunningServer>, home: HomeNumber, oldest: KeyNumber) {
    while let Some(running) = running.upgrade() {
        match running.shelf.forget(home, oldest).await {
            Ok(0) => return,
            Ok(gone) => {
                tracing::debug!(
                    gone,
                    "tombstones are gone, with the keys that they stood for"
                );
                continue;
            }
            Err(error) => tell(&error),
        }
        drop(running);
        tokio::time::sleep(AGAIN).await;
    }
}

async fn make_stable(
    running: Weak<RunningServer>,
    home: HomeNumber,
    question: u64,
    contents: ContentsId,
) {
    while let Some(running) = running.upgrade() {
        let done = match running.shelf.commit(contents).await {
            Ok(_) => running.shelf.report(contents).await,
            Err(error) => Err(error),
        };
        match done {
            Ok(report) => {
                let known = running.known(Some((contents, report)));
                let commands = running.core().made_stable(&known, home, question, contents);
                return running.carry_out_all(commands);
            }
            Err(error) => tell(&error),
        }
        drop(running);
        tokio::time::sleep(AGAIN).await;
    }
}

fn tell(error: &vfs::Error) {
    if let Some(sum) = FAILURES.failed(("a home waits", 0), Instant::now()) {
        tracing::warn!(%error, %sum, "what a home wants done with contents fails, and is tried again; check the disk");
    }
}

/// What the decisions must know of a shelf.
struct KnownOf<'s> {
    shelf: &'s Shelf,
    /// The report of the only contents that a decision may be about.
    report: Option<(ContentsId, Report)>,
}

impl Known for KnownOf<'_> {
    fn fenced(&self, contents: ContentsId) -> Option<Fenced> {
        self.shelf.fenced(contents).unwrap_or_else(|error| {
            tell(&error);
            // Unreadable contents are not served, and their pending changes count as not done.
            Some(Fenced {
                generation: Generation(u64::MAX),
                through: IntentNumber(0),
                removed: true,
            })
        })
    }

    fn report(&self, contents: ContentsId) -> Report {
        match self.report {
            Some((of, report)) if of == contents => report,
            // Requests are about the contents at hand: the next one waits for the same contents.
            _ => Report::default(),
        }
    }
}
