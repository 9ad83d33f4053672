//! BACKCHANNEL_CTL: a client changes how it is called back (RFC 8881, section 18.33).

use nfs4::{BackchannelCtlArgs, NfsStat4};

use super::create_session::callback_credentials;
use crate::compound::Compound;

pub(crate) async fn backchannel_ctl(
    compound: &mut Compound<'_>,
    args: BackchannelCtlArgs,
) -> Result<(), NfsStat4> {
    let session = compound.session()?;
    let credentials = callback_credentials(&args.sec_parms);
    if credentials.is_none() {
        // RFC 8881, section 18.33.3.
        return Err(NfsStat4::NoEnt);
    }
    compound
        .service
        .state()
        .set_back_channel(session.id, args.cb_program, credentials)
}
