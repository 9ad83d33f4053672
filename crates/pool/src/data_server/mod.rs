//! One data server: whether a request with a handle may be carried out now, and the requests of homes.
//!
//! The caller has the contents and a clock; [`Shelf`] gives facts about the contents. Each read or write is one step between
//! [`DataServer::begin`] and [`DataServer::finish`]. A home's request about contents waits for the steps that have begun.

mod admission;
mod requests;

pub use admission::{NotServed, Ticket};

use crate::handle::Access;
use crate::keys::HandleKeys;
use crate::lease::LeaseSettings;
use crate::message::{
    ContentsId, Intent, IntentNumber, Report, StoreIdentity, ToDataServer, ToHome,
};
use crate::numbers::{DataServerNumber, Generation, HomeNumber, IssueNumber, KeyNumber};
use crate::rules::Rules;
use control::Moment;
use requests::Waiting;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a data server stores, as far as decisions need it.
pub trait Shelf {
    /// The stable generation of some contents; `None`: the contents never existed, or were never fenced.
    fn fenced(&self, contents: ContentsId) -> Option<Fenced>;
    /// The state of some contents.
    fn report(&self, contents: ContentsId) -> Report;
}

/// The generation of some contents, kept stably beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fenced {
    /// Handles of another generation are not valid.
    pub generation: Generation,
    /// The last intent that was carried out.
    pub through: IntentNumber,
    /// The contents are gone.
    pub removed: bool,
}

/// What the data server asks its caller to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send a message to a home.
    Send(HomeNumber, ToHome),
    /// Carry an intent out, with its generation and all earlier writes, in one stable step; then call
    /// [`DataServer::carried_out`]. Removed contents leave a tombstone, which stays until [`Command::Forget`] names a later key than this one.
    CarryOut(HomeNumber, Intent, KeyNumber),
    /// No older key of this home counts any more, and the tombstones of such keys may be removed.
    Forget(HomeNumber, KeyNumber),
    /// Make contents stable, then call [`DataServer::made_stable`].
    MakeStable(HomeNumber, u64, ContentsId),
    /// Close every client connection before another request begins. Requests on them were received before a gap between leases, and their
    /// clients may have continued at another server.
    DropConnections,
}

/// What a data server knows of a home.
#[derive(Clone, Debug)]
struct HomeSide {
    issue: IssueNumber,
    keys: HandleKeys,
    /// When the first lease after the last gap came.
    leased_since: Moment,
    lease_until: Moment,
    /// Handles of clients count until then, at most as long as the lease.
    clients_until: Moment,
}

/// One run of a data server.
#[derive(Clone, Debug)]
pub struct DataServer {
    number: DataServerNumber,
    lease: LeaseSettings,
    rules: Rules,
    homes: BTreeMap<HomeNumber, HomeSide>,
    /// When this run has asked each home, as long as an answer can still give a lease.
    asked: BTreeMap<HomeNumber, BTreeSet<Moment>>,
    /// Reads and writes that have begun.
    begun: BTreeMap<Ticket, (HomeNumber, ContentsId, Access)>,
    next_ticket: u64,
    /// The requests that wait for them, in order.
    waiting: VecDeque<Waiting>,
}

impl DataServer {
    /// A data server that starts has no lease.
    #[must_use]
    pub fn new(number: DataServerNumber, lease: LeaseSettings, rules: Rules) -> DataServer {
        DataServer {
            number,
            lease,
            rules,
            homes: BTreeMap::new(),
            asked: BTreeMap::new(),
            begun: BTreeMap::new(),
            next_ticket: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Asks a home for a lease. The counter of `identity` includes, stably, the start of this run, and the earlier question if that was
    /// answered.
    pub fn ask(&mut self, now: Moment, home: HomeNumber, identity: StoreIdentity) -> Command {
        let asked = self.asked.entry(home).or_default();
        asked.insert(now);
        *asked = asked.split_off(&now.before(self.lease.length));
        let ask = ToHome::LeaseRequest {
            asked: now,
            identity,
        };
        Command::Send(home, ask)
    }

    /// A home has sent a message.
    pub fn handle(
        &mut self,
        now: Moment,
        shelf: &impl Shelf,
        home: HomeNumber,
        message: ToDataServer,
    ) -> Vec<Command> {
        let about = message.contents();
        if about.is_some_and(|contents| !home.may_speak_of(contents.object)) {
            return Vec::new();
        }
        match message {
            ToDataServer::Lease {
                asked,
                issue,
                keys,
                clients,
            } => self.take_lease(now, home, (asked, clients), (issue, keys)),
            ToDataServer::Take(intent, key) => self.take_intent(shelf, home, (intent, key)),
            ToDataServer::Look {
                issue,
                question,
                contents,
                stable,
            } => self.look(shelf, home, issue, (question, contents, stable)),
        }
    }
}
