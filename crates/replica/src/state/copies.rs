//! Copies that are being sent to others: all rows of one moment. A copy is kept for a while when a connection is lost, so that a large copy can
//! continue.
//!
//! What must never enter: which replica gets a copy, and connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use store::{BasePlace, BaseScan, RowChange, RowSubject, Store};
use tokio::time::Instant;
use vfs::{ReplicaSlot, Result};

use crate::state::locks::{Table, TableGuard};

/// The fact that says up to where updates were removed.
pub(crate) const TRIMMED: &[u8] = b"trimmed";

/// How long a copy is kept while it is not being sent. It holds back the removal of old rows.
const KEPT: Duration = Duration::from_secs(600);

/// How much of the tree this replica holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    /// Nothing but the root.
    Nothing,
    /// All rows, but not all contents.
    Rows,
    /// Everything; for a witness, everything that it keeps.
    Everything,
}

impl Held {
    /// From its number in a greeting; an unknown number counts as nothing.
    pub(crate) fn from_number(number: u8) -> Held {
        match number {
            1 => Held::Rows,
            2 => Held::Everything,
            _ => Held::Nothing,
        }
    }
}

/// Copies by receiver, one each.
#[derive(Default)]
pub(crate) struct Copies(Table<All>);

#[derive(Default)]
struct All {
    begun: u64,
    copies: BTreeMap<ReplicaSlot, Copy>,
}

struct Copy {
    number: u64,
    settlements: u64,
    scan: BaseScan,
    /// Where each page begins, and how many objects precede it; the last page is not read yet.
    places: Vec<(BasePlace, u64)>,
    /// The attempt that sends it.
    sender: Weak<()>,
    used: Instant,
}

/// An attempt to send a copy, from some page on.
#[derive(Debug)]
pub(crate) struct Attempt {
    to: ReplicaSlot,
    token: Arc<()>,
    /// The number of the copy.
    pub(crate) copy: u64,
    /// How many settlements it has gone through.
    pub(crate) settlements: u64,
    /// How many pages were sent before.
    pub(crate) pages: u64,
    /// And how many objects were in them.
    pub(crate) objects: u64,
}

/// What to send next.
pub(crate) enum Next {
    /// These rows, and how many objects they belong to.
    Rows { rows: Vec<RowChange>, objects: u64 },
    /// Those were all; the streams continue behind these positions.
    Rest(Vec<(ReplicaSlot, u64)>),
    /// Nothing: another attempt has replaced this one.
    Replaced,
}

impl Copies {
    fn all(&self) -> TableGuard<'_, All> {
        self.0.lock()
    }

    /// Begins a copy, which has gone through this many settlements; an earlier one for the same replica is forgotten.
    pub(crate) fn begin(&self, to: ReplicaSlot, scan: BaseScan, settlements: u64) -> Attempt {
        let mut all = self.all();
        all.begun += 1;
        let number = all.begun;
        let places = vec![(scan.place(), 0)];
        let copy = Copy {
            number,
            settlements,
            scan,
            places,
            sender: Weak::new(),
            used: Instant::now(),
        };
        all.copies
            .entry(to)
            .insert_entry(copy)
            .get_mut()
            .attempt(to)
    }

    /// Continues a copy of which `pages` pages have arrived, if it is kept.
    pub(crate) fn go_on(&self, to: ReplicaSlot, number: u64, pages: u64) -> Option<Attempt> {
        let mut all = self.all();
        let copy = all
            .copies
            .get_mut(&to)
            .filter(|copy| copy.number == number)?;
        let last = usize::try_from(pages).ok()?;
        let (place, _) = copy.places.get(last)?.clone();
        copy.places.truncate(last + 1);
        copy.scan.go_to(place);
        Some(copy.attempt(to))
    }

    /// The next page, of about `max_bytes` bytes.
    pub(crate) fn next(&self, attempt: &Attempt, max_bytes: usize) -> Result<Next> {
        let mut all = self.all();
        let sender = Arc::as_ptr(&attempt.token);
        let copy = all.copies.get_mut(&attempt.to);
        let Some(copy) = copy.filter(|copy| copy.sender.as_ptr() == sender) else {
            return Ok(Next::Replaced);
        };
        copy.used = Instant::now();
        let rows = copy.scan.next_page(max_bytes)?;
        if rows.is_empty() {
            return Ok(Next::Rest(copy.scan.positions.clone()));
        }
        let is_object = |row: &&RowChange| matches!(row.subject(), Some(RowSubject::Object(_)));
        let objects = rows.iter().filter(is_object).count() as u64;
        let before = copy.objects();
        copy.places.push((copy.scan.place(), before + objects));
        Ok(Next::Rows { rows, objects })
    }

    /// A replica has all rows.
    pub(crate) fn end(&self, to: ReplicaSlot) {
        self.all().copies.remove(&to);
    }

    /// Ends all copies.
    pub(crate) fn end_all(&self) {
        self.all().copies.clear();
    }

    /// Drops copies whose receivers have not come back.
    pub(crate) fn forget_unused(&self, now: Instant) {
        let is_used =
            |copy: &Copy| copy.sender.strong_count() > 0 || now.duration_since(copy.used) < KEPT;
        self.all().copies.retain(|_, copy| is_used(copy));
    }
}

impl Copy {
    fn objects(&self) -> u64 {
        self.places.last().map_or(0, |(_, objects)| *objects)
    }

    fn attempt(&mut self, to: ReplicaSlot) -> Attempt {
        let token = Arc::new(());
        self.sender = Arc::downgrade(&token);
        self.used = Instant::now();
        Attempt {
            to,
            token,
            copy: self.number,
            settlements: self.settlements,
            pages: self.places.len() as u64 - 1,
            objects: self.objects(),
        }
    }
}

/// The last record that is no longer kept, as noted by a store.
pub(crate) fn trimmed_before(store: &Store) -> Result<u64> {
    let facts = store.facts(TRIMMED)?;
    let noted = facts.first();
    let noted = noted.and_then(|(_, value)| value.first_chunk::<8>());
    Ok(noted.map_or(0, |noted| u64::from_be_bytes(*noted)))
}
