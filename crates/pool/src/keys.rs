//! The keys with which a home seals handles.

use crate::numbers::KeyNumber;
use std::fmt;

/// A secret that one home shares with the data servers of its pool, for sealing handles and for nothing else.
#[derive(Clone, PartialEq, Eq)]
pub struct HandleKey {
    number: KeyNumber,
    secret: [u8; 32],
}

impl HandleKey {
    /// A key from a secret that was drawn at random for it.
    #[must_use]
    pub fn new(number: KeyNumber, secret: [u8; 32]) -> HandleKey {
        HandleKey { number, secret }
    }

    /// Which key of its home it is; handles say it.
    #[must_use]
    pub fn number(&self) -> KeyNumber {
        self.number
    }

    /// To be shown to data servers of the pool alone.
    #[must_use]
    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }
}

/// Does not show the secret.
impl fmt::Debug for HandleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandleKey({})", self.number.0)
    }
}

/// The key that a home seals with now, and the one before, which still counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandleKeys {
    current: HandleKey,
    previous: Option<HandleKey>,
}

impl HandleKeys {
    /// A first key.
    #[must_use]
    pub fn new(current: HandleKey) -> HandleKeys {
        HandleKeys {
            current,
            previous: None,
        }
    }

    /// The next key takes over; the present one still counts, and the one before it no longer does. The key in force is not
    /// replaced by itself.
    pub fn rotate(&mut self, next: HandleKey) {
        if next != self.current {
            self.previous = Some(std::mem::replace(&mut self.current, next));
        }
    }

    /// The key to seal with.
    #[must_use]
    pub fn current(&self) -> &HandleKey {
        &self.current
    }

    /// The key of that number, if it counts.
    pub(crate) fn find(&self, number: KeyNumber) -> Option<&HandleKey> {
        let previous = self.previous.iter();
        std::iter::once(&self.current)
            .chain(previous)
            .find(|key| key.number == number)
    }
}
