//! The key of a server that has asked to join and has no answer yet. It asks again with the same key.
//!
//! A token admits one key. With a new key for each attempt, a lost answer would use the token up. The file is beside
//! the directory of the set, which does not exist yet, and is removed after the answer.
//!
//! What must never enter: the network.

use std::path::PathBuf;

use data_encoding::BASE64;
use rustls::pki_types::CertificateSigningRequestDer;
use serde::{Deserialize, Serialize};

use super::authority::make_request;
use super::directory::SetDirectory;
use super::files;
use super::token::Token;
use super::{Places, SetError};

/// The key and the request of a server that asks to join.
pub(super) struct Asking {
    pub(super) key_pem: String,
    /// PKCS #10, DER.
    pub(super) request: CertificateSigningRequestDer<'static>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    /// Fingerprint of the token's secret.
    token: String,
    key: String,
    request: String,
}

/// [`crate::decode_as_anything`] for an attempt to join.
pub(super) fn decode_as_anything(bytes: &[u8]) {
    drop(serde_json::from_slice::<Kept>(bytes));
}

impl SetDirectory {
    fn asking_file(&self) -> PathBuf {
        let mut name = self.path().as_os_str().to_owned();
        name.push(".asking");
        PathBuf::from(name)
    }

    /// The key and the signing request for a token: those of the last attempt with it, or new ones, which are stored.
    pub(super) fn begin_joining(&self, token: &Token) -> Result<Asking, SetError> {
        let (path, token) = (
            self.asking_file(),
            blake3::hash(&token.secret).to_hex().to_string(),
        );
        // An unreadable file is useless, and is replaced.
        let kept = files::read(&path).ok();
        let kept = kept.and_then(|text| serde_json::from_str::<Kept>(&text).ok());
        let kept = kept.filter(|kept| kept.token == token);
        if let Some(kept) = kept
            && let Ok(request) = BASE64.decode(kept.request.as_bytes())
        {
            return Ok(Asking {
                key_pem: kept.key,
                request: request.into(),
            });
        }
        let (key, request) = make_request()?;
        let key_pem = key.serialize_pem();
        let kept = Kept {
            token,
            key: key_pem.clone(),
            request: BASE64.encode(&request),
        };
        if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
            files::make_directory(parent)?;
        }
        let json = serde_json::to_vec(&kept).map_err(|error| files::damaged(&path, error))?;
        files::replace(&path, &json)?;
        Ok(Asking { key_pem, request })
    }

    /// Whether the directory already contains the result of this token with these addresses: the joining server was
    /// interrupted before it reported success, or asks once more. Then nothing is left to do.
    ///
    /// # Errors
    /// File errors.
    pub fn has_joined(&self, token: &Token, places: &Places) -> Result<bool, SetError> {
        if !self.exists()? {
            return Ok(false);
        }
        let file = self.read_set()?;
        let own = file.list.member(file.slot);
        let own = own.filter(|own| !own.revoked);
        let is_it = own.is_some_and(|own| {
            (self.set_id(&file).ok(), own.slot) == (Some(token.set), token.slot.0)
                && own.addresses == places.addresses
                && own.client_addresses == places.client_addresses
        });
        if is_it {
            self.end_joining()?;
        }
        Ok(is_it)
    }

    /// Whether the directory contains a set that was created with this text about the tree and these addresses, and
    /// that has no invitations.
    ///
    /// # Errors
    /// File errors.
    pub fn has_begun(&self, tree: &[u8], addresses: &[String]) -> Result<bool, SetError> {
        if !self.exists()? || self.tree()? != tree || !self.read_invitations()?.is_empty() {
            return Ok(false);
        }
        let file = self.read_set()?;
        Ok(match &file.list.members[..] {
            [only] => only.slot == file.slot && only.addresses == addresses,
            _ => false,
        })
    }

    /// The file of a request to join that was not answered here, if there is one: the set may have admitted this server.
    ///
    /// # Errors
    /// File errors.
    pub fn unanswered_request(&self) -> Result<Option<PathBuf>, SetError> {
        let path = self.asking_file();
        let is_open = !self.exists()? && files::exists(&path)?;
        Ok(is_open.then_some(path))
    }

    /// The set has answered.
    pub(super) fn end_joining(&self) -> Result<(), SetError> {
        files::remove(&self.asking_file())
    }
}
