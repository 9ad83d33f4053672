//! The memory for clients, with one budget for all of it.
//!
//! Three eighths are for cached replies, reserved when a session is created: half of that is divided evenly, so that
//! the maximum number of clients get a session; the rest goes to the first clients that want more. Three eighths are
//! for opens and locks. A quarter is for requests and replies in transit, which the code for connections counts.
//!
//! What must never enter: the identity of clients.

use nfs4::NfsStat4;

use super::{Limits, SessionChannel};

/// The size of a slot without its cached reply, in bytes.
const SLOT_BYTES: u64 = 128;
/// The size of an open or a lock in all tables, without the name of its owner, in bytes.
const STATE_BYTES: u64 = 1024;
/// A cached reply has space for at least this number of bytes: enough for any operation that changes something.
const CACHED_REPLY_BYTES_MIN: u64 = 1024;
/// No client gets more than this part of what is left of the first come, first served share.
const PART_OF_LEFT: u64 = 16;

/// The used part of the budget, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Reserved for cached replies.
    pub replies: u64,
    /// Used by opens and locks.
    pub states: u64,
}

impl Limits {
    /// The limit for cached replies, in bytes.
    fn reply_bytes(&self) -> u64 {
        self.memory_bytes / 8 * 3
    }

    /// The limit for opens and locks, in bytes.
    fn state_bytes(&self) -> u64 {
        self.memory_bytes / 8 * 3
    }

    /// The limit for requests that are received or executed, and replies that wait to be sent, in bytes.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        self.memory_bytes / 4
    }
}

impl Memory {
    /// Reserves space for the replies of a session, and reduces the channel to the available space. Returns the reserved amount.
    /// `others_to_come`: this is a further session of a client, and this many clients may still come, for whose first sessions space is kept.
    ///
    /// # Errors
    /// `DELAY` when there is no space for a single slot.
    pub(super) fn reserve(
        &mut self,
        channel: &mut SessionChannel,
        others_to_come: Option<usize>,
        limits: &Limits,
    ) -> Result<u64, NfsStat4> {
        let (all, clients) = (limits.reply_bytes(), limits.clients.max(1) as u64);
        let even = all / 2 / clients;
        let left = all.saturating_sub(self.replies);
        let share = even.max(left.saturating_sub(all / 2) / PART_OF_LEFT);
        let cached = share.saturating_sub(SLOT_BYTES).max(CACHED_REPLY_BYTES_MIN);
        let cached = u64::from(channel.cached_response_bytes).min(cached);
        let slot = cached + SLOT_BYTES;
        let slots = u64::from(channel.slots).min((share / slot).max(1));
        let kept = others_to_come.map_or(0, |others| even * others as u64);
        if slots * slot > left.saturating_sub(kept) {
            return Err(NfsStat4::Delay);
        }
        // Neither value grows here.
        channel.cached_response_bytes = cached as u32;
        channel.slots = slots as u32;
        self.replies += slots * slot;
        Ok(slots * slot)
    }

    /// Returns what [`Memory::reserve`] has reserved.
    pub(super) fn give_back(&mut self, reserved: u64) {
        self.replies = self.replies.saturating_sub(reserved);
    }

    /// Reserves space for an open or a lock of this owner.
    ///
    /// # Errors
    /// `DELAY` when there is none.
    pub(super) fn add_state(&mut self, owner: &[u8], limits: &Limits) -> Result<(), NfsStat4> {
        let bytes = state_bytes(owner);
        if self.states + bytes > limits.state_bytes() {
            return Err(NfsStat4::Delay);
        }
        self.states += bytes;
        Ok(())
    }

    /// An open or a lock of this owner is removed.
    pub(super) fn remove_state(&mut self, owner: &[u8]) {
        self.states = self.states.saturating_sub(state_bytes(owner));
    }
}

fn state_bytes(owner: &[u8]) -> u64 {
    STATE_BYTES + owner.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> SessionChannel {
        SessionChannel {
            request_bytes: 1 << 20,
            response_bytes: 1 << 20,
            cached_response_bytes: 8 << 10,
            operations: 64,
            slots: 64,
        }
    }

    #[test]
    fn as_many_clients_as_there_may_be_get_a_session_within_the_budget() {
        for memory_bytes in [64 << 20, 1 << 30] {
            let limits = Limits {
                memory_bytes,
                ..Limits::default()
            };
            let (mut memory, mut reserved) = (Memory::default(), Vec::new());
            for number in 0..limits.clients {
                let mut channel = wanted();
                reserved.push(memory.reserve(&mut channel, None, &limits).unwrap());
                assert!(channel.slots > 0 && channel.cached_response_bytes >= 1024);
                assert!(number > 0 || memory_bytes < 1 << 30 || channel == wanted());
                assert!(memory.replies <= limits.reply_bytes(), "client {number}");
            }
            reserved
                .into_iter()
                .for_each(|bytes| memory.give_back(bytes));
            assert_eq!(memory, Memory::default());
        }
    }

    #[test]
    fn when_the_budget_is_used_up_clients_are_told_to_come_again() {
        let limits = Limits::default();
        let mut memory = Memory::default();
        let others = Some(limits.clients / 2);
        let refused =
            (0..1_000_000).find_map(|_| memory.reserve(&mut wanted(), others, &limits).err());
        assert_eq!(refused, Some(NfsStat4::Delay));
        for _ in 0..limits.clients / 2 {
            let first = memory.reserve(&mut wanted(), None, &limits);
            first.expect("others' further sessions have used up the space of first ones");
        }
        let refused =
            (0..1_000_000).find_map(|_| memory.reserve(&mut wanted(), None, &limits).err());
        assert_eq!(refused, Some(NfsStat4::Delay));
        assert!(memory.replies <= limits.reply_bytes());
        let refused = (0..10_000_000).find_map(|_| memory.add_state(b"owner", &limits).err());
        assert_eq!(refused, Some(NfsStat4::Delay));
        assert!(memory.states <= limits.state_bytes());
    }
}
