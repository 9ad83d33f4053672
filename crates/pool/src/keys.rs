//! The keys with which a home seals handles.

use crate::numbers::KeyNumber;
use std::fmt;

/// A secret that one home shares with the data servers of its pool, only to seal handles.
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

    /// The number of the key at its home; handles contain it.
    #[must_use]
    pub fn number(&self) -> KeyNumber {
        self.number
    }

    /// To be shown only to data servers of the pool.
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

/// The secret from which one run of a home derives its keys. It never leaves the home: a server with some of the keys cannot derive the others.
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

    /// The key with that number.
    #[must_use]
    pub(crate) fn key(&self, number: KeyNumber) -> HandleKey {
        let secret = blake3::keyed_hash(&self.0, &number.0.to_be_bytes());
        HandleKey::new(number, *secret.as_bytes())
    }
}

/// The keys of a home that count: the newest and the previous one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandleKeys {
    current: HandleKey,
    previous: Option<HandleKey>,
}

impl HandleKeys {
    /// The first key.
    #[must_use]
    pub fn new(current: HandleKey) -> HandleKeys {
        HandleKeys {
            current,
            previous: None,
        }
    }

    /// A key and the previous one.
    pub(crate) fn of(current: HandleKey, previous: Option<HandleKey>) -> HandleKeys {
        HandleKeys { current, previous }
    }

    /// The next key becomes current; the present key still counts, and the key before it no longer does. Nothing changes if the next key is
    /// already current.
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

    /// The previous key, as long as it counts.
    pub(crate) fn previous(&self) -> Option<&HandleKey> {
        self.previous.as_ref()
    }

    /// The number of the oldest key that counts.
    pub(crate) fn oldest(&self) -> KeyNumber {
        self.previous.as_ref().unwrap_or(&self.current).number
    }

    /// The key with that number, if it counts.
    pub(crate) fn find(&self, number: KeyNumber) -> Option<&HandleKey> {
        let previous = self.previous.iter();
        std::iter::once(&self.current)
            .chain(previous)
            .find(|key| key.number == number)
    }
}
