//! Stateids: the identifiers of opens, locks and layouts (RFC 8881, section 8.2).

use nfs4::{NfsStat4, Stateid4};
use vfs::Share;

use super::client::ClientId;
use super::{FileKey, State};

/// The meaning of a stateid in an I/O request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// One of the special stateids, without an open.
    Anonymous,
    /// The special stateid that bypasses locks on READ.
    ReadBypass,
    /// An open that allows the use, or a lock under one: the key of the open.
    Open(u64),
    /// The same for a read that the open does not allow.
    WriteOnly,
}

/// The intended use of a stateid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateidUse {
    /// To read data.
    Read,
    /// To change data or size.
    Write,
}

impl StateidUse {
    pub(super) fn is_allowed_by(self, share: Share) -> bool {
        match self {
            StateidUse::Read => share.read,
            StateidUse::Write => share.write,
        }
    }
}

/// The sequence number of a stateid: the number of changes of its state, from one (RFC 8881, section 8.2.2). On the
/// wire it wraps from the largest value to one, because zero means "the current one".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seqid(pub(super) u64);

/// The number of different sequence numbers on the wire.
const SEQIDS: u64 = u32::MAX as u64;

impl Seqid {
    /// For a layout state without a layout. It is never sent.
    pub(super) const NONE: Seqid = Seqid(0);
    pub(super) const FIRST: Seqid = Seqid(1);

    #[must_use]
    pub(super) fn next(self) -> Seqid {
        Seqid(self.0 + 1)
    }

    /// The value on the wire.
    pub(super) fn wire(self) -> u32 {
        match self.0 {
            0 => 0,
            // It fits: at most 2^32 - 1.
            count => ((count - 1) % SEQIDS + 1) as u32,
        }
    }

    /// The number so far that had this wire value. A value less than half of the range ahead is in the future, and was never sent.
    pub(super) fn find(self, given: u32) -> Option<Seqid> {
        if given == 0 || self == Seqid::NONE {
            return None;
        }
        let (given, current) = (u64::from(given), u64::from(self.wire()));
        let back = (current + SEQIDS - given) % SEQIDS;
        let is_past = back <= SEQIDS / 2;
        self.0
            .checked_sub(back)
            .filter(|count| is_past && *count > 0)
            .map(Seqid)
    }

    /// Checks a client's value against the current one.
    ///
    /// # Errors
    /// `OLD_STATEID` for an earlier value, `BAD_STATEID` for one that was never used.
    pub(super) fn check(self, given: u32) -> Result<(), NfsStat4> {
        match self.find(given) {
            _ if given == 0 => Ok(()),
            Some(found) if found == self => Ok(()),
            Some(_) => Err(NfsStat4::OldStateid),
            None => Err(NfsStat4::BadStateid),
        }
    }
}

impl State {
    /// The stateid of an open as an earlier incarnation of the server may have granted it. It is never valid now.
    pub fn bygone_stateid(&mut self) -> Stateid4 {
        self.numbers.bygone_stateid()
    }

    /// Resolves the stateid of a READ, WRITE, SETATTR or similar on `file`.
    ///
    /// # Errors
    /// `BAD_STATEID`, `OLD_STATEID`; `OPENMODE` when the open does not allow the use; `STALE_CLIENTID` when the client is gone.
    pub fn resolve_for_io(
        &self,
        client: ClientId,
        stateid: &Stateid4,
        file: FileKey,
        wanted: StateidUse,
    ) -> Result<Resolved, NfsStat4> {
        if *stateid == Stateid4::ANONYMOUS {
            return Ok(Resolved::Anonymous);
        }
        if *stateid == Stateid4::READ_BYPASS {
            return Ok(Resolved::ReadBypass);
        }
        let key = self.numbers.state_of(stateid)?;
        // Checked first: the state of a client that has gone may soon belong to another client.
        self.confirmed(client)?;
        let open_key = match self.locks.get(&key) {
            Some(lock) if lock.client == client => {
                lock.seqid.check(stateid.seqid)?;
                lock.open
            }
            Some(_) => return Err(NfsStat4::BadStateid),
            None => key,
        };
        let open = self.opens.get(&open_key).ok_or(NfsStat4::BadStateid)?;
        if open.client != client || open.file != file {
            return Err(NfsStat4::BadStateid);
        }
        if open_key == key {
            open.seqid.check(stateid.seqid)?;
        }
        match wanted {
            StateidUse::Write if !open.share.write => Err(NfsStat4::OpenMode),
            StateidUse::Read if !open.share.read => Ok(Resolved::WriteOnly),
            StateidUse::Read | StateidUse::Write => Ok(Resolved::Open(open_key)),
        }
    }

    /// Whether a stateid is valid (RFC 8881, section 18.48).
    #[must_use]
    pub fn test_stateid(&self, client: ClientId, stateid: &Stateid4) -> NfsStat4 {
        let outcome = self.numbers.state_of(stateid).and_then(|key| {
            let (owner, seqid) = match (self.opens.get(&key), self.locks.get(&key)) {
                (Some(open), _) => (open.client, open.seqid),
                (None, Some(lock)) => (lock.client, lock.seqid),
                (None, None) => self.layout_seqid(key).ok_or(NfsStat4::BadStateid)?,
            };
            if owner != client {
                return Err(NfsStat4::BadStateid);
            }
            seqid.check(stateid.seqid)
        });
        outcome.err().unwrap_or(NfsStat4::Ok)
    }
}
