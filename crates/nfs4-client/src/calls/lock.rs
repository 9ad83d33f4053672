//! Byte-range locks. A lock that another owner holds is an answer, not an error.

use bytes::Bytes;
use nfs4::{
    ArgOp4, ExistLockOwner4, Lock4Denied, LockArgs, LockRes, Locker4, LocktArgs, LocktRes,
    LockuArgs, NfsFh4, NfsLockType4, NfsStat4, OpenToLockOwner4, Opnum, ResOp4, StateOwner4,
    Stateid4,
};

use crate::calls::OpenFile;
use crate::client::{Client, take};
use crate::error::Error;
use crate::ops;

/// The locks that one owner holds in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The file.
    pub handle: NfsFh4,
    /// All locks of that owner in it, as one state.
    pub stateid: Stateid4,
}

/// The result of a lock request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockAnswer {
    /// It is held.
    Granted(Held),
    /// This lock conflicts.
    Denied(Lock4Denied),
}

impl Client {
    /// Locks a range for an owner that holds no lock in the file yet. A length of all ones means
    /// "to the end of the file, wherever that will be".
    pub async fn lock(
        &self,
        file: &OpenFile,
        owner: impl Into<Bytes>,
        kind: NfsLockType4,
        offset: u64,
        length: u64,
    ) -> Result<LockAnswer, Error> {
        let locker = Locker4::OpenOwner(OpenToLockOwner4 {
            open_seqid: 0,
            open_stateid: file.stateid,
            lock_seqid: 0,
            lock_owner: state_owner(owner),
        });
        self.lock_by(&file.handle, locker, kind, offset, length)
            .await
    }

    /// Locks one more range for an owner that has locked in the file before.
    pub async fn lock_more(
        &self,
        held: &Held,
        kind: NfsLockType4,
        offset: u64,
        length: u64,
    ) -> Result<LockAnswer, Error> {
        let locker = Locker4::LockOwner(ExistLockOwner4 {
            lock_stateid: held.stateid,
            lock_seqid: 0,
        });
        self.lock_by(&held.handle, locker, kind, offset, length)
            .await
    }

    async fn lock_by(
        &self,
        file: &NfsFh4,
        locker: Locker4,
        locktype: NfsLockType4,
        offset: u64,
        length: u64,
    ) -> Result<LockAnswer, Error> {
        let lock = ArgOp4::Lock(LockArgs {
            locktype,
            reclaim: false,
            offset,
            length,
            locker,
        });
        match self.last_of(vec![ops::putfh(file), lock]).await? {
            ResOp4::Lock(LockRes::Ok(granted)) => Ok(LockAnswer::Granted(Held {
                handle: file.clone(),
                stateid: granted.lock_stateid,
            })),
            ResOp4::Lock(LockRes::Denied(holder)) => Ok(LockAnswer::Denied(holder)),
            other => Err(refused(&other)),
        }
    }

    /// The lock that conflicts with this one, if any.
    pub async fn test_lock(
        &self,
        file: &NfsFh4,
        owner: impl Into<Bytes>,
        locktype: NfsLockType4,
        offset: u64,
        length: u64,
    ) -> Result<Option<Lock4Denied>, Error> {
        let lockt = ArgOp4::Lockt(LocktArgs {
            locktype,
            offset,
            length,
            owner: state_owner(owner),
        });
        match self.last_of(vec![ops::putfh(file), lockt]).await? {
            ResOp4::Lockt(LocktRes::Ok) => Ok(None),
            ResOp4::Lockt(LocktRes::Denied(holder)) => Ok(Some(holder)),
            other => Err(refused(&other)),
        }
    }

    /// Unlocks a range, which may be part of the locked range. The remaining state has a new
    /// stateid.
    pub async fn unlock(&self, held: &Held, offset: u64, length: u64) -> Result<Held, Error> {
        let locku = ArgOp4::Locku(LockuArgs {
            locktype: NfsLockType4::Write,
            seqid: 0,
            lock_stateid: held.stateid,
            offset,
            length,
        });
        let mut results = self.call(vec![ops::putfh(&held.handle), locku]).await?;
        let stateid = take!(results, Locku).lock_stateid;
        Ok(Held {
            handle: held.handle.clone(),
            stateid,
        })
    }

    /// The last result of a request, whatever its status.
    async fn last_of(&self, request: Vec<ArgOp4>) -> Result<ResOp4, Error> {
        let mut reply = self.compound(request).await?;
        reply.results.pop().ok_or(Error::Status {
            op: Opnum::Sequence as u32,
            status: reply.status,
        })
    }
}

/// An owner within this client; the server takes the client from the session.
fn state_owner(owner: impl Into<Bytes>) -> StateOwner4 {
    StateOwner4 {
        clientid: 0,
        owner: owner.into(),
    }
}

fn refused(result: &ResOp4) -> Error {
    match result.status() {
        NfsStat4::Ok => Error::Unexpected("LOCK"),
        status => Error::Status {
            op: result.opnum(),
            status,
        },
    }
}
