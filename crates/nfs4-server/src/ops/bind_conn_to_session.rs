//! BIND_CONN_TO_SESSION: a connection joins a session's channels (RFC 8881, section 18.34).

use nfs4::{
    BindConnToSessionArgs, BindConnToSessionResOk, ChannelDirFromClient4, ChannelDirFromServer4,
    NfsStat4,
};

use crate::compound::Compound;

pub(crate) async fn bind_conn_to_session(
    compound: &mut Compound<'_>,
    args: BindConnToSessionArgs,
) -> Result<BindConnToSessionResOk, NfsStat4> {
    // The fore channel needs no binding without state protection; any connection may use it.
    let (back, dir) = match args.dir {
        ChannelDirFromClient4::Fore => (false, ChannelDirFromServer4::Fore),
        ChannelDirFromClient4::Back => (true, ChannelDirFromServer4::Back),
        ChannelDirFromClient4::ForeOrBoth | ChannelDirFromClient4::BackOrBoth => {
            (true, ChannelDirFromServer4::Both)
        }
    };
    let connection = compound.connection.id();
    compound
        .service
        .state()
        .bind_connection(args.sessid, connection, back)?;
    compound.connection.session_used();
    Ok(BindConnToSessionResOk {
        sessid: args.sessid,
        dir,
        use_conn_in_rdma_mode: false,
    })
}
