//! Carries out what `pool::home` decides: one lock around its decisions, and one task that makes them stable and passes them on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use control::{Moment, OperationId};
use pool::home::{
    Command, FileRow, Holder, Home, HomeSettings, Outcome, Owed, Record, Recovered, Request,
    ServerView,
};
use pool::{
    DataServerNumber, Generation, Handle, HandleKey, HomeNumber, IntentNumber, IssueNumber,
    KeyNumber, Placement, ToHome,
};
use store::{Placed, PlacedRows};
use tokio::sync::{Notify, oneshot};
use vfs::{Error, ObjectId, Result};

use crate::control::Control;
use crate::layouts::Recalls;
use crate::records::{self, Fact};

/// One run of a home.
pub(crate) struct Driver {
    state: Mutex<State>,
    /// There are commands, or time has to be looked at anew.
    woken: Notify,
    rows: PlacedRows,
    control: Arc<dyn Control>,
    recalls: Arc<Recalls>,
    started: Instant,
}

struct State {
    home: Home,
    /// Not carried out yet, in order.
    commands: Vec<Command>,
    /// Who waits for which operation.
    waiting: HashMap<OperationId, oneshot::Sender<Outcome>>,
    next_operation: u64,
    /// Which run of each data server has asked last.
    runs: BTreeMap<DataServerNumber, u64>,
    /// The rows of intents, as they are kept.
    intents: BTreeMap<IntentNumber, Owed>,
    /// Files to which clients may write past the home, or may have, as it is kept.
    unsettled: BTreeSet<ObjectId>,
    /// Nothing can be kept any more.
    failed: bool,
}

impl Driver {
    /// Takes up what was kept, under a new issue number.
    pub(crate) async fn start(
        number: HomeNumber,
        settings: HomeSettings,
        servers: impl IntoIterator<Item = DataServerNumber>,
        rows: PlacedRows,
        (control, recalls): (Arc<dyn Control>, Arc<Recalls>),
        file_row: impl Fn(ObjectId, &[u8]) -> Result<FileRow>,
    ) -> Result<Arc<Driver>> {
        let issue = next_issue(&rows).await?;
        let present: BTreeSet<DataServerNumber> = servers.into_iter().collect();
        let damaged = |what: &str| Error::Io(format!("{what} that a home has kept is damaged"));
        let (mut intents, mut settled) = (BTreeMap::new(), Vec::new());
        for (key, row) in rows.facts(records::INTENTS)? {
            let mut owed = records::parse_intent(&key, &row).ok_or_else(|| damaged("an intent"))?;
            // Those that were removed owe nothing, though the home was stopped before that was noted.
            owed.owed.retain(|server| present.contains(server));
            match owed.in_row && owed.owed.is_empty() {
                true => settled.push((key.to_vec(), None)),
                false => {
                    intents.insert(owed.intent.number, owed);
                }
            }
        }
        if !settled.is_empty() {
            rows.keep(Vec::new(), settled).await?;
        }
        let mut known: BTreeMap<_, _> = present.iter().map(|server| (*server, None)).collect();
        for (key, row) in rows.facts(records::SERVERS)? {
            let standing = records::parse_standing(&key, &row);
            let (server, standing) = standing.ok_or_else(|| damaged("what data servers have"))?;
            if let Some(known) = known.get_mut(&server) {
                *known = Some(standing);
            }
        }
        let mut unsettled = BTreeSet::new();
        for (key, row) in rows.facts(records::UNSETTLED)? {
            let file = records::parse_unsettled(&key, &row);
            unsettled.insert(file.ok_or_else(|| damaged("a mark of a file"))?);
        }
        let mut files = BTreeMap::new();
        for owed in intents.values().filter(|owed| !owed.in_row) {
            let object = owed.intent.contents.object;
            let row = FileRow {
                size: rows.size(object)?.unwrap_or_default(),
                unsettled: unsettled.contains(&object),
                ..row_of(&rows, owed, &file_row)?
            };
            files.insert(object, row);
        }
        let recovered = Recovered {
            servers: known,
            intents: intents.values().cloned().collect(),
            files: files.into_values().collect(),
            // Issue numbers grow with every start, and no run has so many intents.
            next_intent: issue.0 << 32,
        };
        let key = HandleKey::new(KeyNumber(issue.0 as u32), random()?);
        let home = Home::new(number, issue, key, settings, Moment(0), recovered);
        let driver = Arc::new(Driver {
            state: Mutex::new(State {
                home,
                commands: Vec::new(),
                waiting: HashMap::new(),
                next_operation: 0,
                runs: BTreeMap::new(),
                intents,
                unsettled,
                failed: false,
            }),
            woken: Notify::new(),
            rows,
            control,
            recalls,
            started: Instant::now(),
        });
        tokio::spawn(run(Arc::downgrade(&driver)));
        Ok(driver)
    }

    /// A data server has sent a message. Whether it was away, or was started anew, and is back with that.
    pub(crate) fn receive(&self, from: DataServerNumber, message: ToHome) -> bool {
        let now = self.now();
        let run = match &message {
            ToHome::Ask { standing, .. } => Some(standing.run),
            ToHome::Taken { .. } | ToHome::Looked { .. } => None,
        };
        let mut state = self.state();
        let served = state.home.serves(now, from);
        let commands = state.home.handle(now, from, message);
        state.commands.extend(commands);
        let began = !served && state.home.serves(now, from);
        let before = run.and_then(|run| state.runs.insert(from, run));
        let is_another = before.is_some_and(|before| run != Some(before));
        drop(state);
        self.woken.notify_one();
        began || is_another
    }

    /// Data servers have joined.
    pub(crate) fn add_servers(&self, servers: impl IntoIterator<Item = DataServerNumber>) {
        let (now, mut state) = (self.now(), self.state());
        for server in servers {
            state.home.add_server(server, now);
        }
    }

    /// A data server was removed from the pool.
    pub(crate) fn dismiss(&self, server: DataServerNumber) {
        let (now, mut state) = (self.now(), self.state());
        let commands = state.home.dismiss(now, server);
        state.commands.extend(commands);
        drop(state);
        self.woken.notify_one();
    }

    /// An administrator says that a data server has the right contents. Whether that was in doubt.
    pub(crate) fn readmit(&self, server: DataServerNumber) -> bool {
        let mut state = self.state();
        let commands = state.home.readmit(server);
        let was_doubted = commands.is_some();
        state.commands.extend(commands.into_iter().flatten());
        drop(state);
        self.woken.notify_one();
        was_doubted
    }

    /// The data servers, as people see them.
    pub(crate) fn servers(&self) -> Vec<ServerView> {
        let (now, state) = (self.now(), self.state());
        state.home.servers(now)
    }

    /// Has something done with a file, and waits for what comes of it: at most until the leases of data servers that do not answer
    /// have run out.
    pub(crate) async fn request(&self, row: &FileRow, request: Request) -> Result<Outcome> {
        let outcome = self.begin(row, request)?;
        let closed = |_| Error::Io("the home was stopped".into());
        outcome.await.map_err(closed)
    }

    /// Begins to have something done with a file. It is done even if nobody waits for what comes of it.
    pub(crate) fn begin(
        &self,
        row: &FileRow,
        request: Request,
    ) -> Result<oneshot::Receiver<Outcome>> {
        let object = row.contents.object;
        let size = self.rows.size(object)?;
        let (told, outcome) = oneshot::channel();
        {
            let now = self.now();
            let mut state = self.state();
            if state.failed {
                return Err(Error::Io("the home keeps nothing any more".into()));
            }
            let operation = OperationId(state.next_operation);
            state.next_operation += 1;
            state.waiting.insert(operation, told);
            let row = FileRow {
                size: size.unwrap_or_default(),
                unsettled: state.unsettled.contains(&object),
                ..row.clone()
            };
            let commands = state.home.request(now, &row, operation, request);
            state.commands.extend(commands);
        }
        self.woken.notify_one();
        Ok(outcome)
    }

    /// Whether a file may be longer, and newer, than its row says.
    pub(crate) fn is_unsettled(&self, file: ObjectId) -> bool {
        self.state().unsettled.contains(&file)
    }

    /// Whether anybody may write to a file past the home; with a holder, whether this one may.
    pub(crate) fn is_written(&self, file: ObjectId, by: Option<Holder>) -> bool {
        self.state().home.is_written(file, by)
    }

    /// The handle for one of the data servers of a file; `None` while it may not serve for this home.
    pub(crate) fn handle(&self, row: &FileRow, server: DataServerNumber) -> Option<Handle> {
        let (now, state) = (self.now(), self.state());
        let serves = state.home.serves(now, server);
        serves.then(|| state.home.own_handle(row, server))
    }

    pub(crate) fn rows(&self) -> &PlacedRows {
        &self.rows
    }

    pub(crate) fn control(&self) -> &dyn Control {
        &*self.control
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Moment {
        Moment(u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// Carries out what has been decided so far. Records come before whatever waits for them.
    async fn carry_out(&self) -> Result<()> {
        let (commands, kept) = {
            let mut state = self.state();
            let commands = std::mem::take(&mut state.commands);
            let kept = self.to_keep(&mut state, &commands)?;
            (commands, kept)
        };
        if !kept.placed.is_empty() || !kept.facts.is_empty() {
            let placed = kept.placed.into_values().collect();
            self.rows.keep(placed, kept.facts).await?;
            // Not before: whoever finds a file settled goes by its row.
            let unsettled = &mut self.state().unsettled;
            unsettled.retain(|file| !kept.settled.contains(file));
        }
        for command in commands {
            match command {
                Command::Persist(_) => {}
                Command::Send { to, message, .. } => self.control.send(to, message),
                Command::Answer {
                    operation, outcome, ..
                } => {
                    let waiting = self.state().waiting.remove(&operation);
                    if let Some(waiting) = waiting {
                        // Whoever has asked may have gone.
                        let _gone = waiting.send(outcome);
                    }
                }
                Command::Recall(_, holder) => self.recalls.recall(holder),
            }
        }
        Ok(())
    }

    fn to_keep(&self, state: &mut State, commands: &[Command]) -> Result<ToKeep> {
        let mut kept = ToKeep::default();
        for command in commands {
            let Command::Persist(record) = command else {
                continue;
            };
            let facts = &mut kept.facts;
            match record {
                Record::Standing(server, standing) => {
                    facts.push(records::standing(*server, *standing));
                }
                Record::Intend(owed) => {
                    state.intents.insert(owed.intent.number, owed.clone());
                    facts.push(records::intent(owed));
                }
                Record::Taken(number, server) => {
                    state.change_intent(*number, facts, |owed| {
                        owed.owed.remove(server);
                    });
                }
                Record::Row {
                    row,
                    intent,
                    changed,
                } => {
                    if let Some(number) = intent {
                        state.change_intent(*number, facts, |owed| owed.in_row = true);
                    }
                    self.enter(state, row, *changed, &mut kept)?;
                }
                Record::Gone(object, number) => {
                    state.change_intent(*number, facts, |owed| owed.in_row = true);
                    kept.mark(state, *object, false);
                }
            }
        }
        Ok(kept)
    }

    /// What the row of a file is to say, if it is still there. The store sees to sizes and times of whatever goes through it; of what was
    /// written past the home, it hears here.
    fn enter(
        &self,
        state: &mut State,
        row: &FileRow,
        changed: bool,
        kept: &mut ToKeep,
    ) -> Result<()> {
        let object = row.contents.object;
        let was_unsettled = kept.is_unsettled(state, object);
        kept.mark(state, object, row.unsettled);
        let Some(stored) = self.rows.placement(object)? else {
            return Ok(());
        };
        let placement = Placement::decode(&stored).ok();
        let placement = placement.filter(|placement| placement.number == row.contents.placement);
        let Some(placement) = placement else {
            return Ok(());
        };
        let placement = Placement {
            generation: row.generation.max(placement.generation),
            ..placement
        };
        let new = Placed {
            is_lent: row.unsettled && !was_unsettled,
            reach: was_unsettled.then_some(row.size),
            is_changed: was_unsettled && changed,
            ..Placed::at(object, placement.encode().to_vec())
        };
        let before = kept.placed.remove(&object);
        let together = match before {
            None => new,
            Some(before) => Placed {
                is_lent: new.is_lent || before.is_lent,
                reach: new.reach.max(before.reach),
                is_changed: new.is_changed || before.is_changed,
                ..new
            },
        };
        kept.placed.insert(object, together);
        Ok(())
    }
}

/// What is to be made stable in one batch.
#[derive(Default)]
struct ToKeep {
    /// What the rows of files say of their bytes.
    placed: BTreeMap<ObjectId, Placed>,
    facts: Vec<Fact>,
    /// Files of which the row says everything with that.
    settled: BTreeSet<ObjectId>,
}

impl ToKeep {
    fn is_unsettled(&self, state: &State, file: ObjectId) -> bool {
        state.unsettled.contains(&file) && !self.settled.contains(&file)
    }

    /// Notes whether clients may write to a file past the home, or may have.
    fn mark(&mut self, state: &mut State, file: ObjectId, is_unsettled: bool) {
        if is_unsettled == self.is_unsettled(state, file) {
            return;
        }
        match is_unsettled {
            true => {
                self.settled.remove(&file);
                state.unsettled.insert(file);
            }
            false => {
                self.settled.insert(file);
            }
        }
        self.facts.push(records::unsettled(file, is_unsettled));
    }
}

impl State {
    fn change_intent(
        &mut self,
        number: IntentNumber,
        facts: &mut Vec<Fact>,
        change: impl FnOnce(&mut Owed),
    ) {
        let Some(owed) = self.intents.get_mut(&number) else {
            return;
        };
        change(owed);
        if owed.in_row && owed.owed.is_empty() {
            self.intents.remove(&number);
            facts.push((records::intent_key(number), None));
        } else {
            facts.push(records::intent(owed));
        }
    }
}

/// Until nobody has the driver any more, or nothing can be kept.
async fn run(driver: Weak<Driver>) {
    /// So often it is looked whether anybody has the driver.
    const LOOK: Duration = Duration::from_millis(500);
    while let Some(driver) = driver.upgrade() {
        if let Err(error) = driver.carry_out().await {
            // Data servers go on until their leases have run out; nobody is told that anything was done.
            tracing::error!(%error, "a home cannot keep what it has decided, and decides nothing any more");
            let mut state = driver.state();
            state.failed = true;
            state.waiting.clear();
            return;
        }
        let wait = {
            let (now, state) = (driver.now(), driver.state());
            let next = state.home.next_timer();
            next.map_or(LOOK, |next| {
                Duration::from_micros(next.0.saturating_sub(now.0)).min(LOOK)
            })
        };
        let _woken = tokio::time::timeout(wait, driver.woken.notified()).await;
        let (now, mut state) = (driver.now(), driver.state());
        if state.home.next_timer().is_some_and(|next| next <= now) {
            let commands = state.home.handle_timer(now);
            state.commands.extend(commands);
        }
    }
}

/// Makes a new issue number stable.
async fn next_issue(rows: &PlacedRows) -> Result<IssueNumber> {
    let damaged = || Error::Io("the issue number that a home has kept is damaged".into());
    let last = match rows.facts(records::ISSUE)?.pop() {
        None => 0,
        Some((_, row)) => u64::from_be_bytes(row[..].try_into().map_err(|_| damaged())?),
    };
    let issue = last + 1;
    let fact = (records::ISSUE.to_vec(), Some(issue.to_be_bytes().to_vec()));
    rows.keep(Vec::new(), vec![fact]).await?;
    Ok(IssueNumber(issue))
}

/// The row of a file about which something was intended. Where it is gone, the intent says enough.
fn row_of(
    rows: &PlacedRows,
    owed: &Owed,
    file_row: &impl Fn(ObjectId, &[u8]) -> Result<FileRow>,
) -> Result<FileRow> {
    let contents = owed.intent.contents;
    if let Some(stored) = rows.placement(contents.object)? {
        let row = file_row(contents.object, &stored)?;
        if row.contents == contents {
            return Ok(row);
        }
    }
    Ok(FileRow {
        contents,
        generation: Generation(owed.intent.generation.0.saturating_sub(1)),
        members: owed.owed.iter().copied().collect(),
        size: 0,
        unsettled: false,
    })
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let drawn = getrandom::fill(&mut bytes);
    drawn.map_err(|error| Error::Io(format!("the system gives no random numbers: {error}")))?;
    Ok(bytes)
}
