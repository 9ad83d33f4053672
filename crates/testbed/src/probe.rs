//! Checks that an NFS server answers. An open port is not enough: a server may accept connections before it
//! serves. The NULL procedure of NFSv4 needs no state and every server must answer it.
//!
//! What must never enter: more of the protocol. The testbed sends no other call.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Transaction identifier of the one call, chosen to be recognisable in a packet trace.
const XID: u32 = 0x7E57_BED0;

/// The time limit of a single attempt.
const PATIENCE: Duration = Duration::from_secs(2);

/// Calls procedure NULL of NFS version 4 once and checks that the reply accepts it.
pub(crate) fn null_call(server: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&call())?;
    let mut reply = [0; 28];
    stream.read_exact(&mut reply)?;
    if accepts(&reply) {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("not accepted: {reply:02x?}"),
        ))
    }
}

/// The record: a mark with the last-fragment bit and the length (RFC 5531, section 11), then the
/// call with AUTH_NONE as credential and verifier (RFC 5531, section 9).
fn call() -> Vec<u8> {
    const CALL: u32 = 0;
    const RPC_VERSION: u32 = 2;
    const NFS_PROGRAM: u32 = 100_003;
    const NFS_VERSION: u32 = 4;
    const NULL_PROCEDURE: u32 = 0;
    const AUTH_NONE: [u32; 2] = [0, 0];
    let [flavour, length] = AUTH_NONE;
    let body = [
        XID,
        CALL,
        RPC_VERSION,
        NFS_PROGRAM,
        NFS_VERSION,
        NULL_PROCEDURE,
        flavour,
        length,
        flavour,
        length,
    ];
    let mark = 0x8000_0000 | (body.len() as u32 * 4);
    std::iter::once(mark)
        .chain(body)
        .flat_map(u32::to_be_bytes)
        .collect()
}

/// Whether these bytes are a record that accepts the call with SUCCESS and carries nothing else. A
/// verifier other than AUTH_NONE would be longer, and no server sends one to an AUTH_NONE call.
fn accepts(reply: &[u8; 28]) -> bool {
    const REPLY: u32 = 1;
    const ACCEPTED: u32 = 0;
    const SUCCESS: u32 = 0;
    let expected = [0x8000_0018, XID, REPLY, ACCEPTED, 0, 0, SUCCESS];
    reply
        .iter()
        .copied()
        .eq(expected.into_iter().flat_map(u32::to_be_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_mark_counts_the_call() {
        let call = call();
        assert_eq!(call[..4], [0x80, 0, 0, 40]);
        assert_eq!(call.len(), 44);
    }

    #[test]
    fn a_refusal_is_not_an_answer() {
        let mut reply = [0; 28];
        for (bytes, word) in reply.chunks_mut(4).zip([0x8000_0018, XID, 1, 0, 0, 0, 0]) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        assert!(accepts(&reply));
        reply[27] = 2; // PROG_MISMATCH
        assert!(!accepts(&reply));
    }
}
