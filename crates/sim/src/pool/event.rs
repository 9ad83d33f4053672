//! Who takes part, what is said, and what happens when.

use super::faults::Fault;
use control::Mark;
use pool::data_server::Ticket;
use pool::home::{Holder, Request};
use pool::{ContentsId, HANDLE_BYTES, HomeNumber, Intent, KeyNumber, ToDataServer, ToHome};
use vfs::ObjectId;

/// The only home.
pub(super) const HOME: HomeNumber = HomeNumber(1);

/// Who sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// The metadata server.
    Home,
    /// A data server, by its place.
    Server(usize),
    /// A client, by its place.
    Client(usize),
}

/// The contents of a cell: which write it comes from, and when that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Value {
    pub(super) value: u64,
    pub(super) order: u64,
}

/// What a client asks the home for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wish {
    /// An open that excludes other writers. Answered with the size.
    Lock(ObjectId),
    /// Something that the core does.
    Core(ObjectId, Request),
    /// Gives layout and lock back.
    Close(ObjectId, Holder),
    /// The client lives.
    Renew,
}

/// What the home answers.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Size {
        change: u64,
    },
    Layout(Vec<(usize, [u8; HANDLE_BYTES])>),
    Again,
    Done,
    /// The client has lost what it held.
    Expired,
    Gone,
}

/// What a client wants of a data server, or the home itself.
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
    /// In which run of the data server, and which place the write has among all.
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
    /// The home itself when there is none.
    pub(super) client: Option<usize>,
    pub(super) session: u64,
    pub(super) file: ObjectId,
    pub(super) handle: [u8; HANDLE_BYTES],
    pub(super) io: Io,
    /// When it was sent, among all that happened.
    pub(super) sent: u64,
    /// Which connection it came over.
    pub(super) connection: u64,
    /// Nobody sealed this handle.
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
    /// What a step of a move waits for has come of the core's work, or not.
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
    /// Time for what is done regularly.
    Tick(Node, u64),
    /// The home's disk has what it was given.
    Flush(u64),
    /// A read or write at a data server happens.
    IoEnd(usize, u64, Ticket),
    /// A request is taken from the queue of a data server that has stood still, or was held up on its way.
    Late(usize, u64, IoRequest),
    CarryOut(usize, u64, Intent, KeyNumber),
    MakeStable(usize, u64, u64, ContentsId),
    /// The client has waited long enough for an answer.
    Silence(usize, u64),
    /// The client goes on.
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
