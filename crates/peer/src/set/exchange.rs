//! Joining over the network: the server that joins, and the replica that answers.
//!
//! The joining server has no certificate. It recognises the set by the fingerprint in its token, and proves itself with
//! the secret in it. The secret itself is never sent.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use prost::Message as _;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use vfs::ReplicaSlot;

use super::directory::{Admission, SetDirectory, TREE_BYTES_MAX};
use super::list::MemberList;
use super::token::{Token, is_same, proof, proof_of_answer};
use super::{Kind, Places, SetError};
use crate::handshake::buffered;
use crate::tls::{explain, fingerprint, join_config, replica_name, replica_of};
use crate::wire::{WireError, read_short, write_short};

/// How long a server that has just started waits to confirm that its list of members is the newest.
const CURRENT_WITHIN: Duration = Duration::from_secs(10);

/// Timeout of a name lookup.
const LOOK_UP: Duration = Duration::from_secs(3);

/// The polling interval of that wait.
const LOOK: Duration = Duration::from_millis(50);

/// Timeout for one address.
const PATIENCE: Duration = Duration::from_secs(15);

/// [`crate::decode_as_anything`] for a join request and its answer.
pub(super) fn decode_as_anything(bytes: &[u8]) {
    drop(JoinRequest::decode(bytes));
    drop(JoinReply::decode(bytes));
}

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
    #[prost(string, repeated, tag = "5")]
    client_addresses: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct JoinReply {
    /// Empty when the other fields are valid.
    #[prost(string, tag = "1")]
    refusal: String,
    #[prost(bytes = "bytes", tag = "2")]
    certificate: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    authority: Bytes,
    /// As the authority signed it.
    #[prost(bytes = "bytes", tag = "4")]
    list: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    tree: Bytes,
    /// A problem with the addresses of the joining server, for people; empty when there is none.
    #[prost(string, tag = "7")]
    remark: String,
    /// Proves that the keeper of the authority answers.
    #[prost(bytes = "bytes", tag = "8")]
    proof: Bytes,
}

/// What a server learns when it joins.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The members, the server itself included.
    pub list: MemberList,
    /// What the inviting replica reports about the server's addresses, if they have a problem.
    pub remark: Option<String>,
}

/// Makes `directory` a replica of the token's set. `places` are the addresses for peers and for clients. Until the set
/// has answered, only the new key is kept, beside the directory. The set accepts a token for only one key after it has
/// seen that key. So a server that asks again, because the answer was lost, uses the same key.
///
/// # Errors
/// [`SetError::Token`] for an expired token. [`SetError::Unreachable`] when no address answers as a member of that set;
/// the same call may then be tried again. [`SetError::Refused`] with the set's reason.
pub async fn join(
    token: &Token,
    directory: &SetDirectory,
    places: impl Into<Places>,
    now: SystemTime,
) -> Result<Entry, SetError> {
    let places = places.into();
    token.check_expiry(now)?;
    if directory.exists()? {
        return Err(SetError::Exists(directory.path().to_owned()));
    }
    let asking = directory.begin_joining(token)?;
    let question = JoinRequest {
        slot: token.slot.0.into(),
        proof: Bytes::copy_from_slice(&proof(
            &token.secret,
            (token.set, token.slot),
            &asking.request,
            &places,
        )),
        request: Bytes::copy_from_slice(&asking.request),
        addresses: places.addresses,
        client_addresses: places.client_addresses,
    };
    let reply = ask_anyone(token, &question).await?;
    if !reply.refusal.is_empty() {
        directory.end_joining()?;
        return Err(SetError::Refused(reply.refusal));
    }
    let remark: String = reply
        .remark
        .chars()
        .filter(|letter| !letter.is_control())
        .collect();
    let admission = admission(token, &asking.request, reply)?;
    directory.write_joined(token.set, token.slot, &asking.key_pem, &admission)?;
    directory.end_joining()?;
    Ok(Entry {
        list: admission.list,
        remark: Some(remark).filter(|remark| !remark.is_empty()),
    })
}

/// Asks at each address until one answers. The same request may be sent again.
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
                "{error}; check that the server that invited runs, that its address is right, \
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
    // The verifier accepts any replica of the set, so the slot in this name does not matter.
    let name = ServerName::try_from(replica_name(token.set, ReplicaSlot(0)))
        .map_err(std::io::Error::other)?;
    let socket = buffered(TcpStream::connect(address).await?)?;
    let mut stream = TlsConnector::from(config).connect(name, socket).await?;
    write_short(&mut stream, question).await?;
    read_short(&mut stream).await
}

/// Checks the set's answer: it must be for the slot that the token reserved.
fn admission(token: &Token, request: &[u8], reply: JoinReply) -> Result<Admission, SetError> {
    let certificate = CertificateDer::from(reply.certificate.to_vec());
    if replica_of(&certificate) != Some((token.set, token.slot)) {
        return Err(SetError::Refused(
            "the certificate is for another replica".to_owned(),
        ));
    }
    let authority = CertificateDer::from(reply.authority.to_vec());
    if fingerprint(&authority) != token.authority_fingerprint {
        return Err(SetError::Refused(
            "the authority is not the one that the token names".to_owned(),
        ));
    }
    if reply.tree.len() > TREE_BYTES_MAX {
        return Err(SetError::TreeTooLarge);
    }
    let place = (token.set, token.slot);
    let proof = proof_of_answer(&token.secret, place, request, &reply.tree);
    if !is_same(&reply.proof, proof) {
        return Err(SetError::Refused(
            "what it says of the tree does not come from the keeper of the authority; look at who answers at the addresses of the token".to_owned(),
        ));
    }
    let list = MemberList::decode(&reply.list);
    Ok(Admission {
        certificate,
        authority,
        list: list.ok_or_else(|| SetError::Refused("its list of members is none".to_owned()))?,
        tree: reply.tree.to_vec(),
        proof,
    })
}

/// Answers one server that wants to join.
pub(crate) async fn serve_join<S: AsyncRead + AsyncWrite + Unpin>(
    admitting: Option<&SetDirectory>,
    stream: &mut S,
) -> Result<(), WireError> {
    let question: JoinRequest = read_short(stream).await?;
    let reply = match admitting {
        Some(set) => judge(set.clone(), question).await,
        None => Err(SetError::Refused("this server admits nobody".to_owned())),
    };
    let reply = reply.unwrap_or_else(|error| {
        tracing::warn!(%error, "refused a server that wants to join");
        JoinReply {
            refusal: refusal_text(&error),
            ..JoinReply::default()
        }
    });
    write_short(stream, &reply).await?;
    // The close is part of the answer: without it the last record could be lost when the socket closes.
    stream.shutdown().await?;
    Ok(())
}

/// The error text for the joining server, without the paths of our files.
fn refusal_text(error: &SetError) -> String {
    match error {
        SetError::Refused(reason) => reason.clone(),
        SetError::Token(_) => error.to_string(),
        SetError::NoAuthority { keeper, .. } => format!(
            "it does not keep the set's authority, replica {keeper} does; ask for a new token there"
        ),
        _ => "the inviting replica cannot admit anyone at present; see its log".to_owned(),
    }
}

/// Waits a short time until the list of members here is confirmed to be the newest.
///
/// # Errors
/// [`SetError::Refused`] when it is not confirmed in time.
async fn become_current(set: &SetDirectory) -> Result<(), SetError> {
    let known = async {
        while set.keeps_authority() && !set.is_current() {
            tokio::time::sleep(LOOK).await;
        }
    };
    timeout(CURRENT_WITHIN, known).await.map_err(|_| {
        let reason = "it is not in contact with a majority of the set, so it cannot know who is a member; see \
                      `meridian view` there, and try again";
        SetError::Refused(reason.to_owned())
    })
}

async fn judge(set: SetDirectory, question: JoinRequest) -> Result<JoinReply, SetError> {
    let slot = u16::try_from(question.slot)
        .map_err(|_| SetError::Refused("the slot is impossible".to_owned()))?;
    let request = CertificateSigningRequestDer::from(question.request.to_vec());
    become_current(&set).await?;
    let (kind, addresses) = (set.kind(), question.addresses.clone());
    let taken = taken(&set.member_list()?, &addresses, ReplicaSlot(slot)).await;
    if let Some((address, other)) = &taken {
        refuse_if_answered(address, *other).await?;
    }
    let places = Places {
        addresses: question.addresses,
        client_addresses: question.client_addresses,
    };
    let admit = move || {
        set.admit(
            ReplicaSlot(slot),
            &question.proof,
            &request,
            places,
            SystemTime::now(),
        )
    };
    let admission = tokio::task::spawn_blocking(admit)
        .await
        .map_err(|error| SetError::Certificate(error.to_string()))??;
    tracing::info!(slot, "a server joined the {kind}");
    Ok(JoinReply {
        refusal: String::new(),
        certificate: Bytes::copy_from_slice(&admission.certificate),
        authority: Bytes::copy_from_slice(&admission.authority),
        list: admission.list.encode().into(),
        tree: admission.tree.into(),
        remark: remark_on(kind, &addresses, taken).await,
        proof: Bytes::copy_from_slice(&admission.proof),
    })
}

/// Another member that is reached at one of these addresses, in the same words or in others, and that address.
async fn taken(list: &MemberList, addresses: &[String], by: ReplicaSlot) -> Option<(String, u16)> {
    let same = list.reached_at(addresses, by);
    if same.is_some() {
        return same;
    }
    let search = async {
        let own = places_at(addresses).await;
        for member in &list.members {
            let is_other = member.slot != by.0 && !member.revoked;
            if is_other && !places_at(&member.addresses).await.is_disjoint(&own) {
                let address = addresses.first().cloned().unwrap_or_default();
                return Some((address, member.slot));
            }
        }
        None
    };
    // What cannot be looked up is said to the joining server in any case.
    timeout(LOOK_UP, search).await.ok().flatten()
}

/// The addresses to which these lead from here; those that lead nowhere are left out.
async fn places_at(addresses: &[String]) -> BTreeSet<SocketAddr> {
    let mut places = BTreeSet::new();
    for address in addresses {
        if let Ok(found) = tokio::net::lookup_host(address).await {
            places.extend(found);
        }
    }
    places
}

/// Refuses the address of another member while a server answers there. The joining server does not run yet, so that
/// server is not the joining one. If no server answers there, the joining server may replace a lost member.
async fn refuse_if_answered(address: &str, other: u16) -> Result<(), SetError> {
    let answered = timeout(LOOK_UP, TcpStream::connect(address)).await;
    match answered.is_ok_and(|connected| connected.is_ok()) {
        false => Ok(()),
        true => Err(SetError::Refused(format!(
            "replica {other} is reached at {address}, and a server answers there; give this server another address"
        ))),
    }
}

/// Reports the addresses of a new member that this replica cannot look up, because the other members will probably fail
/// too, and the address that belonged to another member until now.
async fn remark_on(kind: Kind, addresses: &[String], taken: Option<(String, u16)>) -> String {
    let mut remarks = Vec::new();
    remarks.extend(taken.map(|(address, other)| {
        format!(
            "replica {other} is reached at {address}, too, where nobody answers: if this server takes its place, remove that one with `meridian {kind} remove {other}`"
        )
    }));
    for address in addresses {
        let found = timeout(LOOK_UP, tokio::net::lookup_host(address)).await;
        let failed = match found.map(|found| found.map(Iterator::count)) {
            Ok(Ok(0)) => "the name has no address".to_owned(),
            Ok(Ok(_)) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        tracing::warn!(address, failed, "the address of a new member leads nowhere");
        remarks.push(format!(
            "the inviting server cannot look up {address} ({failed}); correct it there with `meridian {kind} address`, or the others may not reach this server"
        ));
    }
    remarks.join("; ")
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A member with a certificate that intercepts the answer gave the joining server another text about the tree.
    #[test]
    fn the_tree_cannot_be_changed_on_its_way() {
        let root = TempDir::new().expect("a directory");
        let first = SetDirectory::new(root.path().join("first"));
        let now = SystemTime::now();
        first.create_for(b"tree", Vec::new(), now).expect("creates");
        let token = first.invite(Duration::from_secs(60), now);
        let token = token.expect("invites");
        let (_key, request) = super::super::request_for_tests();
        let nowhere = Places::default();
        let shown = proof(&token.secret, (token.set, token.slot), &request, &nowhere);
        let admitted = first.admit(token.slot, &shown, &request, Vec::new(), now);
        let admitted = admitted.expect("admits");
        let reply = |tree: &'static [u8]| JoinReply {
            certificate: Bytes::copy_from_slice(&admitted.certificate),
            authority: Bytes::copy_from_slice(&admitted.authority),
            list: admitted.list.encode().into(),
            tree: Bytes::from_static(tree),
            proof: Bytes::copy_from_slice(&admitted.proof),
            ..JoinReply::default()
        };
        admission(&token, &request, reply(b"tree")).expect("as it was said");
        let changed = admission(&token, &request, reply(b"another tree"));
        assert!(matches!(changed, Err(SetError::Refused(_))));
    }

    /// The join request of a server.
    fn question(token: &Token, request: &CertificateSigningRequestDer<'_>) -> JoinRequest {
        let place = (token.set, token.slot);
        JoinRequest {
            slot: token.slot.0.into(),
            proof: Bytes::copy_from_slice(&proof(
                &token.secret,
                place,
                request,
                &Places::default(),
            )),
            request: Bytes::copy_from_slice(request),
            addresses: Vec::new(),
            client_addresses: Vec::new(),
        }
    }

    /// A keeper that has just started may have a list from an older backup, and could give a slot away twice.
    #[tokio::test(start_paused = true)]
    async fn a_keeper_admits_nobody_before_it_knows_that_its_list_is_the_newest() {
        let root = TempDir::new().expect("a directory");
        let first = SetDirectory::new(root.path().join("first"));
        let now = SystemTime::now();
        first.create_for(b"", Vec::new(), now).expect("creates");
        let token = first.invite(Duration::from_secs(60), now);
        let token = token.expect("invites");
        let (_key, request) = super::super::request_for_tests();
        let asked = judge(first.clone(), question(&token, &request)).await;
        assert!(matches!(asked, Err(SetError::Refused(why)) if why.contains("majority")));
        assert_eq!(first.members().expect("members").len(), 1);

        let learns = async {
            tokio::time::sleep(CURRENT_WITHIN / 2).await;
            first.note_current();
        };
        let asked = judge(first.clone(), question(&token, &request));
        let (asked, ()) = tokio::join!(asked, learns);
        asked.expect("admitted as soon as it knows");
        assert_eq!(first.members().expect("members").len(), 2);
    }
}
