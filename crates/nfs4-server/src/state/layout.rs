//! The layouts of clients, and the validity of their stateids (RFC 8881, sections 12.5.2, 12.5.3 and 12.5.5).
//!
//! A client has at most one layout state for a file. It depends on the client's opens of the file and ends with them.
//! The home decides whether a layout is given. The number of a holder is that of its state.

use std::collections::{HashMap, HashSet};

use nfs4::{LayoutIomode4, NfsStat4, Stateid4};
use vfs::Share;

use super::client::ClientId;
use super::stateid::Seqid;
use super::{FileKey, OpenFile, Release, Resolved, State, StateidUse};
use crate::layouts::{DeviceId, LayoutAccess, LayoutHolder};

/// The maximum number of devices that one client wants to be notified about.
const DEVICES_OF_CLIENT: usize = 256;

#[derive(Debug)]
pub(super) struct Layout {
    pub(super) client: ClientId,
    file: FileKey,
    /// The newest sequence number; `NONE` before the first layout.
    pub(super) seqid: Seqid,
    /// The sequence number of the last reply. Recalls are numbered after it.
    replied: Seqid,
    read: bool,
    write: bool,
    /// The number of running LAYOUTGETs.
    asking: u32,
    recalled: bool,
}

/// All layout states, and the opens that they depend on.
#[derive(Debug, Default)]
pub(super) struct LayoutTable {
    pub(super) all: HashMap<u64, Layout>,
    index: HashMap<(ClientId, FileKey), u64>,
    /// The opens of each file by each client.
    opens: HashMap<(ClientId, FileKey), Vec<u64>>,
}

impl LayoutTable {
    pub(super) fn opened(&mut self, client: ClientId, file: FileKey, open: u64) {
        self.opens.entry((client, file)).or_default().push(open);
    }

    pub(super) fn closed(&mut self, client: ClientId, file: FileKey, open: u64) {
        if let Some(opens) = self.opens.get_mut(&(client, file)) {
            opens.retain(|other| *other != open);
            if opens.is_empty() {
                self.opens.remove(&(client, file));
            }
        }
    }
}

/// How a layout has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutEnd {
    /// The client has no requests in progress.
    Returned,
    /// The client may have requests in progress.
    Lost,
}

impl State {
    /// Begins a request for a layout. [`State::record_layout`] or [`State::abandon_layout`] must follow.
    ///
    /// # Errors
    /// `BAD_STATEID`, `OLD_STATEID` for a stateid that belongs neither to a layout nor to an open of the file; `OPENMODE` when no open allows writing;
    /// `BADLAYOUT`, so that the client works without a layout, when no open allows reading, and when there is no space.
    pub fn begin_layout(
        &mut self,
        client: ClientId,
        stateid: &Stateid4,
        file: FileKey,
        access: LayoutAccess,
    ) -> Result<LayoutHolder, NfsStat4> {
        match self.layout_of(client, stateid, file) {
            Ok(_) => {}
            Err(NfsStat4::BadStateid) => {
                match self.resolve_for_io(client, stateid, file, StateidUse::Read)? {
                    Resolved::Open(_) | Resolved::WriteOnly => {}
                    Resolved::Anonymous | Resolved::ReadBypass => return Err(NfsStat4::BadStateid),
                }
            }
            Err(status) => return Err(status),
        }
        let shares = self.shares_of(client, file, None);
        match access {
            LayoutAccess::ReadWrite if !shares.write => return Err(NfsStat4::OpenMode),
            LayoutAccess::Read if !shares.read => return Err(NfsStat4::BadLayout),
            _ => {}
        }
        if let Some(key) = self.layouts.index.get(&(client, file)).copied()
            && let Some(layout) = self.layouts.all.get_mut(&key)
        {
            layout.asking += 1;
            return Ok(LayoutHolder(key));
        }
        let no_space = |_| NfsStat4::BadLayout;
        self.memory.add_state(&[], &self.limits).map_err(no_space)?;
        let key = self.numbers.next_state();
        let layout = Layout {
            client,
            file,
            seqid: Seqid::NONE,
            replied: Seqid::NONE,
            read: false,
            write: false,
            asking: 1,
            recalled: false,
        };
        self.layouts.all.insert(key, layout);
        self.layouts.index.insert((client, file), key);
        if let Some(record) = self.clients.get_mut(&client) {
            record.layouts.insert(key);
        }
        Ok(LayoutHolder(key))
    }

    /// Records the layout that the home has given. Returns the stateid for the reply.
    ///
    /// # Errors
    /// `RETURNCONFLICT` when the client has returned its layouts in the meantime, or is gone: the home must be told
    /// that this layout has ended too.
    pub fn record_layout(
        &mut self,
        holder: LayoutHolder,
        access: LayoutAccess,
    ) -> Result<Stateid4, NfsStat4> {
        let layout = self.layouts.all.get_mut(&holder.0);
        let layout = layout.ok_or(NfsStat4::ReturnConflict)?;
        layout.asking = layout.asking.saturating_sub(1);
        layout.seqid = layout.seqid.next();
        layout.replied = layout.seqid;
        layout.recalled = false;
        match access {
            LayoutAccess::Read => layout.read = true,
            LayoutAccess::ReadWrite => layout.write = true,
        }
        Ok(self.numbers.stateid(holder.0, layout.seqid))
    }

    /// The requested layout is not given. Returns what must be released for the holder.
    pub fn abandon_layout(&mut self, holder: LayoutHolder) -> Option<Release> {
        let layout = self.layouts.all.get_mut(&holder.0)?;
        layout.asking = layout.asking.saturating_sub(1);
        let has_nothing = layout.asking == 0 && layout.seqid == Seqid::NONE;
        has_nothing.then(|| self.forget_layout(holder.0, LayoutEnd::Returned))?
    }

    /// Finds the layout of a LAYOUTCOMMIT.
    ///
    /// # Errors
    /// `BADLAYOUT` when it has ended, or is from before a restart; `BADIOMODE` when it is not for writing.
    pub fn committed_layout(
        &self,
        client: ClientId,
        stateid: &Stateid4,
        file: FileKey,
    ) -> Result<LayoutHolder, NfsStat4> {
        let layout = self.layout_of(client, stateid, file);
        let (key, layout) = layout.map_err(|_| NfsStat4::BadLayout)?;
        match layout.write {
            true => Ok(LayoutHolder(key)),
            false => Err(NfsStat4::BadIoMode),
        }
    }

    /// A client returns its layout of a file: all of it, or otherwise it keeps all of it. Returns the stateid of what
    /// it keeps, and what must be released.
    ///
    /// # Errors
    /// `BAD_STATEID`; `OLD_STATEID` when the client has not seen all replies, so that it may get a layout after this.
    pub fn return_layout(
        &mut self,
        client: ClientId,
        stateid: &Stateid4,
        file: FileKey,
        (iomode, whole): (LayoutIomode4, bool),
    ) -> Result<(Option<Stateid4>, Option<Release>), NfsStat4> {
        let (key, layout) = self.layout_of(client, stateid, file)?;
        if layout.seqid.find(stateid.seqid) < Some(layout.replied) {
            return Err(NfsStat4::OldStateid);
        }
        let end = match whole {
            true => self.give_back(key, iomode),
            false => None,
        };
        let kept = self.layouts.all.get_mut(&key).map(|layout| {
            layout.seqid = layout.seqid.next();
            layout.replied = layout.seqid;
            self.numbers.stateid(key, layout.seqid)
        });
        Ok((kept, end))
    }

    /// A client returns its layouts of one tree, or all of them. Returns what must be released.
    pub fn return_layouts(
        &mut self,
        client: ClientId,
        tree: Option<usize>,
        iomode: LayoutIomode4,
    ) -> Vec<Release> {
        let Some(record) = self.clients.get(&client) else {
            return Vec::new();
        };
        let keys: Vec<u64> = record.layouts.iter().copied().collect();
        let is_of_tree = |key: &u64| {
            let layout = self.layouts.all.get(key);
            layout.is_some_and(|layout| tree.is_none_or(|tree| layout.file.tree == tree))
        };
        let keys: Vec<u64> = keys.into_iter().filter(is_of_tree).collect();
        let ends = keys.into_iter().map(|key| self.give_back(key, iomode));
        ends.flatten().collect()
    }

    /// The part of the client's layout of a file that must end before an open is closed, or reduced to `left`:
    /// everything with the last open, and with the last open for writing every layout for writing.
    pub fn layout_without(&mut self, open: &OpenFile, left: Option<Share>) -> Option<Release> {
        let (client, file) = self
            .opens
            .get(&open.key())
            .map(|open| (open.client, open.file))?;
        let key = self.layouts.index.get(&(client, file)).copied()?;
        let others = self.layouts.opens.get(&(client, file))?.len() - 1;
        let writes = left.is_some_and(|left| left.write);
        let end = match (left, others) {
            (None, 0) => LayoutEnd::Returned,
            _ if writes || self.shares_of(client, file, Some(open.key())).write => return None,
            _ if self.layouts.all.get(&key)?.write => LayoutEnd::Lost,
            _ => return None,
        };
        self.forget_layout(key, end)
    }

    /// The recall of a layout: the client, the file, and the stateid. It stays the same when it is repeated. `None`
    /// when there is nothing to recall, or nothing yet that the client could know.
    pub fn recall_layout(&mut self, holder: LayoutHolder) -> Option<(ClientId, FileKey, Stateid4)> {
        let layout = self.layouts.all.get_mut(&holder.0);
        let layout = layout.filter(|layout| layout.seqid != Seqid::NONE)?;
        if !std::mem::replace(&mut layout.recalled, true) {
            layout.seqid = layout.seqid.next();
        }
        let stateid = self.numbers.stateid(holder.0, layout.seqid);
        Some((layout.client, layout.file, stateid))
    }

    /// The client answers a recall that it has no such layout. Returns what must be released.
    pub fn layout_is_unknown(&mut self, holder: LayoutHolder) -> Option<Release> {
        let layout = self.layouts.all.get(&holder.0)?;
        let is_over = layout.recalled && layout.asking == 0;
        is_over.then(|| self.forget_layout(holder.0, LayoutEnd::Returned))?
    }

    /// The holder of a layout.
    #[must_use]
    pub fn layout_client(&self, holder: LayoutHolder) -> Option<ClientId> {
        Some(self.layouts.all.get(&holder.0)?.client)
    }

    /// A client wants to be notified when a device is removed, or not any more. Returns whether it will be.
    pub fn watch_device(&mut self, client: ClientId, device: DeviceId, wanted: bool) -> bool {
        let Some(record) = self.clients.get_mut(&client) else {
            return false;
        };
        if !wanted {
            record.devices.remove(&device);
            return false;
        }
        if record.devices.len() < DEVICES_OF_CLIENT {
            record.devices.insert(device);
        }
        record.devices.contains(&device)
    }

    /// The clients to notify that a device is removed; each is notified once.
    pub fn device_gone(&mut self, device: DeviceId) -> Vec<ClientId> {
        let clients = self.clients.values_mut();
        let told = clients.filter_map(|client| client.devices.remove(&device).then_some(client.id));
        told.collect()
    }

    /// Whether a layout of a client has this stateid, for TEST_STATEID and FREE_STATEID.
    pub(super) fn layout_seqid(&self, key: u64) -> Option<(ClientId, Seqid)> {
        let layout = self.layouts.all.get(&key)?;
        Some((layout.client, layout.seqid))
    }

    /// Unlike other stateids, that of a layout always tells how much its client has seen (RFC 8881, section 12.5.3). An
    /// older number than the newest reply is valid, because requests may run concurrently.
    fn layout_of(
        &self,
        client: ClientId,
        stateid: &Stateid4,
        file: FileKey,
    ) -> Result<(u64, &Layout), NfsStat4> {
        let key = self.numbers.state_of(stateid)?;
        self.confirmed(client)?;
        let layout = self.layouts.all.get(&key).ok_or(NfsStat4::BadStateid)?;
        let is_known = layout.client == client && layout.file == file;
        match is_known && layout.seqid.find(stateid.seqid).is_some() {
            true => Ok((key, layout)),
            false => Err(NfsStat4::BadStateid),
        }
    }

    /// The union of a client's shares of a file, except for one open.
    fn shares_of(&self, client: ClientId, file: FileKey, but: Option<u64>) -> Share {
        let opens = self
            .layouts
            .opens
            .get(&(client, file))
            .into_iter()
            .flatten();
        let opens = opens.filter(|open| but != Some(**open));
        let shares = opens.filter_map(|open| Some(self.opens.get(open)?.share));
        shares.fold(Share::default(), Share::union)
    }

    fn give_back(&mut self, key: u64, iomode: LayoutIomode4) -> Option<Release> {
        let layout = self.layouts.all.get_mut(&key)?;
        layout.read &= iomode == LayoutIomode4::ReadWrite;
        layout.write &= iomode == LayoutIomode4::Read;
        let has_ended = !layout.read && !layout.write;
        has_ended.then(|| self.forget_layout(key, LayoutEnd::Returned))?
    }

    pub(super) fn forget_layout(&mut self, key: u64, end: LayoutEnd) -> Option<Release> {
        let layout = self.layouts.all.remove(&key)?;
        self.memory.remove_state(&[]);
        self.layouts.index.remove(&(layout.client, layout.file));
        if let Some(record) = self.clients.get_mut(&layout.client) {
            record.layouts.remove(&key);
        }
        Some(Release::Layout(layout.file, LayoutHolder(key), end))
    }
}

/// The devices that a client wants to be notified about.
pub(super) type Devices = HashSet<DeviceId>;
