//! An invitation as the inviting replica stores it, and the check of a server that uses it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use rustls::pki_types::CertificateSigningRequestDer;
use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

use super::token::{is_same, proof, proof_of_answer};
use super::{Kind, Places, SetError, TokenError};
use crate::identity::SetId;

/// The role of the server that joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The normal role: a replica in a set, a data server in a pool.
    #[default]
    Ordinary,
    /// A member of a set that votes and keeps no contents.
    Witness,
    /// A member of a pool that serves the name space to clients.
    MetadataServer,
}

/// An invitation that was handed out.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Invitation {
    pub(crate) slot: u16,
    /// The server that uses it becomes a witness.
    #[serde(default)]
    pub(crate) witness: bool,
    /// The server that uses it becomes a metadata server of the pool.
    #[serde(default)]
    pub(crate) metadata_server: bool,
    /// The name of the member; empty for none.
    #[serde(default)]
    pub(crate) name: String,
    expires_unix_s: u64,
    secret: String,
    /// Fingerprint of the signing request that used it. The same request may come again after its answer was lost.
    used_by: Option<String>,
}

impl Invitation {
    pub(crate) fn new(
        slot: u16,
        (role, name): (Role, String),
        expires_unix_s: u64,
        secret: &[u8; 32],
    ) -> Invitation {
        Invitation {
            slot,
            witness: role == Role::Witness,
            metadata_server: role == Role::MetadataServer,
            name,
            expires_unix_s,
            secret: HEXLOWER.encode(secret),
            used_by: None,
        }
    }

    /// From now on the invitation is valid for this request only.
    pub(crate) fn use_up(&mut self, request: &CertificateSigningRequestDer<'_>) {
        self.used_by = Some(used_by(request));
    }

    /// When it expires, in whole seconds.
    pub(crate) fn expires(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.expires_unix_s)
    }

    /// Whether it was used to admit a server.
    pub(crate) fn is_used(&self) -> bool {
        self.used_by.is_some()
    }

    /// Whether it can still admit a server.
    pub(crate) fn is_open(&self, now: SystemTime) -> bool {
        !self.is_used() && now <= self.expires()
    }

    fn secret(&self, kind: Kind) -> Result<[u8; 32], SetError> {
        let secret = HEXLOWER.decode(self.secret.as_bytes()).ok();
        let secret = secret.and_then(|secret| secret.try_into().ok());
        secret.ok_or_else(|| unknown_token(kind))
    }

    /// Proves to the server with the token that the answer about the tree comes from the keeper of the authority.
    pub(crate) fn prove_answer(
        &self,
        (kind, set): (Kind, SetId),
        request: &CertificateSigningRequestDer<'_>,
        tree: &[u8],
    ) -> Result<[u8; 32], SetError> {
        let place = (set, ReplicaSlot(self.slot));
        Ok(proof_of_answer(&self.secret(kind)?, place, request, tree))
    }

    /// Checks a proof. A caller that does not know the secret learns nothing about the invitation.
    pub(crate) fn check(
        &self,
        (kind, set): (Kind, SetId),
        shown: &[u8],
        (request, places): (&CertificateSigningRequestDer<'_>, &Places),
        now: SystemTime,
    ) -> Result<(), SetError> {
        let place = (set, ReplicaSlot(self.slot));
        let expected = proof(&self.secret(kind)?, place, request, places);
        if !is_same(shown, expected) {
            return Err(unknown_token(kind));
        }
        if let Ok(ago) = now.duration_since(self.expires())
            && !ago.is_zero()
        {
            return Err(TokenError::Expired { kind, ago }.into());
        }
        match &self.used_by {
            Some(user) if *user != used_by(request) => Err(SetError::Refused(format!(
                "the token has been used; ask for a new one with `meridian {kind} invite`"
            ))),
            _ => Ok(()),
        }
    }
}

/// The one error for every token that does not fit, whatever the reason.
pub(crate) fn unknown_token(kind: Kind) -> SetError {
    SetError::Refused(format!(
        "the token is not one of this {kind}; ask for a new one with `meridian {kind} invite`"
    ))
}

fn used_by(request: &CertificateSigningRequestDer<'_>) -> String {
    blake3::hash(request).to_hex().to_string()
}
