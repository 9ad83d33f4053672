//! The numbers for clients, sessions and states. No client can guess a number of another client, of another start of
//! the server, or of another server with the same scope.
//!
//! Pure: the secret key is an argument. What must never enter: the meaning of a number.

use nfs4::{NfsStat4, SessionId4, Stateid4};

use super::client::ClientId;
use super::stateid::Seqid;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// The number of bits of a number in a stateid: at a million per second they last for nine years.
const STATE_BITS: u32 = 48;

/// The source of the numbers.
pub(super) struct Numbers {
    /// Random, and different at each start.
    key: [u8; KEY_BYTES],
    /// The number of this start.
    incarnation: u32,
    /// This server's number among those with the same scope; 0 for one on its own.
    place: u16,
    clients: u64,
    sessions: u64,
    states: u64,
}

/// The purpose of a number, so that numbers of one kind reveal nothing about another kind.
#[derive(Clone, Copy)]
enum Of {
    Client = 1,
    Session = 2,
    State = 3,
    /// A state that was never granted.
    NoState = 4,
}

impl std::fmt::Debug for Numbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the key.
        f.debug_struct("Numbers")
            .field("incarnation", &self.incarnation)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl Numbers {
    pub(super) fn new(key: [u8; KEY_BYTES], incarnation: u32) -> Numbers {
        Numbers {
            key,
            incarnation,
            place: 0,
            clients: 0,
            sessions: 0,
            states: 0,
        }
    }

    /// Clients may send stateids of another server with the same scope, so the stateid contains the server's number.
    pub(super) fn among_others(&mut self, place: u16) {
        self.place = place;
    }

    /// A new number for a client, and its position in the sequence. Collisions are as rare as with 64 random bits.
    pub(super) fn next_client(&mut self) -> (u64, ClientId) {
        self.clients += 1;
        let id = u64::from_be_bytes(self.derive(Of::Client, self.clients));
        // Zero means clients of other servers.
        (self.clients, ClientId(id.max(1)))
    }

    /// A session id that is unique over all starts and servers: it identifies recorded requests everywhere.
    pub(super) fn next_session(&mut self) -> SessionId4 {
        self.sessions += 1;
        SessionId4(self.derive(Of::Session, self.sessions))
    }

    /// A new number for a state of this start. It is unique within the server.
    pub(super) fn next_state(&mut self) -> u64 {
        self.states += 1;
        self.states
    }

    /// The stateid of a state: the server's number, four secret bytes, and the number of the state.
    pub(super) fn stateid(&self, state: u64, seqid: Seqid) -> Stateid4 {
        self.compose(Of::State, state, seqid.wire())
    }

    /// A stateid as an earlier start may have granted it. It is never valid.
    pub(super) fn bygone_stateid(&mut self) -> Stateid4 {
        let state = self.next_state();
        self.compose(Of::NoState, state, 1)
    }

    /// The number of the state in a stateid.
    ///
    /// # Errors
    /// `BAD_STATEID` unless it is of this start of this server.
    pub(super) fn state_of(&self, stateid: &Stateid4) -> Result<u64, NfsStat4> {
        let mut number = [0; 8];
        number[2..].copy_from_slice(&stateid.other[6..]);
        let state = u64::from_be_bytes(number);
        match self.compose(Of::State, state, stateid.seqid) == *stateid {
            true => Ok(state),
            false => Err(NfsStat4::BadStateid),
        }
    }

    /// The number of the server that issued a stateid, unless it is a special one.
    pub(super) fn place_of(stateid: &Stateid4) -> u16 {
        u16::from_be_bytes([stateid.other[0], stateid.other[1]])
    }

    fn compose(&self, of: Of, state: u64, seqid: u32) -> Stateid4 {
        let place = match of {
            Of::NoState => 0,
            _ => self.place,
        };
        let secret: [u8; 4] = self.derive(of, state);
        let number = state & ((1 << STATE_BITS) - 1);
        let mut other = [0; 12];
        other[..2].copy_from_slice(&place.to_be_bytes());
        other[2..6].copy_from_slice(&secret);
        other[6..].copy_from_slice(&number.to_be_bytes()[2..]);
        Stateid4 { seqid, other }
    }

    fn derive<const BYTES: usize>(&self, of: Of, number: u64) -> [u8; BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&[of as u8]);
        hasher.update(&self.place.to_be_bytes());
        hasher.update(&self.incarnation.to_be_bytes());
        hasher.update(&number.to_be_bytes());
        let mut derived = [0; BYTES];
        hasher.finalize_xof().fill(&mut derived);
        derived
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn numbers(key: u8, incarnation: u32, place: u16) -> Numbers {
        let mut numbers = Numbers::new([key; KEY_BYTES], incarnation);
        numbers.among_others(place);
        numbers
    }

    /// All servers and starts give different numbers, even with the same key.
    #[test]
    fn numbers_differ_between_keys_starts_and_servers() {
        const EACH: usize = 100;
        let all = [(1, 7, 0), (2, 7, 0), (1, 8, 0), (1, 7, 1), (1, 7, 2)];
        let (mut clients, mut sessions, mut states) =
            (HashSet::new(), HashSet::new(), HashSet::new());
        for (key, incarnation, place) in all {
            let mut numbers = numbers(key, incarnation, place);
            for _ in 0..EACH {
                clients.insert(numbers.next_client().1);
                sessions.insert(numbers.next_session());
                let state = numbers.next_state();
                states.insert(numbers.stateid(state, Seqid::FIRST).other);
                states.insert(numbers.bygone_stateid().other);
            }
        }
        let count = all.len() * EACH;
        assert_eq!((clients.len(), sessions.len()), (count, count));
        assert_eq!(states.len(), 2 * count);
    }

    /// A client that knows one number knows no bit of the next: about half of the bits differ.
    #[test]
    fn numbers_say_nothing_of_each_other() {
        let mut numbers = numbers(1, 7, 0);
        let mut differing = 0;
        let mut last = numbers.next_session();
        for _ in 0..1000 {
            let next = numbers.next_session();
            let bits = last.0.iter().zip(next.0).map(|(a, b)| (a ^ b).count_ones());
            differing += bits.sum::<u32>();
            last = next;
        }
        assert!((62_000..66_000).contains(&differing), "{differing}");
    }

    #[test]
    fn a_stateid_of_another_start_or_server_or_with_other_bytes_is_none() {
        let mut here = numbers(1, 7, 3);
        let state = here.next_state();
        let stateid = here.stateid(state, Seqid::FIRST.next());
        assert_eq!(here.state_of(&stateid), Ok(state));
        assert_eq!(Numbers::place_of(&stateid), 3);
        for elsewhere in [numbers(2, 7, 3), numbers(1, 8, 3), numbers(1, 7, 4)] {
            assert_eq!(elsewhere.state_of(&stateid), Err(NfsStat4::BadStateid));
        }
        for bit in 0..96 {
            let mut changed = stateid;
            changed.other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(here.state_of(&changed), Err(NfsStat4::BadStateid), "{bit}");
        }
        let bygone = here.bygone_stateid();
        assert_eq!(here.state_of(&bygone), Err(NfsStat4::BadStateid));
        assert_eq!(Numbers::place_of(&bygone), 0);
    }
}
