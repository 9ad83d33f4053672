//! TLS between replicas: which certificate each side must show, and the explanation of a failed handshake for people.
//!
//! Only TLS 1.3 is built in. Sessions are never resumed, so every connection proves both certificates.

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore,
    ServerConfig, SignatureScheme,
};
use vfs::ReplicaSlot;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::identity::SetId;

/// Announced by replicas that speak the protocol between replicas.
pub(crate) const ALPN_PEER: &[u8] = b"meridian-peer";

/// Announced by a server that has no certificate yet and wants to join.
pub(crate) const ALPN_JOIN: &[u8] = b"meridian-join";

/// Why certificates cannot be used: the files are damaged or do not belong together.
#[derive(Debug, thiserror::Error)]
#[error("the certificate or key of this replica cannot be used: {0}; restore the files of the set")]
pub struct IdentityError(String);

impl IdentityError {
    pub(crate) fn because(error: impl std::fmt::Display) -> IdentityError {
        IdentityError(error.to_string())
    }
}

/// The certificate and key of a replica. The key is never logged or shown.
pub struct Identity {
    pub(crate) set: SetId,
    pub(crate) slot: ReplicaSlot,
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) authority: CertificateDer<'static>,
}

impl Identity {
    /// The set that the replica belongs to.
    #[must_use]
    pub fn set(&self) -> SetId {
        self.set
    }

    /// The replica's slot in the set.
    #[must_use]
    pub fn slot(&self) -> ReplicaSlot {
        self.slot
    }

    /// A secret for one purpose, derived from this replica's own key. It is the same at every start, and in every copy
    /// of its files. `purpose` is a constant of the program and is used for nothing else (BLAKE3, `derive_key`).
    #[must_use]
    pub fn secret_for(&self, purpose: &str) -> [u8; 32] {
        blake3::derive_key(purpose, self.key.secret_der())
    }

    /// The chain that the replica shows: its certificate, and that of the authority, so that a joining server can
    /// compare it with the fingerprint in its token.
    fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.clone(), self.authority.clone()]
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "replica {} of set {}", self.slot.0, self.set)
    }
}

/// The name in the certificate of a replica. It is never resolved.
pub(crate) fn replica_name(set: SetId, slot: ReplicaSlot) -> String {
    format!("replica-{}.{set}.meridian.internal", slot.0)
}

/// The set and the replica that a certificate names; `None` when it names none.
pub(crate) fn replica_of(certificate: &CertificateDer<'_>) -> Option<(SetId, ReplicaSlot)> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let names = parsed.subject_alternative_name().ok()??;
    names.value.general_names.iter().find_map(|name| {
        let GeneralName::DNSName(name) = name else {
            return None;
        };
        let (slot, rest) = name.strip_prefix("replica-")?.split_once('.')?;
        let set = SetId::parse(rest.strip_suffix(".meridian.internal")?)?;
        Some((set, ReplicaSlot(slot.parse().ok()?)))
    })
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn roots(authority: &CertificateDer<'static>) -> Result<Arc<RootCertStore>, IdentityError> {
    let mut roots = RootCertStore::empty();
    roots
        .add(authority.clone())
        .map_err(IdentityError::because)?;
    Ok(Arc::new(roots))
}

/// The configuration to dial a replica: shows our certificate, and accepts only a certificate that the set's authority
/// signed for the intended replica.
pub(crate) fn dial_config(identity: &Identity) -> Result<Arc<ClientConfig>, IdentityError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(IdentityError::because)?
        .with_root_certificates(roots(&identity.authority)?)
        .with_client_auth_cert(identity.chain(), identity.key.clone_key())
        .map_err(IdentityError::because)?;
    config.alpn_protocols = vec![ALPN_PEER.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Verifies certificates of replicas of a set: accepts those that its authority signed.
pub(crate) fn verifier(
    authority: &CertificateDer<'static>,
) -> Result<Arc<dyn ClientCertVerifier>, IdentityError> {
    WebPkiClientVerifier::builder_with_provider(roots(authority)?, provider())
        .build()
        .map_err(IdentityError::because)
}

/// The configuration to accept replicas: requires a certificate that the set's authority signed.
pub(crate) fn accept_config(identity: &Identity) -> Result<Arc<ServerConfig>, IdentityError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(IdentityError::because)?
        .with_client_cert_verifier(verifier(&identity.authority)?)
        .with_single_cert(identity.chain(), identity.key.clone_key())
        .map_err(IdentityError::because)?;
    config.alpn_protocols = vec![ALPN_PEER.to_vec()];
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The configuration to accept a server that wants to join. It shows no certificate, only its token.
pub(crate) fn accept_join_config(identity: &Identity) -> Result<Arc<ServerConfig>, IdentityError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(IdentityError::because)?
        .with_no_client_auth()
        .with_single_cert(identity.chain(), identity.key.clone_key())
        .map_err(IdentityError::because)?;
    config.alpn_protocols = vec![ALPN_JOIN.to_vec()];
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The configuration to dial in order to join: accepts only a server whose chain ends in the authority with this
/// fingerprint.
pub(crate) fn join_config(fingerprint: [u8; 32]) -> Result<Arc<ClientConfig>, IdentityError> {
    let verifier = Arc::new(PinnedAuthority {
        fingerprint,
        provider: provider(),
    });
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(IdentityError::because)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN_JOIN.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// The fingerprint of an authority, as in a token.
pub(crate) fn fingerprint(authority: &CertificateDer<'_>) -> [u8; 32] {
    *blake3::hash(authority).as_bytes()
}

/// Trusts the authority with a known fingerprint, whose certificate the server itself presents, and every certificate
/// that this authority signed.
#[derive(Debug)]
struct PinnedAuthority {
    fingerprint: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let unknown = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let authority = intermediates
            .iter()
            .find(|candidate| fingerprint(candidate) == self.fingerprint)
            .ok_or_else(unknown)?;
        let (set, slot) = replica_of(end_entity).ok_or_else(unknown)?;
        let name = ServerName::try_from(replica_name(set, slot)).map_err(|_| unknown())?;
        let roots = roots(&authority.clone().into_owned()).map_err(|_| unknown())?;
        WebPkiServerVerifier::builder_with_provider(roots, self.provider.clone())
            .build()
            .map_err(|_| unknown())?
            .verify_server_cert(end_entity, &[], &name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Explains a broken connection or handshake to a person.
pub(crate) fn explain(error: &io::Error) -> String {
    match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>())
    {
        Some(error) => explain_tls(error),
        None => error.to_string(),
    }
}

fn explain_tls(error: &Error) -> String {
    use AlertDescription as Alert;
    use CertificateError as Bad;
    let text = match error {
        Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            "the other server's certificate has expired; check both clocks, then remove that replica \
             and let it join again"
        }
        Error::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => {
            "the other server's certificate is not valid yet; check the clocks of both servers"
        }
        Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
            "the other server belongs to another set or pool; check its address"
        }
        Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            "another replica of the set answers at this address; correct the addresses of the members"
        }
        Error::NoCertificatesPresented => {
            "the other server showed no certificate; let it join the set first"
        }
        Error::AlertReceived(Alert::CertificateExpired) => {
            "the other server says that our certificate has expired; check both clocks, then remove \
             this replica and let it join again"
        }
        Error::AlertReceived(Alert::UnknownCA | Alert::DecryptError) => {
            "the other server belongs to another set or pool and does not know our authority; check its address"
        }
        Error::AlertReceived(Alert::CertificateRequired) => {
            "the other server demands a certificate; join the set first"
        }
        other => {
            return format!("TLS failed: {other}; check that the address is that of a replica");
        }
    };
    text.to_owned()
}
