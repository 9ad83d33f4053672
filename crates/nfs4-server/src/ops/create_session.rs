//! CREATE_SESSION: confirms a client record and creates a session (RFC 8881, section 18.36).

use nfs4::{
    CallbackSecParms4, ChannelAttrs4, CreateSessionArgs, CreateSessionResOk, NfsStat4,
    create_session as flag,
};

use oncrpc::Credentials;
use throttle::Throttle;

use crate::compound::Compound;
use crate::service::Service;
use crate::state::{BackChannel, ClientId, CreateSession, SessionChannel};

/// Logs that there are too many clients once, and later with a count.
static CROWDED: Throttle = Throttle::new();
const TOO_MANY: throttle::Subject = ("clients have to go for others", 0);

pub(crate) async fn create_session(
    compound: &mut Compound<'_>,
    args: CreateSessionArgs,
) -> Result<CreateSessionResOk, NfsStat4> {
    if args.flags & !(flag::PERSIST | flag::CONN_BACK_CHAN | flag::CONN_RDMA) != 0 {
        return Err(NfsStat4::Inval);
    }
    let service = compound.service;
    let credentials = callback_credentials(&args.sec_parms);
    // The server does not announce a back channel that it cannot use.
    let use_for_back_channel = args.flags & flag::CONN_BACK_CHAN != 0 && credentials.is_some();
    let request = CreateSession {
        client: ClientId(args.clientid),
        sequence: args.sequence,
        principal: compound.principal(),
        connection: compound.connection.id(),
        channel: channel(&args.fore_chan_attrs),
        back: BackChannel {
            program: args.cb_program,
            minor_version: compound.minor_version,
            credentials,
            channel: channel(&args.back_chan_attrs),
        },
        use_for_back_channel,
    };
    let (gone, departures) = service
        .state()
        .make_space_for(request.client, service.now());
    if gone > 0
        && let Some(sum) = CROWDED.failed(TOO_MANY, service.now())
    {
        let remedy =
            "raise `clients` in [limits], or find out with `meridian clients` who they are";
        tracing::warn!(gone, %sum, remedy, "too many clients: some that hold nothing have to go");
    }
    compound.see_off(departures).await;
    let (created, departure) = service.state().create_session(&request, service.now())?;
    // The opens and locks of the old incarnation must be gone before the new one meets them.
    compound.see_off(departure).await;
    Ok(CreateSessionResOk {
        sessionid: created.session,
        sequence: created.sequence,
        flags: granted(args.flags, created.back_channel_bound, service),
        fore_chan_attrs: attributes(&created.channel),
        back_chan_attrs: attributes(&created.back),
    })
}

/// The requested flags that are granted. Persistent replies are granted when all file systems record requests.
fn granted(wanted: u32, back_channel_bound: bool, service: &Service) -> u32 {
    let mut exports = service.namespace.exports().iter();
    let persists = exports.all(|export| export.file_system.keeps_requests());
    let back_channel = if back_channel_bound {
        flag::CONN_BACK_CHAN
    } else {
        0
    };
    back_channel | if persists { wanted & flag::PERSIST } else { 0 }
}

/// The credentials for calls to a client: the first of its offers that the server can send. A client without offers
/// gets AUTH_NONE.
pub(super) fn callback_credentials(parameters: &[CallbackSecParms4]) -> Option<Credentials> {
    if parameters.is_empty() {
        return Some(Credentials::None);
    }
    parameters.iter().find_map(|parameter| match parameter {
        CallbackSecParms4::None => Some(Credentials::None),
        CallbackSecParms4::Sys(credentials) => Some(Credentials::Sys(credentials.clone())),
        CallbackSecParms4::Gss(_) => None,
    })
}

fn channel(attributes: &ChannelAttrs4) -> SessionChannel {
    SessionChannel {
        request_bytes: attributes.maxrequestsize,
        response_bytes: attributes.maxresponsesize,
        cached_response_bytes: attributes.maxresponsesize_cached,
        operations: attributes.maxoperations,
        slots: attributes.maxrequests,
    }
}

fn attributes(channel: &SessionChannel) -> ChannelAttrs4 {
    ChannelAttrs4 {
        headerpadsize: 0,
        maxrequestsize: channel.request_bytes,
        maxresponsesize: channel.response_bytes,
        maxresponsesize_cached: channel.cached_response_bytes,
        maxoperations: channel.operations,
        maxrequests: channel.slots,
        rdma_ird: None,
    }
}
