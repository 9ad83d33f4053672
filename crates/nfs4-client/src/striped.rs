//! A file that is read and written at the data servers of its layout (RFC 8881, chapter 13).
//!
//! Each call is one request to one data server. If it fails, nothing is sent to the metadata server instead: the
//! caller gets the error and decides. A writer ends with [`Striped::commit`], then [`Client::commit_layout`], and returns the layout
//! with [`Client::return_layout`].
//!
//! What must never enter: which layouts a server gives, and to which clients.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use nfs4::{
    Deviceid4, FileLayout4, FileLayoutDsAddr4, LayoutIomode4, NfsFh4, ReadResOk, StableHow4,
    Stateid4, Verifier4, WriteResOk, file_layout_util,
};
use tokio::sync::Mutex;

use crate::calls::OpenFile;
use crate::client::{Client, take};
use crate::error::Error;
use crate::ops;
use crate::options::Options;

/// How a data server at an address is reached.
type Reach = dyn Fn(SocketAddr) -> Options + Send + Sync;

/// The data servers that a client of a metadata server knows: a session with each, and the devices that consist of them.
/// Clones share it.
#[derive(Clone)]
pub struct DataServers {
    reach: Arc<Reach>,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    clients: HashMap<SocketAddr, Client>,
    devices: HashMap<Deviceid4, Arc<FileLayoutDsAddr4>>,
}

impl DataServers {
    /// No data servers yet; each is reached this way.
    pub fn reached(reach: impl Fn(SocketAddr) -> Options + Send + Sync + 'static) -> Self {
        Self {
            reach: Arc::new(reach),
            known: Arc::default(),
        }
    }

    /// The data servers of a device, in the order of its list. The metadata server is asked for a device only once.
    async fn of(
        &self,
        metadata: &Client,
        device: Deviceid4,
    ) -> Result<(Arc<FileLayoutDsAddr4>, Vec<Client>), Error> {
        let mut known = self.known.lock().await;
        let device = match known.devices.get(&device) {
            Some(device) => Arc::clone(device),
            None => {
                let found = Arc::new(metadata.device(device).await?);
                known.devices.insert(device, Arc::clone(&found));
                found
            }
        };
        let mut clients = Vec::with_capacity(device.multipath_ds_list.len());
        for addresses in &device.multipath_ds_list {
            let address = addresses.0.iter().find_map(|address| address.socket());
            let address = address.ok_or(Error::Unexpected("GETDEVICEINFO"))?;
            let client = match known.clients.get(&address) {
                Some(client) => client.clone(),
                None => {
                    let client = Client::connect((self.reach)(address)).await?;
                    known.clients.insert(address, client.clone());
                    client
                }
            };
            clients.push(client);
        }
        Ok((device, clients))
    }

    /// Forgets sessions and devices: files opened from now on get new ones, open files keep theirs.
    pub async fn forget(&self) {
        *self.known.lock().await = Known::default();
    }

    /// Ends the sessions with all of them. Files that were read or written there cannot be used any more.
    ///
    /// # Errors
    /// Fails with the first session that cannot be ended.
    pub async fn leave(&self) -> Result<(), Error> {
        let clients = std::mem::take(&mut self.known.lock().await.clients);
        for client in clients.into_values() {
            client.leave().await?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for DataServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataServers").finish_non_exhaustive()
    }
}

/// An open file with a layout of all of it.
#[derive(Debug)]
pub struct Striped {
    /// The stateid of the layout, for LAYOUTCOMMIT and LAYOUTRETURN.
    pub stateid: Stateid4,
    /// The stateid of the open in the form for data servers: the sequence number is zero (section 13.9.1).
    open: Stateid4,
    stripes: Stripes,
    servers: Vec<Client>,
    /// The data servers that were written since the last commit.
    written: Vec<AtomicBool>,
}

impl Striped {
    /// Asks for a layout of an open file, and connects to its data servers.
    ///
    /// # Errors
    /// Fails with the error of LAYOUTGET, among others `RECALLCONFLICT` and `BADLAYOUT`, which may soon change; when
    /// a data server cannot be reached; and with [`Error::Unexpected`] for a layout that leaves bytes without a place.
    pub async fn open(
        metadata: &Client,
        file: &OpenFile,
        iomode: LayoutIomode4,
        known: &DataServers,
    ) -> Result<Self, Error> {
        let (got, layout) = metadata.layout(&file.handle, file.stateid, iomode).await?;
        Self::by((got.stateid, layout), metadata, file, known).await
    }

    /// Connects to the data servers of a layout that an open file has received, with its stateid.
    ///
    /// # Errors
    /// As [`Striped::open`], except the errors of LAYOUTGET.
    pub async fn by(
        (stateid, layout): (Stateid4, FileLayout4),
        metadata: &Client,
        file: &OpenFile,
        known: &DataServers,
    ) -> Result<Self, Error> {
        let (device, servers) = known.of(metadata, layout.deviceid).await?;
        let stripes = Stripes::of(layout, &device, &file.handle);
        Ok(Self {
            stateid,
            open: Stateid4 {
                seqid: 0,
                ..file.stateid
            },
            stripes: stripes.ok_or(Error::Unexpected("LAYOUTGET"))?,
            written: servers.iter().map(|_| AtomicBool::new(false)).collect(),
            servers,
        })
    }

    /// The same file with other handles at its data servers, to test their refusals.
    #[must_use]
    pub fn with_handles(mut self, of: impl FnMut(&NfsFh4) -> NfsFh4) -> Self {
        self.stripes.handles = self.stripes.handles.iter().map(of).collect();
        self
    }

    /// The number of consecutive bytes on one data server.
    pub fn unit(&self) -> u64 {
        self.stripes.unit
    }

    /// The number of data servers.
    pub fn width(&self) -> usize {
        self.servers.len()
    }

    /// Reads at most `count` bytes; fewer at the end of the file or of the stripe, or if the data server decides so.
    ///
    /// # Errors
    /// Fails with the error of the data server: `PNFS_IO_HOLE` means that only the metadata server can answer this request, and
    /// `STALE` that the layout is not valid any more.
    pub async fn read(&self, offset: u64, count: u32) -> Result<ReadResOk, Error> {
        let (server, handle, here) = self.stripes.at(offset);
        let count = count.min(u32::try_from(here).unwrap_or(u32::MAX));
        let read = ops::read(self.open, offset, count);
        let request = vec![ops::putfh(handle), read];
        let mut results = self.servers[server].call(request).await?;
        Ok(take!(results, Read))
    }

    /// Writes once, at most to the end of the stripe; the data server may write less.
    ///
    /// # Errors
    /// As [`Striped::read`].
    pub async fn write(
        &self,
        offset: u64,
        mut data: Bytes,
        stable: StableHow4,
    ) -> Result<WriteResOk, Error> {
        let (server, handle, here) = self.stripes.at(offset);
        data.truncate(usize::try_from(here).unwrap_or(usize::MAX));
        self.written[server].store(true, Ordering::Relaxed);
        let write = ops::write(self.open, offset, stable, data);
        let request = vec![ops::putfh(handle), write];
        let mut results = self.servers[server].call(request).await?;
        Ok(take!(results, Write))
    }

    /// Makes durable what was written at each data server, one after another. Returns the verifier of each, which has to equal that of the writes
    /// there. Nothing may be written meanwhile.
    ///
    /// # Errors
    /// As [`Striped::read`].
    pub async fn commit(&self) -> Result<Vec<(usize, Verifier4)>, Error> {
        let mut verifiers = Vec::new();
        for (server, written) in self.written.iter().enumerate() {
            if !written.load(Ordering::Relaxed) {
                continue;
            }
            let verifier = self.servers[server].commit(&self.stripes.handles[server], 0, 0);
            verifiers.push((server, verifier.await?));
            written.store(false, Ordering::Relaxed);
        }
        Ok(verifiers)
    }

    /// The data server with a byte, as [`Striped::commit`] numbers them.
    pub fn server_at(&self, offset: u64) -> usize {
        self.stripes.at(offset).0
    }
}

/// The places of a file's bytes: sparse packing, so that the offset at a data server is that in the file (section 13.4.4).
#[derive(Debug, PartialEq, Eq)]
struct Stripes {
    unit: u64,
    first: usize,
    /// The data servers by their places in the list, in the order of stripes.
    order: Vec<usize>,
    /// The filehandle at each data server of the list.
    handles: Vec<NfsFh4>,
}

impl Stripes {
    /// None if a layout and its device do not give the data server of every byte.
    fn of(layout: FileLayout4, device: &FileLayoutDsAddr4, metadata: &NfsFh4) -> Option<Self> {
        let servers = device.multipath_ds_list.len();
        let order: Vec<usize> = device
            .stripe_indices
            .iter()
            .map(|index| *index as usize)
            .collect();
        let handles = match &layout.fh_list[..] {
            [] => vec![metadata.clone(); servers],
            [one] => vec![one.clone(); servers],
            _ => layout.fh_list,
        };
        let flags = file_layout_util::DENSE | file_layout_util::COMMIT_THRU_MDS;
        let unit = u64::from(layout.util & file_layout_util::STRIPE_UNIT_SIZE);
        let first = layout.first_stripe_index as usize;
        let is_sound = unit > 0
            && layout.util & flags == 0
            && layout.pattern_offset == 0
            && first < order.len()
            && order.iter().all(|index| *index < servers)
            && handles.len() == servers;
        is_sound.then_some(Self {
            unit,
            first,
            order,
            handles,
        })
    }

    /// For a byte: its data server, the filehandle there, and the number of bytes from this one on that lie there.
    fn at(&self, offset: u64) -> (usize, &NfsFh4, u64) {
        // Below the number of stripes.
        let stripe = (offset / self.unit % self.order.len() as u64) as usize;
        let server = self.order[(stripe + self.first) % self.order.len()];
        (
            server,
            &self.handles[server],
            self.unit - offset % self.unit,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs4::MultipathList4;

    fn handles(names: &[&'static str]) -> Vec<NfsFh4> {
        let handle = |name: &&'static str| NfsFh4(Bytes::from_static(name.as_bytes()));
        names.iter().map(handle).collect()
    }

    fn layout(util: u32, first: u32, names: &[&'static str]) -> FileLayout4 {
        FileLayout4 {
            deviceid: Deviceid4::default(),
            util,
            first_stripe_index: first,
            pattern_offset: 0,
            fh_list: handles(names),
        }
    }

    fn device(order: &[u32], servers: usize) -> FileLayoutDsAddr4 {
        FileLayoutDsAddr4 {
            stripe_indices: order.to_vec(),
            multipath_ds_list: vec![MultipathList4(Vec::new()); servers],
        }
    }

    #[test]
    fn stripes_go_round_from_the_first_index_on() {
        let own = &handles(&["m"])[0];
        let names = ["a", "b", "c"];
        let stripes = Stripes::of(layout(128, 1, &names), &device(&[2, 0, 1], 3), own).unwrap();
        let places = [0, 127, 128, 300, 384].map(|offset| {
            let (server, handle, here) = stripes.at(offset);
            assert_eq!(*handle, handles(&names)[server]);
            (server, here)
        });
        assert_eq!(places, [(0, 128), (0, 1), (1, 128), (2, 84), (0, 128)]);
        stripes.at(u64::MAX);
    }

    #[test]
    fn a_file_may_be_called_the_same_everywhere() {
        let own = &handles(&["m"])[0];
        for (names, expected) in [(&["a"][..], "a"), (&[], "m")] {
            let stripes = Stripes::of(layout(64, 0, names), &device(&[0, 1], 2), own).unwrap();
            assert_eq!(stripes.handles, handles(&[expected, expected]));
        }
    }

    #[test]
    fn layouts_that_place_bytes_nowhere_are_none() {
        let own = &handles(&["m"])[0];
        let two = ["a", "b"];
        for (layout, device) in [
            (layout(0, 0, &two), device(&[0, 1], 2)),
            (layout(64, 2, &two), device(&[0, 1], 2)),
            (layout(64, 0, &two), device(&[0, 2], 2)),
            (layout(64, 0, &two), device(&[], 2)),
            (layout(64, 0, &two), device(&[0, 1, 2], 3)),
            (
                layout(64 | file_layout_util::DENSE, 0, &two),
                device(&[0, 1], 2),
            ),
            (
                layout(64 | file_layout_util::COMMIT_THRU_MDS, 0, &two),
                device(&[0, 1], 2),
            ),
        ] {
            assert_eq!(Stripes::of(layout, &device, own), None);
        }
        let shifted = FileLayout4 {
            pattern_offset: 64,
            ..layout(64, 0, &two)
        };
        assert_eq!(Stripes::of(shifted, &device(&[0, 1], 2), own), None);
    }
}
