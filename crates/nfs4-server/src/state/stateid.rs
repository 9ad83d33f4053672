//! Stateids: the shorthand for opens, locks and layouts (RFC 8881, section 8.2).

use nfs4::{NfsStat4, Stateid4};
use vfs::Share;

use super::client::ClientId;
use super::{FileKey, State};

/// What a stateid in an I/O request stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// One of the special stateids: nothing was opened.
    Anonymous,
    /// The special stateid that asks to bypass locks on READ.
    ReadBypass,
    /// An open, or a lock made under it, with what the open allows.
    Open(Share),
    /// The same for reading, which the open does not allow.
    WriteOnly,
}

/// What a stateid is to be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateidUse {
    /// To read data.
    Read,
    /// To change data or size.
    Write,
}

/// Checks a stateid's sequence number against the current one; zero means "the current one"
/// (RFC 8881, section 8.2.2).
pub(super) fn check_sequence(given: u32, current: u32) -> Result<(), NfsStat4> {
    match given {
        0 => Ok(()),
        _ if given == current => Ok(()),
        _ if given < current => Err(NfsStat4::OldStateid),
        _ => Err(NfsStat4::BadStateid),
    }
}

impl State {
    /// A stateid of an open that an earlier incarnation of the server may have granted; none is good for anything now.
    pub fn bygone_stateid(&mut self) -> Stateid4 {
        self.numbers.bygone_stateid()
    }

    /// Resolves the stateid of a READ, WRITE, SETATTR or similar on `file`.
    ///
    /// # Errors
    /// `BAD_STATEID`, `OLD_STATEID`; `OPENMODE` when the open does not allow the use.
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
        let open_key = match self.locks.get(&key) {
            Some(lock) if lock.client == client => {
                check_sequence(stateid.seqid, lock.seqid)?;
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
            check_sequence(stateid.seqid, open.seqid)?;
        }
        match wanted {
            StateidUse::Write if !open.share.write => Err(NfsStat4::OpenMode),
            StateidUse::Read if !open.share.read => Ok(Resolved::WriteOnly),
            StateidUse::Read | StateidUse::Write => Ok(Resolved::Open(open.share)),
        }
    }

    /// Whether a stateid is good (RFC 8881, section 18.48).
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
            check_sequence(stateid.seqid, seqid)
        });
        outcome.err().unwrap_or(NfsStat4::Ok)
    }
}
