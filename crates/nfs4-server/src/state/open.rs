//! Open files and byte-range lock states (RFC 8881, sections 9.1, 9.4 and 9.7 to 9.11).
//!
//! The file system boundary decides which bytes are locked, and which shares conflict. This module knows which stateid
//! belongs to which owner and file.

use std::collections::HashSet;
use std::sync::Arc;

use nfs4::{NfsStat4, Stateid4};
use vfs::{LockOwner, OpenOwner, Share};

use super::client::ClientId;
use super::stateid::{Seqid, StateidUse};
use super::{FileKey, Release, State, StateKind};

#[derive(Debug)]
pub(super) struct Open {
    pub(super) seqid: Seqid,
    pub(super) client: ClientId,
    owner: Arc<[u8]>,
    pub(super) file: FileKey,
    pub(super) share: Share,
    /// Every requested share; OPEN_DOWNGRADE may return to these.
    granted: Vec<Share>,
    locks: HashSet<u64>,
    uses: Uses,
    /// While it is being closed or downgraded: what it allows afterwards.
    left: Option<Share>,
}

/// The number of running requests on data under an open.
#[derive(Debug, Default)]
struct Uses {
    reads: usize,
    writes: usize,
}

impl Uses {
    fn of(&mut self, wanted: StateidUse) -> &mut usize {
        match wanted {
            StateidUse::Read => &mut self.reads,
            StateidUse::Write => &mut self.writes,
        }
    }
}

#[derive(Debug)]
pub(super) struct Lock {
    pub(super) seqid: Seqid,
    pub(super) client: ClientId,
    owner: Arc<[u8]>,
    file: FileKey,
    /// The open under which the lock was made.
    pub(super) open: u64,
}

/// An open that was recorded in the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenGrant {
    /// The stateid, with its new sequence number.
    pub stateid: Stateid4,
}

/// An open that a request names by its stateid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    key: u64,
    /// The owner's name for the file system.
    pub owner: OpenOwner,
    /// What the open allows and denies.
    pub share: Share,
}

/// A lock state that a request names, or that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockGrant {
    open: u64,
    /// The lock-owner's string within its client.
    name: Arc<[u8]>,
    /// The owner's name for the file system.
    pub owner: LockOwner,
    /// The share of the open under the lock.
    pub share: Share,
}

impl OpenFile {
    pub(super) fn key(&self) -> u64 {
        self.key
    }
}

impl State {
    /// The file system's name for a client's open-owner.
    ///
    /// # Errors
    /// `STALE_CLIENTID` when the client is gone.
    pub fn open_owner(&self, client: ClientId, owner: &[u8]) -> Result<OpenOwner, NfsStat4> {
        Ok(OpenOwner::new(&self.confirmed(client)?.name, owner))
    }

    /// The file system's name for a client's lock-owner.
    ///
    /// # Errors
    /// `STALE_CLIENTID` when the client is gone.
    pub fn lock_owner(&self, client: ClientId, owner: &[u8]) -> Result<LockOwner, NfsStat4> {
        let client = self.confirmed(client)?.name.clone();
        Ok(LockOwner {
            client,
            owner: Arc::from(owner),
        })
    }

    /// Records an open that the file system granted, or adds to an existing open of the owner.
    ///
    /// # Errors
    /// `STALE_CLIENTID` when the client is gone in the meantime, `SERVERFAULT` when it has too many opens, `DELAY` when
    /// all clients together have too many. The caller then closes the file again.
    pub fn record_open(
        &mut self,
        client: ClientId,
        owner: &[u8],
        file: FileKey,
        share: Share,
    ) -> Result<OpenGrant, NfsStat4> {
        let record = self.clients.get(&client).ok_or(NfsStat4::StaleClientid)?;
        let index = (client, Arc::from(owner), file);
        if let Some(key) = self.open_index.get(&index).copied()
            && let Some(open) = self.opens.get_mut(&key)
        {
            open.seqid = open.seqid.next();
            open.share = open.share.union(share);
            if !open.granted.contains(&share) {
                open.granted.push(share);
            }
            return Ok(OpenGrant {
                stateid: self.numbers.stateid(key, open.seqid),
            });
        }
        if record.is_full_of(StateKind::Open, self.limits.states_per_client) {
            return Err(NfsStat4::ServerFault);
        }
        self.memory.add_state(owner, &self.limits)?;
        let key = self.numbers.next_state();
        let open = Open {
            seqid: Seqid::FIRST,
            client,
            owner: index.1.clone(),
            file,
            share,
            granted: vec![share],
            locks: HashSet::new(),
            uses: Uses::default(),
            left: None,
        };
        self.opens.insert(key, open);
        self.layouts.opened(client, file, key);
        self.open_index.insert(index, key);
        if let Some(record) = self.clients.get_mut(&client) {
            record.opens.insert(key);
        }
        Ok(OpenGrant {
            stateid: self.numbers.stateid(key, Seqid::FIRST),
        })
    }

    /// The owner's existing share of a file.
    #[must_use]
    pub fn existing_share(&self, client: ClientId, owner: &[u8], file: FileKey) -> Option<Share> {
        let key = self.open_index.get(&(client, Arc::from(owner), file))?;
        self.opens.get(key).map(|open| open.share)
    }

    /// Finds the open that a stateid names.
    ///
    /// # Errors
    /// `BAD_STATEID`, `OLD_STATEID`.
    pub fn open_file(
        &self,
        client: ClientId,
        stateid: &Stateid4,
        file: FileKey,
    ) -> Result<OpenFile, NfsStat4> {
        let key = self.numbers.state_of(stateid)?;
        let open = self.opens.get(&key).ok_or(NfsStat4::BadStateid)?;
        if open.client != client || open.file != file {
            return Err(NfsStat4::BadStateid);
        }
        open.seqid.check(stateid.seqid)?;
        let record = self.confirmed(client)?;
        let owner = OpenOwner::new(&record.name, &open.owner);
        Ok(OpenFile {
            key,
            owner,
            share: open.share,
        })
    }

    /// Begins a request on data under the open with this key. [`State::end_use`] must follow.
    ///
    /// # Errors
    /// `DELAY` while the open is being closed, or downgraded to one that does not allow the request.
    pub fn begin_use(&mut self, key: u64, wanted: StateidUse) -> Result<(), NfsStat4> {
        let open = self.opens.get_mut(&key).ok_or(NfsStat4::BadStateid)?;
        if open.left.is_some_and(|left| !wanted.is_allowed_by(left)) {
            return Err(NfsStat4::Delay);
        }
        *open.uses.of(wanted) += 1;
        Ok(())
    }

    /// Ends such a request. Returns whether another task may wait for that.
    pub fn end_use(&mut self, key: u64, wanted: StateidUse) -> bool {
        let Some(open) = self.opens.get_mut(&key) else {
            return false;
        };
        let uses = open.uses.of(wanted);
        *uses = uses.saturating_sub(1);
        open.left.is_some()
    }

    /// Prevents new requests on data under an open that `left` does not allow; `None` ends that.
    pub fn leave(&mut self, open: &OpenFile, left: Option<Share>) {
        if let Some(open) = self.opens.get_mut(&open.key) {
            open.left = left;
        }
    }

    /// Whether requests on data are running under an open that `left` does not allow.
    #[must_use]
    pub fn is_used_beyond(&self, open: &OpenFile, left: Share) -> bool {
        (self.opens.get(&open.key)).is_some_and(|open| {
            (open.uses.reads > 0 && !left.read) || (open.uses.writes > 0 && !left.write)
        })
    }

    /// Whether OPEN_DOWNGRADE may change to `share` (RFC 8881, section 18.18.3): it must be the union of shares that
    /// were opened.
    #[must_use]
    pub fn may_downgrade(&self, open: &OpenFile, share: Share) -> bool {
        let Some(open) = self.opens.get(&open.key) else {
            return false;
        };
        let within = |granted: &&Share| granted.union(share) == share;
        let union = open
            .granted
            .iter()
            .filter(within)
            .copied()
            .reduce(Share::union);
        union == Some(share)
    }

    /// Records a downgrade that the file system executed.
    ///
    /// # Errors
    /// `BAD_STATEID` when the open is gone in the meantime.
    pub fn record_downgrade(
        &mut self,
        open: &OpenFile,
        share: Share,
    ) -> Result<Stateid4, NfsStat4> {
        let entry = self.opens.get_mut(&open.key).ok_or(NfsStat4::BadStateid)?;
        entry.seqid = entry.seqid.next();
        entry.share = share;
        entry
            .granted
            .retain(|granted| granted.union(share) == share);
        Ok(self.numbers.stateid(open.key, entry.seqid))
    }

    /// Removes an open that the file system has closed from the tables. Returns what else must be released: the locks
    /// under the open.
    pub fn remove_open(&mut self, open: &OpenFile) -> Vec<Release> {
        let Some(entry) = self.opens.get(&open.key) else {
            return Vec::new();
        };
        let Some(name) = self.client_name(entry.client) else {
            return Vec::new();
        };
        let mut releases = self.forget_open(open.key, &name);
        releases.retain(|release| !matches!(release, Release::Open(..)));
        releases
    }

    /// Finds the lock state of an owner that locks for the first time under an open.
    ///
    /// # Errors
    /// Those of [`State::open_file`].
    pub fn first_lock(
        &self,
        client: ClientId,
        open_stateid: &Stateid4,
        lock_owner: &[u8],
        file: FileKey,
    ) -> Result<LockGrant, NfsStat4> {
        let open = self.open_file(client, open_stateid, file)?;
        Ok(LockGrant {
            open: open.key,
            name: Arc::from(lock_owner),
            owner: self.lock_owner(client, lock_owner)?,
            share: open.share,
        })
    }

    /// Whether the owner already has a lock state of the file.
    #[must_use]
    pub fn has_lock_state(&self, client: ClientId, grant: &LockGrant, file: FileKey) -> bool {
        let index = (client, grant.name.clone(), file);
        self.lock_index.contains_key(&index)
    }

    /// Finds the lock state that a stateid names.
    ///
    /// # Errors
    /// `BAD_STATEID`, `OLD_STATEID`.
    pub fn known_lock(
        &self,
        client: ClientId,
        stateid: &Stateid4,
        file: FileKey,
    ) -> Result<LockGrant, NfsStat4> {
        let key = self.numbers.state_of(stateid)?;
        let lock = self.locks.get(&key).ok_or(NfsStat4::BadStateid)?;
        if lock.client != client || lock.file != file {
            return Err(NfsStat4::BadStateid);
        }
        lock.seqid.check(stateid.seqid)?;
        let open = self.opens.get(&lock.open).ok_or(NfsStat4::BadStateid)?;
        Ok(LockGrant {
            open: lock.open,
            name: lock.owner.clone(),
            owner: self.lock_owner(client, &lock.owner)?,
            share: open.share,
        })
    }

    /// Records a lock, or a change of one, that the file system executed.
    ///
    /// # Errors
    /// `STALE_CLIENTID` when the client is gone in the meantime, `BAD_STATEID` when the open is, `DELAY` when there is
    /// no space for more. The caller then unlocks again.
    pub fn record_lock(
        &mut self,
        client: ClientId,
        grant: &LockGrant,
        file: FileKey,
    ) -> Result<Stateid4, NfsStat4> {
        self.confirmed(client)?;
        let index = (client, grant.name.clone(), file);
        if let Some(key) = self.lock_index.get(&index).copied()
            && let Some(lock) = self.locks.get_mut(&key)
        {
            lock.seqid = lock.seqid.next();
            return Ok(self.numbers.stateid(key, lock.seqid));
        }
        if !self.opens.contains_key(&grant.open) {
            return Err(NfsStat4::BadStateid);
        }
        let owner = grant.name.clone();
        self.memory.add_state(&owner, &self.limits)?;
        let key = self.numbers.next_state();
        self.locks.insert(
            key,
            Lock {
                seqid: Seqid::FIRST,
                client,
                owner,
                file,
                open: grant.open,
            },
        );
        self.lock_index.insert(index, key);
        if let Some(open) = self.opens.get_mut(&grant.open) {
            open.locks.insert(key);
        }
        if let Some(record) = self.clients.get_mut(&client) {
            record.locks.insert(key);
        }
        Ok(self.numbers.stateid(key, Seqid::FIRST))
    }

    /// Finds the lock that FREE_STATEID names (RFC 8881, section 18.38).
    ///
    /// # Errors
    /// `BAD_STATEID`, `OLD_STATEID`; `LOCKS_HELD` for an open, which only CLOSE ends, and for a layout.
    pub fn freeable_lock(
        &self,
        client: ClientId,
        stateid: &Stateid4,
    ) -> Result<(FileKey, LockOwner), NfsStat4> {
        let key = self.numbers.state_of(stateid)?;
        if let Some(open) = self.opens.get(&key) {
            if open.client != client {
                return Err(NfsStat4::BadStateid);
            }
            open.seqid.check(stateid.seqid)?;
            return Err(NfsStat4::LocksHeld);
        }
        if let Some((holder, _)) = self.layout_seqid(key) {
            return Err(match holder == client {
                true => NfsStat4::LocksHeld,
                false => NfsStat4::BadStateid,
            });
        }
        let lock = self.locks.get(&key).ok_or(NfsStat4::BadStateid)?;
        if lock.client != client {
            return Err(NfsStat4::BadStateid);
        }
        lock.seqid.check(stateid.seqid)?;
        Ok((lock.file, self.lock_owner(client, &lock.owner)?))
    }

    /// Removes a lock state without locks.
    pub fn free_lock(&mut self, client: ClientId, stateid: &Stateid4) {
        if let (Ok(key), Some(name)) = (self.numbers.state_of(stateid), self.client_name(client)) {
            self.forget_lock(key, &name);
        }
    }

    pub(super) fn forget_open(&mut self, key: u64, client: &Arc<[u8]>) -> Vec<Release> {
        let Some(open) = self.opens.remove(&key) else {
            return Vec::new();
        };
        self.memory.remove_state(&open.owner);
        let mut releases = Vec::new();
        for lock in &open.locks {
            releases.extend(self.forget_lock(*lock, client));
        }
        releases.push(Release::Open(
            open.file,
            OpenOwner::new(client, &open.owner),
        ));
        self.layouts.closed(open.client, open.file, key);
        self.open_index
            .remove(&(open.client, open.owner, open.file));
        if let Some(record) = self.clients.get_mut(&open.client) {
            record.opens.remove(&key);
        }
        releases
    }

    pub(super) fn forget_lock(&mut self, key: u64, client: &Arc<[u8]>) -> Option<Release> {
        let lock = self.locks.remove(&key)?;
        self.memory.remove_state(&lock.owner);
        if let Some(open) = self.opens.get_mut(&lock.open) {
            open.locks.remove(&key);
        }
        if let Some(record) = self.clients.get_mut(&lock.client) {
            record.locks.remove(&key);
        }
        let owner = LockOwner {
            client: client.clone(),
            owner: lock.owner.clone(),
        };
        self.lock_index
            .remove(&(lock.client, lock.owner, lock.file));
        Some(Release::Locks(lock.file, owner))
    }
}
