//! Carries out what `pool::home` decides. One lock protects the decisions, and one task makes them stable and passes them on.

mod keeping;
mod starting;

pub use starting::was_started;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use control::{Moment, OperationId};
use pool::home::{Command, FileRow, Holder, Home, Outcome, Owed, Record, Request, ServerView};
use pool::{
    ContentsId, DataServerNumber, Generation, Handle, IntentNumber, Placement, PlacementNumber,
    ToHome,
};
use store::PlacedRows;
use tokio::sync::{Notify, oneshot};
use vfs::{Error, ObjectId, Result};

use crate::control::Control;
use crate::layouts::Recalls;
use crate::records;

/// One run of a home.
pub(crate) struct Driver {
    state: Mutex<State>,
    /// There are new commands, or a timer has changed.
    woken: Notify,
    rows: PlacedRows,
    control: Arc<dyn Control>,
    recalls: Arc<Recalls>,
    started: Instant,
    /// Held from the choice of what to keep until it is stable.
    keeping: tokio::sync::Mutex<()>,
}

struct State {
    home: Home,
    /// Commands that are not carried out yet, in order.
    commands: Vec<Command>,
    /// The caller that waits for each operation.
    waiting: HashMap<OperationId, oneshot::Sender<Outcome>>,
    next_operation: u64,
    /// The last known run of each data server.
    runs: BTreeMap<DataServerNumber, u64>,
    /// The rows of intents, as stored.
    intents: BTreeMap<IntentNumber, Owed>,
    /// Files that clients may write, or may have written, directly at data servers, as stored.
    unsettled: BTreeSet<ObjectId>,
    /// The target placements of running moves.
    moves: BTreeMap<ObjectId, Placement>,
    last_placement: PlacementNumber,
    /// Rows that were decided and are not stable yet, with the batch that will store them.
    unkept: HashMap<ObjectId, (u64, FileRow)>,
    batch: u64,
    /// How often any file has switched its contents.
    switched: u64,
    /// Storing has failed, and nothing can be stored any more.
    failed: bool,
}

impl Driver {
    /// A data server has sent a message. Returns whether it is back after it was away or restarted.
    pub(crate) fn receive(&self, from: DataServerNumber, message: ToHome) -> bool {
        let now = self.now();
        let run = match &message {
            ToHome::LeaseRequest { identity, .. } => Some(identity.run),
            ToHome::Taken { .. } | ToHome::Looked { .. } => None,
        };
        let mut state = self.state();
        let served = state.home.serves(now, from);
        self.bound_clients(&mut state, now);
        let commands = state.home.handle(now, from, message);
        state.take(commands);
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
        state.take(commands);
        drop(state);
        self.woken.notify_one();
    }

    /// An administrator confirms that a data server has the right contents. Returns whether that was in doubt.
    pub(crate) fn readmit(&self, server: DataServerNumber) -> bool {
        let mut state = self.state();
        let commands = state.home.readmit(server);
        let was_doubted = commands.is_some();
        state.take(commands.into_iter().flatten().collect());
        drop(state);
        self.woken.notify_one();
        was_doubted
    }

    /// The data servers, for display.
    pub(crate) fn servers(&self) -> Vec<ServerView> {
        let (now, state) = (self.now(), self.state());
        state.home.servers(now)
    }

    /// How often any file has switched its contents. A row that was read before a switch may be outdated.
    pub(crate) fn switched(&self) -> u64 {
        self.state().switched
    }

    /// Begins a request about a file. It is carried out even if no caller waits for the outcome. `row` was read when [`Driver::switched`]
    /// was `as_of`. `None` if files have switched since and the row may be outdated.
    pub(crate) fn begin(
        &self,
        as_of: u64,
        row: &FileRow,
        request: Request,
    ) -> Result<Option<oneshot::Receiver<Outcome>>> {
        self.call(as_of, row, |home, now, row, operation| {
            home.request(now, row, operation, request)
        })
    }

    /// Begins to move a file, as [`Driver::begin`] does, to a placement that gets its number now. Returns the row of the new contents, and
    /// the outcome: [`Outcome::Done`] when they may be written.
    pub(crate) fn begin_move(
        &self,
        as_of: u64,
        row: &FileRow,
        (placement, members): (Placement, Vec<DataServerNumber>),
    ) -> Result<Option<(FileRow, oneshot::Receiver<Outcome>)>> {
        let object = row.contents.object;
        let number = {
            let mut state = self.state();
            if state.moves.contains_key(&object) {
                return Err(Error::Delay);
            }
            let number = state.next_placement()?;
            let placement = Placement {
                number,
                ..placement
            };
            state.moves.insert(object, placement);
            number
        };
        let to = FileRow {
            contents: ContentsId {
                object,
                placement: number,
            },
            generation: placement.generation,
            members,
            size: 0,
            unsettled: false,
        };
        let begun = self.call(as_of, row, |home, _, row, operation| {
            home.move_file(row, to.clone(), operation)
        });
        if !matches!(begun, Ok(Some(_))) {
            self.state().moves.remove(&object);
        }
        Ok(begun?.map(|begun| (to, begun)))
    }

    /// A placement number that was never used, stably.
    pub(crate) async fn number_placements(&self) -> Result<PlacementNumber> {
        let _keeping = self.keeping.lock().await;
        let number = self.state().next_placement()?;
        let fact = records::placements(number);
        self.rows.keep(Vec::new(), vec![fact]).await?;
        Ok(number)
    }

    fn call(
        &self,
        as_of: u64,
        row: &FileRow,
        call: impl FnOnce(&mut Home, Moment, &FileRow, OperationId) -> Vec<Command>,
    ) -> Result<Option<oneshot::Receiver<Outcome>>> {
        let object = row.contents.object;
        let size = self.rows.size(object)?;
        let (told, outcome) = oneshot::channel();
        {
            let now = self.now();
            let mut state = self.state();
            if state.failed {
                return Err(Error::Io("the home keeps nothing any more".into()));
            }
            let row = match state.unkept.get(&object) {
                Some((_, row)) => row,
                None if state.switched != as_of => return Ok(None),
                None => row,
            };
            let row = FileRow {
                size: size.unwrap_or_default(),
                unsettled: state.unsettled.contains(&object),
                ..row.clone()
            };
            let operation = OperationId(state.next_operation);
            state.next_operation += 1;
            state.waiting.insert(operation, told);
            self.bound_clients(&mut state, now);
            let commands = call(&mut state.home, now, &row, operation);
            state.take(commands);
        }
        self.woken.notify_one();
        Ok(Some(outcome))
    }

    /// Looks up, whenever it matters, how long other servers leave the files alone: this clock may stand still while theirs continue.
    fn bound_clients(&self, state: &mut State, now: Moment) {
        let until = now.after(self.control.clients_left());
        state.home.bound_clients(until);
    }

    /// The files for which clients have layouts.
    pub(crate) fn held(&self) -> Vec<ObjectId> {
        self.state().home.held()
    }

    /// Returns when no data server serves by a lease of an earlier run any more.
    pub(crate) async fn earlier_over(&self) {
        let over = self.state().home.earlier_over();
        let left = over.0.saturating_sub(self.now().0);
        tokio::time::sleep(Duration::from_micros(left)).await;
    }

    /// Contents that are being decided or stored, and that rows may not name yet.
    pub(crate) fn concerned(&self) -> BTreeSet<ContentsId> {
        let state = self.state();
        let mut concerned = state.home.concerned();
        concerned.extend(state.unkept.values().map(|(_, row)| row.contents));
        concerned.extend(state.intents.values().map(|owed| owed.intent.contents));
        concerned.extend(state.moves.iter().map(|(object, to)| ContentsId {
            object: *object,
            placement: to.number,
        }));
        concerned
    }

    /// Whether a data server serves for this home.
    pub(crate) fn serves(&self, server: DataServerNumber) -> bool {
        let (now, state) = (self.now(), self.state());
        state.home.serves(now, server)
    }

    /// Removes contents that belong to nothing.
    pub(crate) fn sweep(
        &self,
        server: DataServerNumber,
        contents: ContentsId,
        generation: Generation,
    ) {
        let mut state = self.state();
        let commands = state.home.sweep(server, contents, generation);
        state.take(commands);
        drop(state);
        self.woken.notify_one();
    }

    /// Whether a file may be longer and newer than its row says.
    pub(crate) fn is_unsettled(&self, file: ObjectId) -> bool {
        self.state().unsettled.contains(&file)
    }

    /// Whether any client may write to a file directly at data servers; with a holder, whether this one may.
    pub(crate) fn is_written(&self, file: ObjectId, by: Option<Holder>) -> bool {
        self.state().home.is_written(file, by)
    }

    /// The handle for one of a file's data servers. `None` while the server may not serve for this home.
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

    /// Carries out all decisions so far. Records become stable before the commands that depend on them.
    async fn carry_out(&self) -> Result<()> {
        let keeping = self.keeping.lock().await;
        let (commands, kept, batch) = {
            let mut state = self.state();
            let commands = std::mem::take(&mut state.commands);
            let kept = self.to_keep(&mut state, &commands)?;
            let batch = state.batch;
            state.batch += 1;
            (commands, kept, batch)
        };
        if !kept.placed.is_empty() || !kept.facts.is_empty() {
            let placed = kept.placed.into_values().collect();
            self.rows.keep(placed, kept.facts).await?;
            // Not earlier: a caller that finds a file settled relies on its row.
            let unsettled = &mut self.state().unsettled;
            unsettled.retain(|file| !kept.settled.contains(file));
        }
        drop(keeping);
        self.state().unkept.retain(|_, (with, _)| *with > batch);
        for command in commands {
            match command {
                Command::Persist(_) => {}
                Command::Send { to, message, .. } => self.control.send(to, message),
                Command::Answer {
                    operation, outcome, ..
                } => {
                    let waiting = self.state().waiting.remove(&operation);
                    if let Some(waiting) = waiting {
                        // The caller may have gone.
                        let _gone = waiting.send(outcome);
                    }
                }
                Command::Recall(_, holder) => self.recalls.recall(holder),
            }
        }
        Ok(())
    }
}

impl State {
    /// A number that no placement has had.
    fn next_placement(&mut self) -> Result<PlacementNumber> {
        let number = self.last_placement.0.checked_add(1);
        let number = number.ok_or(Error::Invalid("no placement has a number any more"))?;
        self.last_placement = PlacementNumber(number);
        Ok(self.last_placement)
    }

    /// Takes over the home's commands.
    fn take(&mut self, commands: Vec<Command>) {
        for command in &commands {
            match command {
                Command::Persist(Record::Row { row, .. }) => self.note_row(row),
                Command::Persist(Record::Moved { row, .. }) => {
                    self.note_row(row);
                    self.switched += 1;
                }
                Command::Persist(Record::Gone(object, _)) => {
                    self.unkept.remove(object);
                }
                _ => {}
            }
        }
        self.commands.extend(commands);
    }

    fn note_row(&mut self, row: &FileRow) {
        let noted = (self.batch, row.clone());
        self.unkept.insert(row.contents.object, noted);
    }
}

/// Runs until the driver is dropped, or storing fails.
async fn run(driver: Weak<Driver>) {
    /// How often to check whether the driver is still in use.
    const LOOK: Duration = Duration::from_millis(500);
    while let Some(driver) = driver.upgrade() {
        if let Err(error) = driver.carry_out().await {
            // Data servers continue until their leases expire. No caller is told that anything was done.
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
            state.take(commands);
        }
    }
}
