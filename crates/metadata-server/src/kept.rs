//! What a joined metadata server keeps of the home's answers, and what it answers from them without asking.
//!
//! Attributes are kept by object. A name, a page of a directory and a directory's parent lead to objects, and are valid only while the
//! attributes of these objects are kept, too. A missing name is never kept (rule 13).
//!
//! What must never enter: how the home is asked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use control::Moment;
use homes::Copies;
use pool::{LeaseClock, LeaseSettings};
use vfs::permission::{EXECUTE, READ, allows};
use vfs::{
    Attributes, Cookie, Credentials, DirectoryEntry, DirectoryPage, Error, Name, ObjectId, Result,
};

use crate::question::{Answer, News, Question, Reply};

/// At most this many attributes, names and page entries are kept: about 100 MiB if all names are long.
const SIZE_MAX: usize = 1 << 19;
/// The lease is renewed when less than this is left of it.
const RENEWED: Duration = Duration::from_millis(1500);

/// What was asked about an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Attributes,
    Name(Name),
    Parent,
    Page(Cookie, u32),
    Target,
}

/// A kept answer.
enum Value {
    Attributes(Attributes),
    Leads(ObjectId),
    Page(Vec<(Cookie, Name, ObjectId)>, bool),
    Target(Bytes),
}

struct State {
    /// The run of the home that granted the copies. 0: none was met.
    run: u64,
    copies: Copies<Key, Value>,
    /// The copies are valid until then.
    until: Moment,
    /// Something was answered from copies since the last lease came.
    is_used: bool,
}

/// All copies that are kept.
pub(crate) struct Kept {
    now: LeaseClock,
    lease: LeaseSettings,
    state: Mutex<State>,
    asked: AtomicU64,
    answered: AtomicU64,
    taken_back: AtomicU64,
}

/// How a joined metadata server has answered its clients since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Questions to the home, without lease renewals (at most one per second).
    pub asked: u64,
    /// Answers from copies, without a question.
    pub answered: u64,
    /// Objects whose copies the home has invalidated.
    pub taken_back: u64,
    /// Attributes, names and entries kept now.
    pub kept: u64,
}

/// A question that is about to be asked.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    /// The run of the home whose copies are kept.
    pub(crate) keeps: Option<u64>,
    at: Moment,
    /// The key under which the answer may be kept.
    kept: Option<(ObjectId, Key)>,
}

impl Question {
    fn key(&self) -> Option<(ObjectId, Key)> {
        let key = match self {
            Question::Attributes(_) | Question::Open(..) | Question::OpenAgain(..) => {
                Key::Attributes
            }
            Question::Lookup(_, _, name) => Key::Name(name.clone()),
            Question::Parent(..) => Key::Parent,
            Question::ReadDirectory(_, _, after, entries) => Key::Page(*after, *entries),
            Question::ReadLink(..) => Key::Target,
            _ => return None,
        };
        let object = match self {
            Question::Open(_, id, ..) | Question::OpenAgain(_, id, ..) => *id,
            question => question.kept_of()?,
        };
        Some((object, key))
    }
}

impl Kept {
    pub(crate) fn new(now: LeaseClock, lease: LeaseSettings) -> Kept {
        Kept {
            now,
            lease,
            state: Mutex::new(State::of(0)),
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            taken_back: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn metrics(&self) -> Metrics {
        Metrics {
            asked: self.asked.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
            taken_back: self.taken_back.load(Ordering::Relaxed),
            kept: self.state().copies.size() as u64,
        }
    }

    /// A run of the home has begun: copies of another run are dropped.
    pub(crate) fn meet(&self, run: u64) {
        let mut state = self.state();
        if state.run < run {
            *state = State::of(run);
        }
    }

    /// The home invalidates copies.
    pub(crate) fn hear(&self, news: &News) {
        self.meet(news.run);
        let mut state = self.state();
        if state.run == news.run {
            let taken_back = news.told.len() as u64;
            self.taken_back.fetch_add(taken_back, Ordering::Relaxed);
            for (number, object) in &news.told {
                state.copies.told(*number, *object);
            }
        }
    }

    /// Whether the lease of used copies is about to expire, or of other state, as `holds` says.
    pub(crate) fn wants_lease(&self, holds: bool) -> bool {
        let now = (self.now)();
        let state = self.state();
        (state.is_used || holds) && state.until <= now.after(RENEWED)
    }

    pub(crate) fn begin(&self, question: &Question) -> Begun {
        if *question != Question::Lease {
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
        let run = self.state().run;
        Begun {
            keeps: (run > 0).then_some(run),
            at: (self.now)(),
            kept: question.key(),
        }
    }

    /// Keeps what may be kept of a reply.
    pub(crate) fn keep(&self, begun: Begun, reply: &Reply) {
        let mut state = self.state();
        if begun.keeps != Some(state.run) {
            return;
        }
        let has_crossed = state.copies.has_crossed(reply.granted.told);
        if reply.granted.leased {
            let until = self.lease.relied_upon_until(begun.at);
            state.copies.lease(until);
            state.until = state.until.max(until);
            state.is_used = false;
        }
        let (true, Ok(answer)) = (reply.granted.keep && !has_crossed, &reply.answer) else {
            return;
        };
        let Some((object, key)) = begun.kept else {
            return;
        };
        if let Some(directory) = &reply.directory
            && directory.id == object
        {
            state.keep_attributes(directory);
        }
        state.keep(object, key, answer);
    }

    /// Answers from copies, if they are valid.
    fn answer_by_copies<T>(
        &self,
        answer: impl FnOnce(&mut Copies<Key, Value>) -> Option<Result<T>>,
    ) -> Option<Result<T>> {
        let now = (self.now)();
        let mut state = self.state();
        if !state.copies.is_valid(now) {
            return None;
        }
        let answer = answer(&mut state.copies)?;
        state.is_used = true;
        drop(state);
        self.answered.fetch_add(1, Ordering::Relaxed);
        Some(answer)
    }

    pub(crate) fn attributes(&self, id: ObjectId) -> Option<Result<Attributes>> {
        self.answer_by_copies(|copies| Some(Ok(attributes(copies, id)?)))
    }

    pub(crate) fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Option<Result<Attributes>> {
        self.answer_by_copies(|copies| leads_to(copies, who, directory, &Key::Name(name.clone())))
    }

    pub(crate) fn parent(
        &self,
        who: &Credentials,
        directory: ObjectId,
    ) -> Option<Result<Attributes>> {
        self.answer_by_copies(|copies| leads_to(copies, who, directory, &Key::Parent))
    }

    pub(crate) fn read_directory(
        &self,
        who: &Credentials,
        directory: ObjectId,
        after: Cookie,
        entries: u32,
    ) -> Option<Result<DirectoryPage>> {
        self.answer_by_copies(|copies| {
            let found = attributes(copies, directory)?;
            if !allows(who, &found, READ) {
                return Some(Err(Error::AccessDenied));
            }
            let (entries, end) = match copies.get(directory, &Key::Page(after, entries))? {
                Value::Page(entries, end) => (entries.clone(), *end),
                _ => return None,
            };
            let entries = entries.into_iter().map(|(cookie, name, id)| {
                Some(DirectoryEntry {
                    cookie,
                    name,
                    attributes: attributes(copies, id)?,
                })
            });
            let entries = entries.collect::<Option<_>>()?;
            Some(Ok(DirectoryPage {
                entries,
                end,
                ..DirectoryPage::default()
            }))
        })
    }

    pub(crate) fn read_link(&self, id: ObjectId) -> Option<Result<Bytes>> {
        self.answer_by_copies(|copies| match copies.get(id, &Key::Target)? {
            Value::Target(target) => Some(Ok(target.clone())),
            _ => None,
        })
    }
}

fn attributes(copies: &mut Copies<Key, Value>, id: ObjectId) -> Option<Attributes> {
    match copies.get(id, &Key::Attributes)? {
        Value::Attributes(found) => Some(found.clone()),
        _ => None,
    }
}

/// Follows a name in a directory, or the parent link, by the rules of [`vfs::FileSystem::lookup`].
fn leads_to(
    copies: &mut Copies<Key, Value>,
    who: &Credentials,
    directory: ObjectId,
    key: &Key,
) -> Option<Result<Attributes>> {
    let found = attributes(copies, directory)?;
    if !found.is_directory() {
        return Some(Err(Error::NotDirectory));
    }
    if !allows(who, &found, EXECUTE) {
        return Some(Err(Error::AccessDenied));
    }
    let Value::Leads(to) = copies.get(directory, key)? else {
        return None;
    };
    let to = *to;
    Some(Ok(attributes(copies, to)?))
}

impl State {
    /// Starts without copies, for this run of the home.
    fn of(run: u64) -> State {
        State {
            run,
            copies: Copies::new(SIZE_MAX),
            until: Moment::default(),
            is_used: false,
        }
    }

    fn keep_attributes(&mut self, found: &Attributes) {
        let value = Value::Attributes(found.clone());
        self.copies.keep(found.id, Key::Attributes, value, 1);
    }

    fn keep(&mut self, object: ObjectId, key: Key, answer: &Answer) {
        match (&key, answer) {
            (Key::Attributes, Answer::Attributes(found)) if found.id == object => {
                self.keep_attributes(found);
            }
            (Key::Name(_) | Key::Parent, Answer::Attributes(found)) => {
                self.keep_attributes(found);
                self.copies.keep(object, key, Value::Leads(found.id), 1);
            }
            (Key::Page(..), Answer::Page(page)) => {
                let entries = page.entries.iter().map(|entry| {
                    let (name, id) = (entry.name.clone(), entry.attributes.id);
                    self.keep_attributes(&entry.attributes);
                    let named = Key::Name(name.clone());
                    self.copies.keep(object, named, Value::Leads(id), 1);
                    (entry.cookie, name, id)
                });
                let entries: Vec<_> = entries.collect();
                let size = 1 + entries.len();
                let page = Value::Page(entries, page.end);
                self.copies.keep(object, key, page, size);
            }
            (Key::Target, Answer::Bytes(target)) => {
                let size = 1 + target.len() / 256;
                self.copies
                    .keep(object, key, Value::Target(target.clone()), size);
            }
            _ => {}
        }
    }
}
