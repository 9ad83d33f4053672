//! The state tables by themselves: no file system, no clock, no wire.

mod clients;
mod layouts;
mod newcomers;
mod opens;
mod restart;
mod sessions;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs4::SessionId4;
use vfs::ObjectId;

use super::*;

/// The connection over which everything comes.
const CONNECTION: ConnectionId = ConnectionId(1);

/// The address from which everything comes.
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// What numbers are derived from.
const KEY: [u8; KEY_BYTES] = [1; KEY_BYTES];

/// A state table with a clock of its own.
struct Table {
    state: State,
    now: Instant,
}

impl Table {
    fn new() -> Table {
        Table::after_restart(&[])
    }

    fn after_restart(owners: &[&str]) -> Table {
        let now = Instant::now();
        let owners = owners.iter().map(|owner| recorded(owner));
        Table {
            state: State::new(Limits::default(), 7, KEY, owners, now),
            now,
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn exchange(&mut self, owner: &str, verifier: u8, uid: u32) -> Result<Exchanged, NfsStat4> {
        let request = request(owner, verifier, uid);
        let (exchanged, departure) = self.state.exchange_id(request, self.now)?;
        self.see_off(departure);
        Ok(exchanged)
    }

    /// Everything that those held who have gone, in the order in which it is let go.
    fn see_off(&mut self, departures: impl IntoIterator<Item = Departure>) -> Vec<Release> {
        let mut releases = Vec::new();
        for departure in departures {
            while let Some(more) = self.state.next_releases(&departure) {
                releases.extend(more);
            }
        }
        releases
    }

    fn expire(&mut self) -> Vec<Release> {
        let departures = self.state.expire(self.now);
        self.see_off(departures)
    }

    fn admit(&mut self, client: ClientId, reclaim: Reclaim) -> Result<(), NfsStat4> {
        self.state.admit(client, reclaim, self.now).map(drop)
    }

    fn reclaim_complete(&mut self, client: ClientId) -> Result<(), NfsStat4> {
        let recording = self.state.owner_to_record(client)?;
        self.state.reclaim_complete(client, recording.as_ref())
    }

    fn create(&mut self, client: ClientId, sequence: u32) -> Result<CreatedSession, NfsStat4> {
        let request = create_request(client, sequence);
        let (created, departure) = self.state.create_session(&request, self.now)?;
        self.see_off(departure);
        Ok(created)
    }

    /// A confirmed client with a session that has completed its reclaim.
    fn client(&mut self, owner: &str) -> (ClientId, SessionId4) {
        let exchanged = self.exchange(owner, 1, 0).unwrap();
        let session = self
            .create(exchanged.client, exchanged.sequence)
            .unwrap()
            .session;
        self.reclaim_complete(exchanged.client).unwrap();
        (exchanged.client, session)
    }
}

/// A record that says of its client no more than the name.
fn recorded(owner: &str) -> ClientRecord {
    ClientRecord {
        owner: Arc::from(owner.as_bytes()),
        known_by: None,
    }
}

fn request(owner: &str, verifier: u8, uid: u32) -> ExchangeRequest {
    ExchangeRequest {
        identity: ClientIdentity {
            owner: Arc::from(owner.as_bytes()),
            verifier: [verifier; 8],
            principal: Principal::User(uid),
            address: ADDRESS,
        },
        update: false,
        implementation: String::new(),
        minor_version: 1,
    }
}

fn create_request(client: ClientId, sequence: u32) -> CreateSession {
    let channel = SessionChannel {
        request_bytes: 4096,
        response_bytes: 4096,
        cached_response_bytes: 1024,
        operations: 8,
        slots: 4,
    };
    CreateSession {
        client,
        sequence,
        principal: Principal::User(0),
        connection: CONNECTION,
        channel,
        back: BackChannel {
            program: 0x4000_0000,
            minor_version: 1,
            credentials: Some(oncrpc::Credentials::None),
            channel,
        },
        use_for_back_channel: true,
    }
}

fn file(number: u64) -> FileKey {
    FileKey {
        tree: 0,
        object: ObjectId::from_u64(number),
    }
}
