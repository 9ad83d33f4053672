//! NFSv4.1 sessions with data servers: one for each, made when needed and replaced when lost.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use nfs4::{ArgOp4, NfsFh4, NfsStat4, ResOp4, StableHow4, Stateid4, Verifier4};
use nfs4_client::{Client, Error, Options, ops};
use pool::DataServerNumber;

/// Data servers ignore the stateid (rule 3).
const ANY: Stateid4 = Stateid4 {
    seqid: 0,
    other: [0; 12],
};

/// Connections of a session. A request that waits for a large WRITE does not delay others.
const CONNECTIONS: usize = 2;

/// The longest wait for an answer over a connection that seems to be in order. A large WRITE over a slow link takes as long.
const ANSWER: Duration = Duration::from_secs(60);

/// Why a data server did not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unserved {
    /// It answered with this status.
    Status(NfsStat4),
    /// It cannot be reached, and nothing was sent to it.
    Away,
    /// Its answer was lost or is late. The request may have been done, or may still be done.
    Uncertain,
}

/// A request to a data server.
#[derive(Clone, Debug)]
pub(crate) enum Io {
    /// Reads bytes of some contents; fewer are allowed.
    Read { offset: u64, length: u64 },
    /// Writes bytes unstably; fewer are allowed.
    Write { offset: u64, bytes: Bytes },
    /// Makes all writes to some contents stable.
    Commit,
}

/// The answer to an [`Io`].
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// At least one byte.
    Read(Bytes),
    /// This many bytes lie beyond the end of the contents.
    Hole(u64),
    /// The number of bytes written, at least one; with the data server's verifier if they are not stable.
    Written {
        count: usize,
        unstable: Option<Verifier4>,
    },
    /// Everything is stable under this verifier.
    Committed(Verifier4),
}

/// Sessions by data server.
#[derive(Debug)]
pub(crate) struct Sessions {
    lines: Mutex<HashMap<DataServerNumber, Arc<Line>>>,
    patience: Duration,
}

/// The connection to one data server, and when the last attempt to make one failed.
type Line = tokio::sync::Mutex<Known>;

#[derive(Debug, Default)]
struct Known {
    client: Option<(SocketAddr, Client)>,
    failed: Option<Instant>,
}

impl Sessions {
    /// Sessions that are made, and in which a request is repeated, for at most this long.
    pub(crate) fn new(patience: Duration) -> Sessions {
        Sessions {
            lines: Mutex::default(),
            patience,
        }
    }

    /// Sends a request that a handle allows to a data server.
    pub(crate) async fn ask(
        &self,
        to: (DataServerNumber, SocketAddr),
        handle: &[u8],
        ask: Io,
    ) -> Result<Answer, Unserved> {
        let io_max = self.client(to.0, to.1).await?.io_max();
        match ask {
            Io::Read { offset, length } => {
                // At most `io_max`, which has 32 bits.
                let count = length.min(io_max.into()) as u32;
                match self.call(to, handle, ops::read(ANY, offset, count)).await {
                    // The contents end there, and the row says how long the file is.
                    Err(Unserved::Status(NfsStat4::PnfsIoHole)) => Ok(Answer::Hole(count.into())),
                    Ok(ResOp4::Read(Ok(read)))
                        if (1..=count as usize).contains(&read.data.len()) =>
                    {
                        Ok(Answer::Read(read.data))
                    }
                    Ok(_) => Err(Unserved::Uncertain),
                    Err(error) => Err(error),
                }
            }
            Io::Write { offset, mut bytes } => {
                bytes.truncate(io_max as usize);
                let length = bytes.len();
                let write = ops::write(ANY, offset, StableHow4::Unstable, bytes);
                match self.call(to, handle, write).await? {
                    ResOp4::Write(Ok(written))
                        if (1..=length).contains(&(written.count as usize)) =>
                    {
                        let unstable = written.committed == StableHow4::Unstable;
                        Ok(Answer::Written {
                            count: written.count as usize,
                            unstable: unstable.then_some(written.writeverf),
                        })
                    }
                    _ => Err(Unserved::Uncertain),
                }
            }
            Io::Commit => match self.call(to, handle, ops::commit(0, 0)).await? {
                ResOp4::Commit(Ok(done)) => Ok(Answer::Committed(done.writeverf)),
                _ => Err(Unserved::Uncertain),
            },
        }
    }

    async fn call(
        &self,
        (server, address): (DataServerNumber, SocketAddr),
        handle: &[u8],
        operation: ArgOp4,
    ) -> Result<ResOp4, Unserved> {
        let object = NfsFh4(Bytes::copy_from_slice(handle));
        let request = vec![ops::putfh(&object), operation];
        // The second attempt uses a new session, if the server lost the first one with its memory.
        for _ in 0..2 {
            let client = self.client(server, address).await?;
            let answer = tokio::time::timeout(ANSWER, client.compound(request.clone())).await;
            let Ok(answer) = answer else {
                tracing::debug!(server = server.0, "a data server does not answer in time");
                self.give_up(server, &client).await;
                return Err(Unserved::Uncertain);
            };
            match answer {
                Ok(mut reply) if reply.status == NfsStat4::Ok => {
                    return reply.results.pop().ok_or(Unserved::Uncertain);
                }
                Ok(reply) => return Err(Unserved::Status(reply.status)),
                // SEQUENCE was refused, so nothing after it was executed. The same request may have been sent before, over a lost
                // connection: only the end of its session ends it for sure.
                Err(Error::Status { status, .. }) => {
                    self.give_up(server, &client).await;
                    if status != NfsStat4::BadSession {
                        return Err(Unserved::Uncertain);
                    }
                }
                Err(error) => {
                    tracing::debug!(server = server.0, %error, "a data server does not answer");
                    self.give_up(server, &client).await;
                    return Err(Unserved::Uncertain);
                }
            }
        }
        Err(Unserved::Away)
    }

    async fn client(
        &self,
        server: DataServerNumber,
        address: SocketAddr,
    ) -> Result<Client, Unserved> {
        let (line, begun) = (self.line(server), Instant::now());
        let mut line = line.lock().await;
        if let Some((known, client)) = &line.client
            && *known == address
        {
            return Ok(client.clone());
        }
        // It was tried meanwhile: those that wait do not try one after the other.
        if line.failed.is_some_and(|failed| failed > begun) {
            return Err(Unserved::Away);
        }
        let options = Options {
            minor_version: 1,
            patience: self.patience,
            connections: CONNECTIONS,
            ..Options::at(address)
        };
        let connected = tokio::time::timeout(self.patience, Client::connect(options)).await;
        if let Ok(Ok(client)) = connected {
            line.client = Some((address, client.clone()));
            return Ok(client);
        }
        line.failed = Some(Instant::now());
        if let Ok(Err(error)) = connected {
            tracing::debug!(server = server.0, %address, %error, "no session with a data server");
        }
        Err(Unserved::Away)
    }

    /// The next request uses another session.
    async fn give_up(&self, server: DataServerNumber, client: &Client) {
        let line = self.line(server);
        let mut line = line.lock().await;
        let is_it =
            |(_, known): &(SocketAddr, Client)| Arc::ptr_eq(known.session(), client.session());
        if line.client.as_ref().is_some_and(is_it) {
            line.client = None;
        }
    }

    fn line(&self, server: DataServerNumber) -> Arc<Line> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(lines.entry(server).or_default())
    }
}
