//! How a home starts: with its stored state, under a new issue number.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use control::Moment;
use pool::home::{FileRow, Home, HomeSettings, Owed, Record, Recovered};
use pool::{
    DataServerNumber, Generation, HomeNumber, IntentNumber, IssueNumber, KeyNumber, KeySource,
    PlacementNumber,
};
use store::PlacedRows;
use tokio::sync::Notify;
use vfs::{Error, ObjectId, Result};

use super::{Driver, State, run};
use crate::control::Control;
use crate::layouts::Recalls;
use crate::records;

/// The placement number of files that were never moved.
const FIRST_PLACEMENT: PlacementNumber = PlacementNumber(1);

impl Driver {
    /// Takes up the stored state, under a new issue number.
    pub(crate) async fn start(
        number: HomeNumber,
        settings: HomeSettings,
        servers: impl IntoIterator<Item = DataServerNumber>,
        rows: PlacedRows,
        (control, recalls): (Arc<dyn Control>, Arc<Recalls>),
        file_row: impl Fn(ObjectId, &[u8]) -> Result<FileRow>,
    ) -> Result<Arc<Driver>> {
        let (issue, key) = next_numbers(&rows).await?;
        let present: BTreeSet<DataServerNumber> = servers.into_iter().collect();
        let mut intents = intents_of(&rows, &present).await?;
        let mut known: BTreeMap<_, _> = present.iter().map(|server| (*server, None)).collect();
        for (key, row) in rows.facts(records::SERVERS)? {
            let identity = records::parse_identity(&key, &row);
            let (server, identity) = identity.ok_or_else(|| damaged("what data servers have"))?;
            if let Some(known) = known.get_mut(&server) {
                *known = Some(identity);
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
        let (moves, last_placement) = moves_of(&rows, &file_row)?;
        let mut recovered = Recovered {
            servers: known,
            intents: intents.values().cloned().collect(),
            files: files.into_values().collect(),
            // Issue numbers grow with every start, and no run has 2^32 intents.
            next_intent: issue.0 << 32,
            moves,
        };
        let given_up = recovered.give_moves_up();
        keep_given_up(&rows, &given_up, &mut intents).await?;
        let keys = (key, KeySource::new(random()?));
        let home = Home::new(number, issue, keys, settings, Moment(0), recovered);
        let driver = Arc::new(Driver {
            state: Mutex::new(State {
                home,
                commands: Vec::new(),
                waiting: HashMap::new(),
                next_operation: 0,
                runs: BTreeMap::new(),
                intents,
                unsettled,
                moves: BTreeMap::new(),
                last_placement,
                unkept: HashMap::new(),
                batch: 0,
                switched: 0,
                failed: false,
            }),
            woken: Notify::new(),
            rows,
            control,
            recalls,
            started: Instant::now(),
            keeping: tokio::sync::Mutex::default(),
        });
        tokio::spawn(run(Arc::downgrade(&driver)));
        Ok(driver)
    }
}

/// Whether a home was started on this store before, so that data servers may still owe it work.
///
/// # Errors
/// [`Error::Io`] when this cannot be read.
pub fn was_started(rows: &PlacedRows) -> Result<bool> {
    Ok(!rows.facts(records::ISSUE)?.is_empty())
}

/// Makes a new issue number and the number of a new key stable.
async fn next_numbers(rows: &PlacedRows) -> Result<(IssueNumber, KeyNumber)> {
    let damaged = || damaged("the issue number");
    let last = match rows.facts(records::ISSUE)?.pop() {
        None => 0,
        Some((_, row)) => u64::from_be_bytes(row[..].try_into().map_err(|_| damaged())?),
    };
    let issue = last + 1;
    let newest = match rows.facts(records::KEY)?.pop() {
        // In older versions, the key of each start had the number of its issue.
        None => KeyNumber(last as u32),
        Some((_, row)) => {
            records::parse_key(&row).ok_or_else(|| self::damaged("the number of a key"))?
        }
    };
    let key = newest.next();
    let fact = (records::ISSUE.to_vec(), Some(issue.to_be_bytes().to_vec()));
    rows.keep(Vec::new(), vec![fact, records::key(key)]).await?;
    Ok((IssueNumber(issue), key))
}

fn damaged(what: &str) -> Error {
    Error::Io(format!("{what} that a home has kept is damaged"))
}

/// What data servers still owe. Drops intents that were settled before the home noted it.
async fn intents_of(
    rows: &PlacedRows,
    present: &BTreeSet<DataServerNumber>,
) -> Result<BTreeMap<IntentNumber, Owed>> {
    let (mut intents, mut settled) = (BTreeMap::new(), Vec::new());
    for (key, row) in rows.facts(records::INTENTS)? {
        let mut owed = records::parse_intent(&key, &row).ok_or_else(|| damaged("an intent"))?;
        // Removed servers owe nothing, even if the home stopped before it noted that.
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
    Ok(intents)
}

/// The targets of running moves, and the largest placement number given so far.
fn moves_of(
    rows: &PlacedRows,
    file_row: &impl Fn(ObjectId, &[u8]) -> Result<FileRow>,
) -> Result<(Vec<FileRow>, PlacementNumber)> {
    let mut moves = Vec::new();
    for (key, row) in rows.facts(records::MOVES)? {
        let (object, to) = records::parse_move(&key, &row).ok_or_else(|| damaged("a move"))?;
        moves.push(file_row(object, &to.encode())?);
    }
    let last = match rows.facts(records::PLACEMENTS)?.pop() {
        None => Some(FIRST_PLACEMENT),
        Some((_, row)) => records::parse_placements(&row),
    };
    let last = last.ok_or_else(|| damaged("the number of the last placement"))?;
    Ok((moves, last))
}

/// Makes stable that running moves are given up.
async fn keep_given_up(
    rows: &PlacedRows,
    given_up: &[Record],
    intents: &mut BTreeMap<IntentNumber, Owed>,
) -> Result<()> {
    let mut facts = Vec::new();
    for record in given_up {
        let Record::MoveGivenUp(owed) = record else {
            continue;
        };
        facts.push(records::a_move(owed.intent.contents.object, None));
        if !owed.owed.is_empty() {
            intents.insert(owed.intent.number, owed.clone());
            facts.push(records::intent(owed));
        }
    }
    match facts.is_empty() {
        true => Ok(()),
        false => rows.keep(Vec::new(), facts).await,
    }
}

/// The row of a file with an intent. If the file is gone, the intent alone is enough.
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
