//! Whether a server answers, and whether it has the root of a domain.
//!
//! What must never enter: comparison of servers.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use nfs4::NfsStat4;
use nfs4_client::{Client, Error, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::domain::Domain;

/// The number of the call, to recognise its answer.
const XID: u32 = 0x6e66_7372;

/// A call of the procedure NULL of NFS version 4 without credentials, as one record (RFC 5531, sections 9 and 11).
const NULL_CALL: [u32; 11] = [0x8000_0028, XID, 0, 2, 100_003, 4, 0, 0, 0, 0, 0];

/// Its answer: one record of 24 bytes, accepted and successful, with an empty verifier.
const NULL_REPLY: [u32; 7] = [0x8000_0018, XID, 1, 0, 0, 0, 0];

/// The answer of a server to a NULL call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The time until the answer, connecting included.
    pub round_trip: Duration,
    /// The server is on this machine: the connection has the same address at both ends.
    pub is_own: bool,
}

/// Sends a NULL call to a server.
///
/// # Errors
/// Why it does not answer: it is not reachable, it takes longer than `patience`, or it is no NFS server of version 4.
pub async fn reply(server: SocketAddr, patience: Duration) -> io::Result<Reply> {
    let began = Instant::now();
    let asking = async {
        let mut stream = TcpStream::connect(server).await?;
        let call: Vec<u8> = NULL_CALL
            .iter()
            .flat_map(|word| word.to_be_bytes())
            .collect();
        stream.write_all(&call).await?;
        let mut reply = [0; 4 * NULL_REPLY.len()];
        stream.read_exact(&mut reply).await?;
        let expected = NULL_REPLY.iter().flat_map(|word| word.to_be_bytes());
        match expected.eq(reply) {
            true => Ok(Reply {
                round_trip: began.elapsed(),
                is_own: stream.local_addr()?.ip() == server.ip(),
            }),
            false => Err(io::Error::other(
                "what is there is no NFS server of version 4",
            )),
        }
    };
    let answered = tokio::time::timeout(patience, asking).await;
    answered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Like [`reply`], but returns only the time.
///
/// # Errors
/// As for [`reply`].
pub async fn round_trip(server: SocketAddr, patience: Duration) -> io::Result<Duration> {
    Ok(reply(server, patience).await?.round_trip)
}

/// An IPv4 address at which autofs can mount a server on this machine that was reached at an IPv6 address: autofs 5.1.8 does not
/// recognise IPv6 addresses of its own machine. Nothing if the server does not answer there.
pub async fn own_over_ipv4(port: u16, patience: Duration) -> Option<(SocketAddr, Duration)> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let round_trip = round_trip(address, patience).await.ok()?;
    Some((address, round_trip))
}

/// The answer of a server to a client that wants the root of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The server has it.
    Served,
    /// The server does not have it.
    Missing,
    /// The server shows this machine nothing at all.
    Refused,
    /// It is not known, for this reason.
    Unknown(String),
}

/// Whether a server has the root of a domain, for this machine.
pub async fn root(server: SocketAddr, domain: &Domain, patience: Duration) -> Root {
    let options = Options {
        patience,
        renewal: None,
        minor_version: 1,
        ..Options::dialling(move || connect(server, patience))
    };
    let asking = async {
        let client = Client::connect(options).await?;
        let outcome = client.mount(&domain.root_path()).await;
        // The server forgets the client in any case, after a while.
        let _ = client.leave().await;
        outcome
    };
    match tokio::time::timeout(2 * patience, asking).await {
        Ok(Ok(_)) => Root::Served,
        Ok(Err(error)) => match (&error, error.status()) {
            (_, Some(NfsStat4::NoEnt)) => Root::Missing,
            (_, Some(NfsStat4::Access | NfsStat4::WrongSec)) | (Error::Refused(_), _) => {
                Root::Refused
            }
            _ => Root::Unknown(error.to_string()),
        },
        Err(_) => Root::Unknown("it takes too long".to_owned()),
    }
}

/// From a privileged port, if this process may use one.
fn connect(server: SocketAddr, patience: Duration) -> io::Result<std::net::TcpStream> {
    let reached = std::net::TcpStream::connect_timeout(&server, patience)?;
    drop(reached);
    nfs4_client::connect(server)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    }

    #[test]
    fn nobody_and_somebody_else_are_told_from_a_server() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        });
        let error = runtime().block_on(round_trip(address, PATIENCE));
        assert!(error.unwrap_err().to_string().contains("no NFS server"));
        other.join().unwrap();
        let nobody = runtime().block_on(round_trip(address, PATIENCE));
        assert_eq!(nobody.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn who_accepts_and_says_nothing_does_not_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let silent = runtime().block_on(round_trip(address, Duration::from_millis(50)));
        assert_eq!(silent.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
