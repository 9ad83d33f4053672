//! The set's certificate authority: signs the certificates of replicas and the lists of members, nothing else.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
    SanType, SigningKey,
};
use rustls::SignatureScheme;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer};
use time::OffsetDateTime;
use vfs::ReplicaSlot;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::SetError;
use crate::identity::SetId;
use crate::tls::replica_name;

/// How long the certificate of a replica is valid. This is long, because nothing renews it: a replica that is no longer
/// trusted is removed from the set, which takes effect at once.
pub const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(10 * 365 * 86_400);

/// How long the authority is valid.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(30 * 365 * 86_400);

/// Certificates are valid from one day before their creation, because clocks differ.
const CLOCKS_DIFFER_BY: Duration = Duration::from_secs(86_400);

fn failed(error: impl std::fmt::Display) -> SetError {
    SetError::Certificate(error.to_string())
}

/// A new key and the authority's own certificate, in PEM.
pub(crate) fn make_authority(set: SetId, now: SystemTime) -> Result<(KeyPair, String), SetError> {
    let key = KeyPair::generate().map_err(failed)?;
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = name(format!("Meridian set {set}"));
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut parameters, now, AUTHORITY_LIFETIME);
    let certificate = parameters.self_signed(&key).map_err(failed)?;
    Ok((key, certificate.pem()))
}

/// The signing request of a new replica: its public key. The authority decides everything else.
pub(crate) fn make_request() -> Result<(KeyPair, CertificateSigningRequestDer<'static>), SetError> {
    let key = KeyPair::generate().map_err(failed)?;
    let request = CertificateParams::default()
        .serialize_request(&key)
        .map_err(failed)?;
    Ok((key, request.der().clone()))
}

/// Signs a request, which proves that its sender has the key. The names in the request are ignored.
///
/// # Errors
/// [`SetError::Certificate`], also for a malformed request.
pub(crate) fn sign(
    authority_certificate: &str,
    authority_key: &str,
    request: &CertificateSigningRequestDer<'_>,
    set: SetId,
    slot: ReplicaSlot,
    now: SystemTime,
    lifetime: Duration,
) -> Result<CertificateDer<'static>, SetError> {
    let key = KeyPair::from_pem(authority_key).map_err(failed)?;
    let issuer = Issuer::from_ca_cert_pem(authority_certificate, key).map_err(failed)?;
    let mut request = CertificateSigningRequestParams::from_der(request).map_err(failed)?;
    let mut parameters = CertificateParams::default();
    let replica = replica_name(set, slot);
    parameters.distinguished_name = name(format!("Meridian replica {}", slot.0));
    parameters.subject_alt_names = vec![SanType::DnsName(replica.try_into().map_err(failed)?)];
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    parameters.use_authority_key_identifier_extension = true;
    set_validity(&mut parameters, now, lifetime);
    request.params = parameters;
    let certificate = request.signed_by(&issuer).map_err(failed)?;
    Ok(certificate.der().clone())
}

/// Signs bytes with the authority's key, in PEM.
///
/// # Errors
/// [`SetError::Certificate`] for an invalid key.
pub(crate) fn sign_bytes(authority_key: &str, bytes: &[u8]) -> Result<Vec<u8>, SetError> {
    let key = KeyPair::from_pem(authority_key).map_err(failed)?;
    SigningKey::sign(&key, bytes).map_err(failed)
}

/// Whether the authority with this certificate has signed the other certificate, or itself.
pub(crate) fn has_certified(
    authority: &CertificateDer<'_>,
    certificate: &CertificateDer<'_>,
) -> bool {
    X509Certificate::from_der(certificate).is_ok_and(|(rest, parsed)| {
        let signed = parsed.tbs_certificate.as_ref();
        rest.is_empty() && has_signed(authority, signed, &parsed.signature_value.data)
    })
}

/// Whether the authority with this certificate has signed these bytes.
pub(crate) fn has_signed(authority: &CertificateDer<'_>, bytes: &[u8], signature: &[u8]) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(authority) else {
        return false;
    };
    let key = &parsed.public_key().subject_public_key.data;
    let supported = ring::default_provider().signature_verification_algorithms;
    let mut schemes = supported.mapping.iter();
    // The kind of key that `make_authority` makes. In TLS 1.3 the scheme also names the curve.
    let scheme = schemes.find(|(scheme, _)| *scheme == SignatureScheme::ECDSA_NISTP256_SHA256);
    let algorithms = scheme.map_or(&[][..], |(_, algorithms)| *algorithms);
    let mut algorithms = algorithms.iter();
    algorithms.any(|algorithm| algorithm.verify_signature(key, bytes, signature).is_ok())
}

/// Whether a PEM key belongs to this certificate.
pub(crate) fn is_key_of(certificate: &CertificateDer<'_>, key: &str) -> bool {
    let Ok(key) = KeyPair::from_pem(key) else {
        return false;
    };
    X509Certificate::from_der(certificate)
        .is_ok_and(|(_, parsed)| parsed.public_key().raw == key.subject_public_key_info())
}

/// When a certificate expires, in seconds since 1970; `None` when this cannot be read.
pub(crate) fn valid_until_unix_s(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(parsed.validity().not_after.timestamp())
}

fn name(common: String) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

fn set_validity(parameters: &mut CertificateParams, now: SystemTime, lifetime: Duration) {
    parameters.not_before = OffsetDateTime::from(now - CLOCKS_DIFFER_BY);
    parameters.not_after = OffsetDateTime::from(now + lifetime);
}
