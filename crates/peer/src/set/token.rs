//! The string that a person copies from a member of the set to a server that joins it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use prost::Message as _;
use vfs::ReplicaSlot;

use super::{Kind, Places};
use crate::identity::SetId;

/// The longest token, in characters.
const CHARACTERS_MAX: usize = 4096;

/// Size of the checksum that detects an incompletely copied token.
const CHECKSUM_BYTES: usize = 4;

/// Why a token is invalid, or not valid any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It does not begin like a token.
    #[error(
        "this is not a token; copy the whole line that `meridian {0} invite` printed, beginning with `{prefix}`", prefix = .0.token_prefix()
    )]
    NotAToken(Kind),
    /// It is for joining something else.
    #[error(
        "this is the token of a {0}; it is given to `meridian {0} join`. Nothing has changed here"
    )]
    Other(Kind),
    /// Characters are missing or changed.
    #[error(
        "the token was not copied whole; copy the line that `meridian {0} invite` printed again"
    )]
    Damaged(Kind),
    /// It has expired.
    #[error("by the clock of this machine the token expired {} minutes ago; ask for a new one with `meridian {kind} invite`, or set the clock", .ago.as_secs() / 60)]
    Expired {
        /// What it admitted a server to.
        kind: Kind,
        /// How long ago it expired.
        ago: Duration,
    },
}

/// An invitation in the form that is copied. Its secret admits one server to the set, so treat it as a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// What it admits a server to.
    pub kind: Kind,
    /// The set.
    pub set: SetId,
    /// The slot of the invited replica.
    pub slot: ReplicaSlot,
    /// The addresses of members with the authority's key.
    pub addresses: Vec<String>,
    /// BLAKE3 of the authority's certificate.
    pub authority_fingerprint: [u8; 32],
    /// Works once.
    pub(crate) secret: [u8; 32],
    /// When the token expires, in whole seconds.
    pub expires: SystemTime,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "token for slot {} of {} {}",
            self.slot.0, self.kind, self.set
        )
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireToken {
    #[prost(bytes = "bytes", tag = "1")]
    set: Bytes,
    #[prost(uint32, tag = "2")]
    slot: u32,
    #[prost(string, repeated, tag = "3")]
    addresses: Vec<String>,
    #[prost(bytes = "bytes", tag = "4")]
    authority_fingerprint: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    secret: Bytes,
    #[prost(uint64, tag = "6")]
    expires_unix_s: u64,
}

impl Token {
    /// The string to copy.
    #[must_use]
    pub fn encode(&self) -> String {
        let wire = WireToken {
            set: Bytes::copy_from_slice(&self.set.0),
            slot: self.slot.0.into(),
            addresses: self.addresses.clone(),
            authority_fingerprint: Bytes::copy_from_slice(&self.authority_fingerprint),
            secret: Bytes::copy_from_slice(&self.secret),
            expires_unix_s: unix_seconds(self.expires),
        };
        let mut bytes = wire.encode_to_vec();
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_be_bytes());
        let prefix = self.kind.token_prefix();
        format!("{prefix}{}", BASE64URL_NOPAD.encode(&bytes))
    }

    /// Decodes a string that [`Token::encode`] made, and checks that it is for joining `wanted`.
    ///
    /// # Errors
    /// [`TokenError::NotAToken`], [`TokenError::Other`] and [`TokenError::Damaged`].
    pub fn parse(wanted: Kind, text: &str) -> Result<Token, TokenError> {
        let text = text.trim();
        let is_of = |kind: &Kind| text.starts_with(kind.token_prefix());
        let kind = Kind::ALL.into_iter().find(is_of);
        let kind = kind.ok_or(TokenError::NotAToken(wanted))?;
        if kind != wanted {
            return Err(TokenError::Other(kind));
        }
        let encoded = &text[kind.token_prefix().len()..];
        if encoded.len() > CHARACTERS_MAX {
            return Err(TokenError::Damaged(kind));
        }
        decode(kind, encoded).ok_or(TokenError::Damaged(kind))
    }

    /// Whether the token is still valid.
    ///
    /// # Errors
    /// [`TokenError::Expired`].
    pub fn check_expiry(&self, now: SystemTime) -> Result<(), TokenError> {
        match now.duration_since(self.expires) {
            Ok(ago) if !ago.is_zero() => Err(TokenError::Expired {
                kind: self.kind,
                ago,
            }),
            _ => Ok(()),
        }
    }
}

fn decode(kind: Kind, encoded: &str) -> Option<Token> {
    let bytes = BASE64URL_NOPAD.decode(encoded.as_bytes()).ok()?;
    let (bytes, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM_BYTES)?)?;
    if crc32c::crc32c(bytes).to_be_bytes() != *checksum {
        return None;
    }
    from_wire(kind, bytes)
}

/// The token, after its checksum was verified.
pub(super) fn from_wire(kind: Kind, bytes: &[u8]) -> Option<Token> {
    let wire = WireToken::decode(bytes).ok()?;
    Some(Token {
        kind,
        set: SetId(wire.set[..].try_into().ok()?),
        slot: ReplicaSlot(wire.slot.try_into().ok()?),
        addresses: wire.addresses,
        authority_fingerprint: wire.authority_fingerprint[..].try_into().ok()?,
        secret: wire.secret[..].try_into().ok()?,
        expires: UNIX_EPOCH.checked_add(Duration::from_secs(wire.expires_unix_s))?,
    })
}

/// Whole seconds since 1970.
pub(crate) fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// The joining server shows this proof instead of the secret. Only the holder of the token can make it, and it is valid
/// only for this signing request and these addresses.
pub(crate) fn proof(
    secret: &[u8; 32],
    (set, slot): (SetId, ReplicaSlot),
    request: &[u8],
    places: &Places,
) -> [u8; 32] {
    let addresses = places.addresses.iter().map(String::as_bytes);
    // Without addresses for clients the proof equals that of older programs, which do not have them. No address is
    // empty, so the empty part separates the two lists.
    let clients = places.client_addresses.iter().map(String::as_bytes);
    let between = (!places.client_addresses.is_empty()).then_some(&b""[..]);
    keyed(
        secret,
        b"joins",
        (set, slot),
        [request]
            .into_iter()
            .chain(addresses)
            .chain(between)
            .chain(clients),
    )
}

/// The proof that the keeper of the authority shows in return. It covers what the signed list and the certificate do not contain.
pub(crate) fn proof_of_answer(
    secret: &[u8; 32],
    (set, slot): (SetId, ReplicaSlot),
    request: &[u8],
    tree: &[u8],
) -> [u8; 32] {
    keyed(secret, b"admits", (set, slot), [request, tree])
}

/// Hashes every part with its length, so that different sequences of parts never give the same bytes.
fn keyed<'a>(
    secret: &[u8; 32],
    what: &[u8],
    (set, slot): (SetId, ReplicaSlot),
    parts: impl IntoIterator<Item = &'a [u8]>,
) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    let mut add = |part: &[u8]| {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part);
    };
    add(what);
    add(&set.0);
    add(&slot.0.to_be_bytes());
    parts.into_iter().for_each(add);
    *hasher.finalize().as_bytes()
}

/// Whether two such codes are equal, in constant time.
pub(crate) fn is_same(shown: &[u8], expected: [u8; 32]) -> bool {
    let shown: Result<[u8; 32], _> = shown.try_into();
    // `Hash` compares in constant time.
    shown.is_ok_and(|shown| blake3::Hash::from_bytes(shown) == blake3::Hash::from_bytes(expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Token {
        Token {
            kind: Kind::Set,
            set: SetId([3; 16]),
            slot: ReplicaSlot(2),
            addresses: vec!["a.example:2100".to_owned(), "[::1]:2100".to_owned()],
            authority_fingerprint: [4; 32],
            secret: [5; 32],
            expires: UNIX_EPOCH + Duration::from_secs(1000),
        }
    }

    #[test]
    fn a_token_reads_back_as_written_even_with_white_space_around_it() {
        let text = format!("  {}\n", sample().encode());
        assert_eq!(Token::parse(Kind::Set, &text), Ok(sample()));
    }

    #[test]
    fn a_token_that_was_not_copied_whole_is_known() {
        let text = sample().encode();
        for length in Kind::Set.token_prefix().len()..text.len() {
            let parsed = Token::parse(Kind::Set, &text[..length]);
            assert_eq!(parsed, Err(TokenError::Damaged(Kind::Set)));
        }
        let parsed = Token::parse(Kind::Set, "hello");
        assert_eq!(parsed, Err(TokenError::NotAToken(Kind::Set)));
    }

    #[test]
    fn the_token_of_a_pool_is_none_of_a_set_and_the_other_way_round() {
        for (kind, other) in [(Kind::Set, Kind::Pool), (Kind::Pool, Kind::Set)] {
            let token = Token { kind, ..sample() };
            assert_eq!(Token::parse(kind, &token.encode()), Ok(token.clone()));
            let error = Token::parse(other, &token.encode()).expect_err("refused");
            let says = format!("the token of a {kind}; it is given to `meridian {kind} join`");
            assert!(error.to_string().contains(&says), "{error}");
        }
    }

    #[test]
    fn a_token_works_up_to_its_second_and_not_after() {
        let token = sample();
        assert_eq!(token.check_expiry(token.expires), Ok(()));
        let later = token.expires + Duration::from_secs(120);
        let error = token.check_expiry(later).expect_err("expired");
        assert!(error.to_string().contains("2 minutes ago"), "{error}");
    }

    #[test]
    fn a_token_shows_no_secret_when_it_is_logged() {
        assert_eq!(
            format!("{:?}", sample()),
            "token for slot 2 of set 03030303030303030303030303030303"
        );
    }

    proptest! {
        #[test]
        fn garbage_is_no_token(text in "\\PC{0,200}", bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(Token::parse(Kind::Set, &text).is_err());
            let encoded = BASE64URL_NOPAD.encode(&bytes);
            let prefix = Kind::Pool.token_prefix();
            let token = format!("{prefix}{encoded}");
            prop_assert!(Token::parse(Kind::Pool, &token).is_err());
            let mut summed = bytes;
            summed.extend_from_slice(&crc32c::crc32c(&summed).to_be_bytes());
            let token = format!("{prefix}{}", BASE64URL_NOPAD.encode(&summed));
            let _ = Token::parse(Kind::Pool, &token);
        }
    }
}
