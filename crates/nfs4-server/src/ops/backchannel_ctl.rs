//! BACKCHANNEL_CTL: a client changes how it is called back (RFC 8881, section 18.33).

use nfs4::{BackchannelCtlArgs, NfsStat4};

use super::create_session::accepts_auth_sys;
use crate::compound::Compound;

pub(crate) async fn backchannel_ctl(
    compound: &mut Compound<'_>,
    args: BackchannelCtlArgs,
) -> Result<(), NfsStat4> {
    let session = compound.session()?;
    let auth_sys = accepts_auth_sys(&args.sec_parms);
    compound
        .service
        .state()
        .set_back_channel(session.id, args.cb_program, auth_sys)
}
