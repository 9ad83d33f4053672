//! Reads and writes at data servers by a layout that another home has given.
//!
//! What must never enter: where layouts come from.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use nfs4::Verifier4;
use nfs4_server::FileLayout;
use pool::{DataServerNumber, Segment, Stripes};
use vfs::{Error, Result};

use crate::sessions::{Answer, Io, Sessions};
use crate::striped::side_by_side;

/// The sessions with the data servers of such layouts.
#[derive(Debug)]
pub struct ByLayout {
    sessions: Arc<Sessions>,
    /// The addresses met so far. The place of one in this list stands for its number, which a layout does not name.
    met: Mutex<Vec<SocketAddr>>,
}

/// The part of a file at one data server.
#[derive(Clone)]
struct Part {
    sessions: Arc<Sessions>,
    server: (DataServerNumber, SocketAddr),
    handle: Bytes,
}

impl ByLayout {
    /// Sessions that are made, and in which a request is repeated, for at most this long.
    #[must_use]
    pub fn new(patience: Duration) -> ByLayout {
        ByLayout {
            sessions: Arc::new(Sessions::new(patience)),
            met: Mutex::default(),
        }
    }

    /// The bytes of a range that lies within a file; holes read as zeros.
    ///
    /// # Errors
    /// When a data server does not serve its part, or the layout makes no sense.
    pub async fn read(
        &self,
        layout: &FileLayout,
        device: &[Vec<SocketAddr>],
        (offset, count): (u64, u32),
    ) -> Result<Bytes> {
        let (stripes, parts) = self.parts(layout, device)?;
        let segments = stripes.segments(offset, count.into());
        let reads = segments.map(|segment| parts[segment.index].clone().read(segment));
        let mut bytes = BytesMut::zeroed(count as usize);
        side_by_side(reads, |pieces: Vec<(u64, Bytes)>| {
            for (at, piece) in pieces {
                // Within the range, because segments stay within it.
                let from = (at - offset) as usize;
                bytes[from..from + piece.len()].copy_from_slice(&piece);
            }
        })
        .await?;
        Ok(bytes.freeze())
    }

    /// Writes, and waits until the bytes are stable.
    ///
    /// # Errors
    /// When a data server did not take its part, or may have lost it, or the layout makes no sense. Other parts may be written, or may still
    /// be written while the layout is valid.
    pub async fn write(
        &self,
        layout: &FileLayout,
        device: &[Vec<SocketAddr>],
        offset: u64,
        bytes: Bytes,
    ) -> Result<()> {
        let (stripes, parts) = self.parts(layout, device)?;
        let segments = stripes.segments(offset, bytes.len() as u64);
        let writes = segments.map(|segment| {
            // Within the bytes, because segments stay within the range.
            let from = (segment.offset - offset) as usize;
            let piece = bytes.slice(from..from + segment.length as usize);
            parts[segment.index].clone().write(segment, piece)
        });
        let (mut unstable, mut is_lost) = (BTreeMap::new(), false);
        side_by_side(writes, |(index, verifiers): (usize, Vec<Verifier4>)| {
            for verifier in verifiers {
                let before = unstable.insert(index, verifier);
                is_lost |= before.is_some_and(|before| before != verifier);
            }
        })
        .await?;
        let commits = unstable
            .keys()
            .map(|index| parts[*index].clone().commit(*index));
        let commits: Vec<_> = commits.collect();
        side_by_side(commits.into_iter(), |(index, verifier)| {
            is_lost |= unstable.get(&index) != Some(&verifier);
        })
        .await?;
        match is_lost {
            true => Err(Error::Delay),
            false => Ok(()),
        }
    }

    fn parts(
        &self,
        layout: &FileLayout,
        device: &[Vec<SocketAddr>],
    ) -> Result<(Stripes, Vec<Part>)> {
        let width = device.len();
        let stripes = Stripes::of_layout(layout.stripe_unit, width, layout.first_index);
        let stripes = stripes.filter(|_| layout.handles.len() == width);
        let stripes = stripes.ok_or_else(|| Error::Io("a layout makes no sense".into()))?;
        let parts = device
            .iter()
            .zip(&layout.handles)
            .map(|(addresses, handle)| {
                let address = *addresses.first().ok_or(Error::Delay)?;
                Ok(Part {
                    sessions: self.sessions.clone(),
                    server: (self.number(address), address),
                    handle: handle.clone(),
                })
            });
        Ok((stripes, parts.collect::<Result<_>>()?))
    }

    fn number(&self, address: SocketAddr) -> DataServerNumber {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let known = met.iter().position(|known| *known == address);
        let place = known.unwrap_or_else(|| {
            met.push(address);
            met.len() - 1
        });
        // A pool has far fewer data servers.
        DataServerNumber(u16::try_from(place).unwrap_or(u16::MAX))
    }
}

impl Part {
    async fn ask(&self, ask: Io) -> Result<Answer> {
        let asked = self.sessions.ask(self.server, &self.handle, ask).await;
        asked.map_err(|_| Error::Delay)
    }

    /// The bytes of one segment, with their offsets. Holes are left out.
    async fn read(self, segment: Segment) -> Result<Vec<(u64, Bytes)>> {
        let (mut offset, end) = (segment.offset, segment.offset + segment.length);
        let mut pieces = Vec::new();
        while offset < end {
            let length = end - offset;
            match self.ask(Io::Read { offset, length }).await? {
                Answer::Read(bytes) => {
                    let read = bytes.len() as u64;
                    pieces.push((offset, bytes));
                    offset += read;
                }
                Answer::Hole(length) => offset += length,
                _ => return Err(Error::Delay),
            }
        }
        Ok(pieces)
    }

    /// Returns the index of the segment, and the verifiers of what is not stable.
    async fn write(self, segment: Segment, mut bytes: Bytes) -> Result<(usize, Vec<Verifier4>)> {
        let (mut offset, mut verifiers) = (segment.offset, Vec::new());
        while !bytes.is_empty() {
            let write = Io::Write {
                offset,
                bytes: bytes.clone(),
            };
            match self.ask(write).await? {
                Answer::Written { count, unstable } => {
                    verifiers.extend(unstable);
                    bytes.advance(count);
                    offset += count as u64;
                }
                _ => return Err(Error::Delay),
            }
        }
        Ok((segment.index, verifiers))
    }

    async fn commit(self, index: usize) -> Result<(usize, Verifier4)> {
        match self.ask(Io::Commit).await? {
            Answer::Committed(verifier) => Ok((index, verifier)),
            _ => Err(Error::Delay),
        }
    }
}
