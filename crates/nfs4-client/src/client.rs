//! A client as a program uses it: one session, and the identity for its calls.
//!
//! What must never enter: single operations of a file system; they are in `calls`.

use std::sync::Arc;

use nfs4::{
    ArgOp4, CompoundRes, DestroyClientidArgs, DestroySessionArgs, NfsStat4, ReclaimCompleteArgs,
    ResOp4,
};
use oncrpc::Credentials;

use crate::error::Error;
use crate::options::{Options, auth_sys};
use crate::session::{Pauses, Session, only};

/// Takes the next result of a [`Results`], which must be of this operation.
macro_rules! take {
    ($results:expr, $op:ident) => {
        match $results.next_result() {
            Some(nfs4::ResOp4::$op(Ok(body))) => body,
            _ => return Err($crate::error::Error::Unexpected(stringify!($op))),
        }
    };
}
pub(crate) use take;

/// A client of one server, connected. Clones share the session.
#[derive(Debug, Clone)]
pub struct Client {
    session: Arc<Session>,
    credentials: Arc<Credentials>,
}

impl Client {
    /// Connects, makes a session, and reports that nothing is reclaimed unless
    /// [`Options::reclaims`] is set.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        let reclaims = options.reclaims;
        let credentials = Arc::new(options.credentials.clone());
        let session = Session::create(options).await?;
        let client = Self {
            session,
            credentials,
        };
        if !reclaims {
            client.reclaim_complete().await?;
        }
        Ok(client)
    }

    /// The same client with calls as another user, by AUTH_SYS. Only the
    /// first sixteen of `groups` count.
    pub fn as_user(&self, uid: u32, gid: u32, groups: &[u32]) -> Self {
        self.with_credentials(auth_sys(uid, gid, groups))
    }

    /// The same client making calls with these credentials.
    pub fn with_credentials(&self, credentials: Credentials) -> Self {
        Self {
            session: Arc::clone(&self.session),
            credentials: Arc::new(credentials),
        }
    }

    /// The session, for tests at a lower level.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The most data that fits into one WRITE and one READ, in bytes.
    pub fn io_max(&self) -> u32 {
        let limits = self.session.limits();
        let message_max = limits.maxrequestsize.min(limits.maxresponsesize);
        let fitting = message_max.saturating_sub(crate::options::HEADERS_MAX);
        fitting.min(self.session.options().io_max).max(1)
    }

    /// Sends these operations and returns all results, including failures, without
    /// that of the SEQUENCE at the front.
    pub async fn compound(&self, ops: Vec<ArgOp4>) -> Result<CompoundRes, Error> {
        let credentials = Arc::clone(&self.credentials);
        self.session.compound(credentials, ops).await
    }

    /// Sends these operations, all of which must succeed. If the server asks to retry later,
    /// the request is repeated within the time limit.
    pub(crate) async fn call(&self, ops: Vec<ArgOp4>) -> Result<Results, Error> {
        let mut pauses = Pauses::within(self.session.options().patience);
        loop {
            let reply = self.compound(ops.clone()).await?;
            if reply.status.is_ok() {
                return Ok(Results(reply.results.into_iter()));
            }
            let comes_back = matches!(reply.status, NfsStat4::Delay | NfsStat4::Grace);
            if comes_back {
                self.session.count_put_off();
            }
            // Operations before the delayed one would be executed again. This is harmless:
            // calls have only one operation with a change, at their end.
            if !comes_back || !pauses.pause().await {
                return Err(failure(reply));
            }
        }
    }

    /// Reports that all state has been reclaimed (RFC 8881, section 18.51). It may be
    /// repeated.
    pub async fn reclaim_complete(&self) -> Result<(), Error> {
        let args = ReclaimCompleteArgs { one_fs: false };
        match self.call(vec![ArgOp4::ReclaimComplete(args)]).await {
            Err(error) if error.status() == Some(NfsStat4::CompleteAlready) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Ends the session and the client at the server, which then forgets all their state. Other
    /// clones of this client cannot be used any more.
    pub async fn leave(self) -> Result<(), Error> {
        let connection = self.session.connection(0).await?;
        let session = DestroySessionArgs {
            sessionid: self.session.id(),
        };
        let client = DestroyClientidArgs {
            clientid: self.session.clientid(),
        };
        let farewells = [
            ArgOp4::DestroySession(session),
            ArgOp4::DestroyClientid(client),
        ];
        // The identity that made the client must end it, whatever user this clone has.
        let credentials = &self.session.options().credentials;
        for farewell in farewells {
            only(connection.compound(credentials, vec![farewell]).await?)?;
        }
        Ok(())
    }
}

/// The error for a reply with a failed operation.
fn failure(reply: CompoundRes) -> Error {
    let op = reply.results.last().map_or(0, ResOp4::opnum);
    let status = reply.status;
    Error::Status { op, status }
}

/// The results of a request that succeeded, to be taken one by one.
#[derive(Debug)]
pub(crate) struct Results(std::vec::IntoIter<ResOp4>);

impl Results {
    /// The next result that has a body; other operations only succeed or fail.
    pub(crate) fn next_result(&mut self) -> Option<ResOp4> {
        self.0.find(|result| !is_bare(result))
    }
}

/// True for results without a body.
fn is_bare(result: &ResOp4) -> bool {
    matches!(
        result,
        ResOp4::Putfh(_)
            | ResOp4::Putrootfh(_)
            | ResOp4::Lookup(_)
            | ResOp4::Savefh(_)
            | ResOp4::Restorefh(_)
    )
}
