//! EXCHANGE_ID: a client introduces itself (RFC 8881, section 18.35).

use std::sync::Arc;

use nfs4::{
    ExchangeIdArgs, ExchangeIdResOk, NfsImplId4, NfsStat4, Nfstime4, ServerOwner4, StateProtect4A,
    StateProtect4R, Utf8str, exchgid,
};
use xdr::Bytes;

use crate::compound::Compound;
use crate::state::{ClientIdentity, ExchangeRequest};

pub(crate) async fn exchange_id(
    compound: &mut Compound<'_>,
    args: ExchangeIdArgs,
) -> Result<ExchangeIdResOk, NfsStat4> {
    let known = match compound.minor_version {
        1 => exchgid::MASK_A & !exchgid::SUPP_FENCE_OPS,
        _ => exchgid::MASK_A,
    };
    if args.flags & !known != 0 {
        return Err(NfsStat4::Inval);
    }
    match args.state_protect {
        StateProtect4A::None => {}
        // Both need RPCSEC_GSS, which this server does not support.
        StateProtect4A::MachCred(_) => return Err(NfsStat4::Inval),
        StateProtect4A::Ssv(_) => return Err(NfsStat4::EncrAlgUnsupp),
    }
    let implementation = args.client_impl_id.as_ref().map(implementation_name);
    let request = ExchangeRequest {
        identity: ClientIdentity {
            owner: Arc::from(&args.clientowner.ownerid[..]),
            verifier: args.clientowner.verifier.0,
            principal: compound.principal(),
            address: compound.caller.peer.ip(),
        },
        update: args.flags & exchgid::UPD_CONFIRMED_REC_A != 0,
        implementation: implementation.unwrap_or_default(),
        minor_version: compound.minor_version,
    };
    let service = compound.service;
    let (exchanged, departure) = service.state().exchange_id(request, service.now())?;
    compound.see_off(departure).await;

    let confirmed = if exchanged.confirmed {
        exchgid::CONFIRMED_R
    } else {
        0
    };
    let role = match service.data_server {
        Some(_) => exchgid::USE_PNFS_DS,
        // A client that lists roles gets no others (RFC 8881, section 13.1).
        None if service.offers_layouts() && wants_layouts(args.flags) => exchgid::USE_PNFS_MDS,
        None => exchgid::USE_NON_PNFS,
    };
    Ok(ExchangeIdResOk {
        clientid: exchanged.client.0,
        sequenceid: exchanged.sequence,
        flags: role | confirmed,
        state_protect: StateProtect4R::None,
        server_owner: ServerOwner4 {
            minor_id: 0,
            major_id: Bytes::copy_from_slice(&service.identity.server),
        },
        server_scope: Bytes::copy_from_slice(&service.identity.scope),
        server_impl_id: Some(NfsImplId4 {
            domain: Utf8str::from("meridian"),
            name: Utf8str::from(concat!("Meridian ", env!("CARGO_PKG_VERSION"))),
            date: Nfstime4 {
                seconds: 0,
                nseconds: 0,
            },
        }),
    })
}

/// Whether a client with these flags may use the server for layouts: it says so, or sets no flag for a role.
fn wants_layouts(flags: u32) -> bool {
    let roles = flags & exchgid::MASK_PNFS;
    roles == 0 || roles & exchgid::USE_PNFS_MDS != 0
}

/// The client's name for its implementation, cut for a status display.
fn implementation_name(implementation: &NfsImplId4) -> String {
    String::from_utf8_lossy(&implementation.name.0)
        .chars()
        .take(128)
        .collect()
}
