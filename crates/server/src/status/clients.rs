//! The connected clients, for people and programs.
//!
//! What must never enter: files that clients have open.

use std::fmt;
use std::net::IpAddr;

use nfs4_server::ClientView;
use serde::{Deserialize, Serialize};
use vfs::{Counted, ShownBytes};

use super::text::duration;

/// The maximum number of shown characters of a client's name for itself. A client may send a kilobyte, which is longer when it is shown.
const SHOWN_CHARS: usize = 150;

/// One client of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// Its number at this server, in hexadecimal, for `meridian clients evict`.
    pub id: String,
    /// Its address.
    pub address: IpAddr,
    /// Its own name, with invisible characters escaped; only the beginning of a long one.
    pub name: String,
    /// The name of its implementation, in the same form; empty when it does not send one.
    pub implementation: String,
    /// The version of NFS that it speaks.
    pub version: String,
    /// Seconds since it introduced itself to this server.
    pub known_seconds: u64,
    /// Seconds since its last request.
    pub silent_seconds: u64,
    /// Its sessions.
    pub sessions: u64,
    /// Its open files, counted by owner.
    pub opens: u64,
    /// Its byte-range lock states, counted by owner and file.
    pub locks: u64,
}

/// Which clients to evict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvictQuestion {
    /// The client with this number, as [`ClientStatus::id`] shows it.
    Id(String),
    /// All clients at this address.
    Address(IpAddr),
}

impl From<&ClientView> for ClientStatus {
    fn from(view: &ClientView) -> ClientStatus {
        let implementation = view.implementation.as_bytes();
        ClientStatus {
            id: format!("{:x}", view.id.0),
            address: view.address,
            name: short(ShownBytes(&view.owner).to_string()),
            implementation: short(ShownBytes(implementation).to_string()),
            version: format!("4.{}", view.minor_version),
            known_seconds: view.known.as_secs(),
            silent_seconds: view.silent.as_secs(),
            sessions: view.sessions as u64,
            opens: view.opens as u64,
            locks: view.locks as u64,
        }
    }
}

/// A text, cut when it is too long.
fn short(text: String) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl EvictQuestion {
    /// Whether a client is selected.
    #[must_use]
    pub fn means(&self, client: &ClientStatus) -> bool {
        match self {
            EvictQuestion::Id(id) => *id == client.id,
            EvictQuestion::Address(address) => *address == client.address,
        }
    }
}

impl fmt::Display for ClientStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, address, version) = (&self.id, &self.address, &self.version);
        writeln!(f, "{id}  {address}  NFSv{version}  {}", self.name)?;
        if !self.implementation.is_empty() {
            writeln!(f, "  implementation  {}", self.implementation)?;
        }
        writeln!(f, "  here for        {}", duration(self.known_seconds))?;
        writeln!(f, "  last request    {} ago", duration(self.silent_seconds))?;
        write!(
            f,
            "  holds           {}, {}, {}",
            Counted(self.opens, "open"),
            Counted(self.locks, "lock"),
            Counted(self.sessions, "session")
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nfs4_server::ClientId;

    use super::*;

    #[test]
    fn a_client_reads_well_whatever_it_calls_itself() {
        let view = ClientView {
            id: ClientId(0x1a_0000_0001),
            address: IpAddr::from([192, 0, 2, 7]),
            owner: (*b"Linux NFSv4.2 alpha\x1b[2J").into(),
            implementation: "Linux 6.1.0".to_owned(),
            minor_version: 2,
            known: Duration::from_secs(3700),
            silent: Duration::from_secs(2),
            sessions: 1,
            opens: 3,
            locks: 4,
        };
        let status = ClientStatus::from(&view);
        assert_eq!(
            status.to_string(),
            "1a00000001  192.0.2.7  NFSv4.2  Linux NFSv4.2 alpha\\u{1b}[2J
  implementation  Linux 6.1.0
  here for        1 h 1 min
  last request    2 s ago
  holds           3 opens, 4 locks, 1 session"
        );
        assert!(EvictQuestion::Id("1a00000001".to_owned()).means(&status));
        assert!(EvictQuestion::Address(view.address).means(&status));
        assert!(!EvictQuestion::Id("2".to_owned()).means(&status));
    }
}
