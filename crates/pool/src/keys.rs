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

/// Of what one run of a home makes its keys. It never leaves the home: who has some of the keys cannot tell the others.
#[derive(Clone)]
pub struct KeySource([u8; 32]);

/// Does not show the secret.
impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySource")
    }
}

impl KeySource {
    /// A source from a secret that was drawn at random for this run.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> KeySource {
        KeySource(secret)
    }

    /// The key of that number.
    #[must_use]
    pub(crate) fn key(&self, number: KeyNumber) -> HandleKey {
        let secret = blake3::keyed_hash(&self.0, &number.0.to_be_bytes());
        HandleKey::new(number, *secret.as_bytes())
    }
}

/// The keys of a home that count: the newest, and the one before.
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

    /// A key, and the one before.
    pub(crate) fn of(current: HandleKey, previous: Option<HandleKey>) -> HandleKeys {
        HandleKeys { current, previous }
    }

    /// The next key takes over; the present one still counts, and the one before it no longer does. The key in force is not
    /// replaced by itself.
    pub fn rotate(&mut self, next: HandleKey) {
        if next != self.current {
            self.previous = Some(std::mem::replace(&mut self.current, next));
        }
    }

    /// The newest key.
    #[must_use]
    pub fn current(&self) -> &HandleKey {
        &self.current
    }

    /// The one before, as long as it counts.
    pub(crate) fn previous(&self) -> Option<&HandleKey> {
        self.previous.as_ref()
    }

    /// The number of the oldest key that counts.
    pub(crate) fn oldest(&self) -> KeyNumber {
        self.previous.as_ref().unwrap_or(&self.current).number
    }

    /// The key of that number, if it counts.
    pub(crate) fn find(&self, number: KeyNumber) -> Option<&HandleKey> {
        let previous = self.previous.iter();
        std::iter::once(&self.current)
            .chain(previous)
            .find(|key| key.number == number)
    }
}
