//! The nodes, their messages, and the events.

use super::faults::Fault;
use control::Mark;
use pool::data_server::Ticket;
use pool::home::{Holder, Request};
use pool::{ContentsId, HANDLE_BYTES, HomeNumber, Intent, KeyNumber, ToDataServer, ToHome};
use vfs::ObjectId;

/// The only home.
pub(super) const HOME: HomeNumber = HomeNumber(1);

/// A node that sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// The metadata server.
    Home,
    /// A data server, by its place.
    Server(usize),
    /// A client, by its place.
    Client(usize),
}

/// The value of a cell: the write it comes from, and when that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Value {
    pub(super) value: u64,
    pub(super) order: u64,
}

/// A client's request to the home.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wish {
    /// An open that excludes other writers. Answered with the size.
    Lock(ObjectId),
    /// A request to the core.
    Core(ObjectId, Request),
    /// Returns layout and lock.
    Close(ObjectId, Holder),
    /// The client is alive.
    Renew,
}

/// An answer of the home.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Size {
        change: u64,
    },
    Layout(Vec<(usize, [u8; HANDLE_BYTES])>),
    Again,
    Done,
    /// The client has lost its locks and layouts.
    Expired,
    Gone,
}

/// A request of a client, or of the home itself, to a data server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Io {
    Read(u64),
    /// Cell, value, and whether it has to be stable.
    Write(u64, u64, bool),
    Commit,
    /// The home copies a cell of a file that is moved.
    Copy(u64, Option<Value>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum IoReply {
    Stale,
    Read(Option<Value>),
    /// The run of the data server, and the place of the write among all writes.
    Written {
        run: u64,
        order: u64,
    },
    Committed {
        run: u64,
    },
}

/// A request to a data server.
#[derive(Clone, Copy, Debug)]
pub(super) struct IoRequest {
    /// Never used twice.
    pub(super) id: u64,
    /// `None`: the home itself.
    pub(super) client: Option<usize>,
    pub(super) session: u64,
    pub(super) file: ObjectId,
    pub(super) handle: [u8; HANDLE_BYTES],
    pub(super) io: Io,
    /// When it was sent, as the number of the event.
    pub(super) sent: u64,
    /// The connection that it came over.
    pub(super) connection: u64,
    /// The handle was never sealed.
    pub(super) forged: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Cargo {
    ToHome(ToHome),
    ToServer(ToDataServer),
    Wish {
        id: u64,
        session: u64,
        wish: Wish,
    },
    Reply {
        id: u64,
        reply: Reply,
    },
    Recall(Holder),
    Io(IoRequest),
    IoReply {
        id: u64,
        reply: IoReply,
    },
    /// The core has finished a step of a move, with success or not.
    MoveGoesOn(u64, bool),
}

/// Lives of both ends: a message does not outlive them.
pub(super) type Lives = (u64, u64);

#[derive(Clone, Debug)]
pub(super) enum Event {
    Deliver {
        from: Node,
        to: Node,
        cargo: Cargo,
        lives: Lives,
    },
    /// The time for regular work.
    Tick(Node, u64),
    /// The home's disk has stored what it got.
    Flush(u64),
    /// A read or write at a data server happens.
    IoEnd(usize, u64, Ticket),
    /// A data server takes a request from its queue after it stood still, or a delayed request arrives.
    Late(usize, u64, IoRequest),
    CarryOut(usize, u64, Intent, KeyNumber),
    MakeStable(usize, u64, u64, ContentsId),
    /// The client has waited long enough for an answer.
    Silence(usize, u64),
    /// The client continues.
    Drive(usize),
    /// A client uses a handle that it should have forgotten.
    Replay(usize),
    Fault(Fault),
    /// A file is to be moved to other data servers: this many of them, from this one on.
    Move(ObjectId, usize, usize),
    Restart(Node),
    Resume(usize),
    Mend(Node, Node),
}

/// Something that waits for the home's disk.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) after: Mark,
    pub(super) to: Node,
    pub(super) cargo: Cargo,
}
