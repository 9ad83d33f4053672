//! Joining over the network: the server that asks, and the replica that answers.
//!
//! The one that asks has no certificate; it knows the set by the fingerprint in its token, and is known by
//! the secret in it. The secret itself never travels.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use vfs::ReplicaSlot;

use super::SetError;
use super::authority::make_request;
use super::directory::{Admission, Member, MemberList, SetDirectory, TREE_BYTES_MAX};
use super::token::{Token, proof};
use crate::handshake::buffered;
use crate::tls::{explain, join_config, replica_name, replica_of};
use crate::wire::{WireError, read_short, write_short};

/// How long one address may take.
const PATIENCE: Duration = Duration::from_secs(15);

#[derive(Clone, PartialEq, prost::Message)]
struct JoinRequest {
    #[prost(uint32, tag = "1")]
    slot: u32,
    #[prost(bytes = "bytes", tag = "2")]
    proof: Bytes,
    /// PKCS #10, DER.
    #[prost(bytes = "bytes", tag = "3")]
    request: Bytes,
    #[prost(string, repeated, tag = "4")]
    addresses: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct JoinReply {
    /// Empty when the rest is valid.
    #[prost(string, tag = "1")]
    refusal: String,
    #[prost(bytes = "bytes", tag = "2")]
    certificate: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    authority: Bytes,
    #[prost(message, repeated, tag = "4")]
    members: Vec<WireMember>,
    #[prost(uint64, tag = "5")]
    members_version: u64,
    #[prost(bytes = "bytes", tag = "6")]
    tree: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireMember {
    #[prost(uint32, tag = "1")]
    slot: u32,
    #[prost(string, repeated, tag = "2")]
    addresses: Vec<String>,
    #[prost(bool, tag = "3")]
    revoked: bool,
    #[prost(bool, tag = "4")]
    witness: bool,
}

/// Makes `directory` a replica of the set that the token is of; `addresses` is where peers will reach it.
/// Nothing is written before the set has answered.
///
/// # Errors
/// [`SetError::Token`] for an expired token, [`SetError::Unreachable`] when no address answers as a member
/// of that set, [`SetError::Refused`] with the set's reason.
pub async fn join(
    token: &Token,
    directory: &SetDirectory,
    addresses: Vec<String>,
    now: SystemTime,
) -> Result<Vec<Member>, SetError> {
    token.check_expiry(now)?;
    if directory.exists() {
        return Err(SetError::Exists(directory.path().to_owned()));
    }
    let (key, request) = make_request()?;
    let question = JoinRequest {
        slot: token.slot.0.into(),
        proof: Bytes::copy_from_slice(&proof(&token.secret, token.set, token.slot, &request)),
        request: Bytes::copy_from_slice(&request),
        addresses,
    };
    let reply = ask_anyone(token, &question).await?;
    if !reply.refusal.is_empty() {
        return Err(SetError::Refused(reply.refusal));
    }
    let admission = admission(token, reply)?;
    directory.write_joined(token.set, token.slot, &key.serialize_pem(), &admission)?;
    Ok(admission.list.members)
}

/// Asks at each address until one answers. The same question may be asked again.
async fn ask_anyone(token: &Token, question: &JoinRequest) -> Result<JoinReply, SetError> {
    let mut last = SetError::Unreachable {
        address: "the set".to_owned(),
        reason: "the token names no address; give the inviting replica one and invite again"
            .to_owned(),
    };
    for address in &token.addresses {
        let answer = timeout(PATIENCE, ask(token, address, question)).await;
        let reason = match answer {
            Ok(Ok(reply)) => return Ok(reply),
            Ok(Err(WireError::Broken(error))) if is_of_tls(&error) => explain(&error),
            Ok(Err(WireError::Broken(error))) => format!(
                "{error}; check that `meridian serve` runs on the server that invited, that its address is right, \
                 and that no firewall is between"
            ),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time; check the address and the firewall".to_owned(),
        };
        last = SetError::Unreachable {
            address: address.clone(),
            reason,
        };
    }
    Err(last)
}

fn is_of_tls(error: &std::io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<rustls::Error>())
}

async fn ask(token: &Token, address: &str, question: &JoinRequest) -> Result<JoinReply, WireError> {
    let config = join_config(token.authority_fingerprint).map_err(std::io::Error::other)?;
    // The verifier takes any replica of the set; the name only has to be one.
    let name = ServerName::try_from(replica_name(token.set, ReplicaSlot(0)))
        .map_err(std::io::Error::other)?;
    let socket = buffered(TcpStream::connect(address).await?)?;
    let mut stream = TlsConnector::from(config).connect(name, socket).await?;
    write_short(&mut stream, question).await?;
    read_short(&mut stream).await
}

/// Checks what the set gave: it must be for the slot that the token reserved.
fn admission(token: &Token, reply: JoinReply) -> Result<Admission, SetError> {
    let certificate = CertificateDer::from(reply.certificate.to_vec());
    if replica_of(&certificate) != Some((token.set, token.slot)) {
        return Err(SetError::Refused(
            "the certificate is for another replica".to_owned(),
        ));
    }
    if reply.tree.len() > TREE_BYTES_MAX {
        return Err(SetError::TreeTooLarge);
    }
    let members = reply.members.into_iter().map(|member| {
        Ok(Member {
            slot: u16::try_from(member.slot)
                .map_err(|_| SetError::Refused("a member has an impossible slot".to_owned()))?,
            addresses: member.addresses,
            revoked: member.revoked,
            witness: member.witness,
        })
    });
    Ok(Admission {
        certificate,
        authority: CertificateDer::from(reply.authority.to_vec()),
        list: MemberList {
            version: reply.members_version,
            members: members.collect::<Result<_, SetError>>()?,
        },
        tree: reply.tree.to_vec(),
    })
}

/// Answers one server that wants to join.
pub(crate) async fn serve_join<S: AsyncRead + AsyncWrite + Unpin>(
    desk: Option<&SetDirectory>,
    stream: &mut S,
) -> Result<(), WireError> {
    let question: JoinRequest = read_short(stream).await?;
    let reply = match desk {
        Some(desk) => judge(desk.clone(), question).await,
        None => Err(SetError::NoAuthority),
    };
    let reply = reply.unwrap_or_else(|error| {
        tracing::warn!(%error, "refused a server that wants to join");
        JoinReply {
            refusal: refusal_text(&error),
            ..JoinReply::default()
        }
    });
    write_short(stream, &reply).await?;
    // The close is part of the answer: without it the last record might be lost with the socket.
    stream.shutdown().await?;
    Ok(())
}

/// What the one who asks is told; where our files are is none of its business.
fn refusal_text(error: &SetError) -> String {
    match error {
        SetError::Refused(reason) => reason.clone(),
        SetError::Token(_) | SetError::NoAuthority => error.to_string(),
        _ => "the inviting replica cannot admit anyone at present; see its log".to_owned(),
    }
}

async fn judge(desk: SetDirectory, question: JoinRequest) -> Result<JoinReply, SetError> {
    let slot = u16::try_from(question.slot)
        .map_err(|_| SetError::Refused("the slot is impossible".to_owned()))?;
    let request = CertificateSigningRequestDer::from(question.request.to_vec());
    let admit = move || {
        desk.admit(
            ReplicaSlot(slot),
            &question.proof,
            &request,
            question.addresses,
            SystemTime::now(),
        )
    };
    let admission = tokio::task::spawn_blocking(admit)
        .await
        .map_err(|error| SetError::Certificate(error.to_string()))??;
    tracing::info!(slot, "a replica joined the set");
    Ok(JoinReply {
        refusal: String::new(),
        certificate: Bytes::copy_from_slice(&admission.certificate),
        authority: Bytes::copy_from_slice(&admission.authority),
        members_version: admission.list.version,
        tree: admission.tree.into(),
        members: admission
            .list
            .members
            .into_iter()
            .map(|member| WireMember {
                slot: member.slot.into(),
                addresses: member.addresses,
                revoked: member.revoked,
                witness: member.witness,
            })
            .collect(),
    })
}
