//! Signatures that prove the maker of a piece of data to members that get it from another member.
//!
//! A connection proves the identity of its other end. Data that a third member passes on is proved by a signature with the key of its maker's certificate,
//! which the set's authority has signed. A signature is bound to the set, the maker and a meaning.
//!
//! What must never enter: the content that is signed, and which members are trusted.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use rcgen::{KeyPair, SigningKey};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use vfs::ReplicaSlot;

use crate::identity::SetId;
use crate::set::has_signed;
use crate::tls::{self, Identity, IdentityError};

/// Why a signature does not prove the maker, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    /// The certificate does not belong to the set, or has expired.
    #[error("the set's authority did not sign the maker's certificate, or it has expired")]
    Certificate,
    /// The certificate belongs to another replica.
    #[error("the certificate is that of another replica")]
    OtherReplica,
    /// These bytes, with this meaning, were not signed with that certificate's key.
    #[error("the maker did not sign this")]
    Signature,
}

/// Signs for one replica, and verifies the signatures of the other members of its set. The key is never logged or shown.
pub struct Signatures {
    set: SetId,
    slot: ReplicaSlot,
    key: KeyPair,
    certificate: Bytes,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl fmt::Debug for Signatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "signatures of replica {} of set {}",
            self.slot.0, self.set
        )
    }
}

impl Signatures {
    /// For the replica with this identity.
    ///
    /// # Errors
    /// [`IdentityError`] when the files are damaged or do not belong together.
    pub fn new(identity: &Identity) -> Result<Signatures, IdentityError> {
        Ok(Signatures {
            set: identity.set,
            slot: identity.slot,
            key: KeyPair::try_from(&identity.key).map_err(IdentityError::because)?,
            certificate: Bytes::copy_from_slice(&identity.certificate),
            verifier: tls::verifier(&identity.authority)?,
        })
    }

    /// The certificate with which others verify signatures of this replica, in DER.
    #[must_use]
    pub fn certificate(&self) -> Bytes {
        self.certificate.clone()
    }

    /// A signature of these bytes by this replica: ECDSA over P-256 with SHA-256. Empty, and therefore invalid, when
    /// the system has no random numbers.
    #[must_use]
    pub fn sign(&self, meaning: &str, bytes: &[u8]) -> Vec<u8> {
        let text = self.text(meaning, self.slot, bytes);
        SigningKey::sign(&self.key, &text).unwrap_or_default()
    }

    /// Checks that this is a certificate of that replica, signed by the set's authority.
    ///
    /// # Errors
    /// The reason why it is not.
    pub fn verify_certificate(&self, of: ReplicaSlot, certificate: &[u8]) -> Result<(), Unproven> {
        let certificate = CertificateDer::from(certificate);
        if tls::replica_of(&certificate) != Some((self.set, of)) {
            return Err(Unproven::OtherReplica);
        }
        let verified = self
            .verifier
            .verify_client_cert(&certificate, &[], UnixTime::now());
        verified.map(drop).map_err(|_| Unproven::Certificate)
    }

    /// Checks that the replica of this certificate has signed these bytes with this meaning.
    ///
    /// # Errors
    /// The reason why it has not.
    pub fn verify(
        &self,
        (by, certificate): (ReplicaSlot, &[u8]),
        meaning: &str,
        bytes: &[u8],
        signature: &[u8],
    ) -> Result<(), Unproven> {
        self.verify_certificate(by, certificate)?;
        let text = self.text(meaning, by, bytes);
        match has_signed(&CertificateDer::from(certificate), &text, signature) {
            true => Ok(()),
            false => Err(Unproven::Signature),
        }
    }

    /// The signed bytes. All parts except the meaning have a fixed length, and no meaning contains a zero byte.
    fn text(&self, meaning: &str, by: ReplicaSlot, bytes: &[u8]) -> Vec<u8> {
        let digest = blake3::hash(bytes);
        let parts: [&[u8]; 6] = [
            b"meridian ",
            meaning.as_bytes(),
            b"\0",
            &self.set.0,
            &by.0.to_be_bytes(),
            digest.as_bytes(),
        ];
        parts.concat()
    }
}
