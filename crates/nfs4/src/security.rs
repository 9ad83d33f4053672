//! Which security a server demands and a back channel uses: SECINFO,
//! SECINFO_NO_NAME (RFC 8881, sections 18.29 and 18.45) and
//! `callback_sec_parms4` as they travel. Nothing is proved here.

use oncrpc::AuthSys;
use xdr::{Bytes, Decode, DecodeError, Encode, Reader, Writer, xdr_enum, xdr_struct, xdr_union};

use crate::{Component4, OPAQUE_LIMIT};

/// The longest object identifier that is decoded, in bytes.
pub const OID_MAX: usize = 256;

/// The most flavors that are decoded from one reply.
const SECINFO_MAX: usize = 64;

const RPCSEC_GSS: u32 = oncrpc::AuthFlavor::RPCSEC_GSS.0;

xdr_struct! {
    /// SECINFO: asks how a name in the current directory may be accessed.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SecinfoArgs {
        /// The name.
        pub name: Component4,
    }
}

xdr_enum! {
    /// The object of SECINFO_NO_NAME, `secinfo_style4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SecinfoStyle4 {
        /// The current one.
        CurrentFh = 0,
        /// The parent of the current one.
        Parent = 1,
    }
}

xdr_struct! {
    /// SECINFO_NO_NAME: asks how the current object may be accessed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SecinfoNoNameArgs {
        /// The object.
        pub style: SecinfoStyle4,
    }
}

xdr_struct! {
    /// The successful result of SECINFO and SECINFO_NO_NAME.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SecinfoResOk {
        /// The flavors accepted, best first.
        pub flavors: Vec<Secinfo4> [<= SECINFO_MAX],
    }
}

/// One flavor that a server accepts, `secinfo4`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secinfo4 {
    /// A flavor without parameters, AUTH_SYS for example.
    Flavor(u32),
    /// RPCSEC_GSS with a mechanism.
    RpcsecGss(RpcsecGssInfo),
}

impl Encode for Secinfo4 {
    fn encode(&self, w: &mut Writer) {
        match self {
            Secinfo4::Flavor(flavor) => w.u32(*flavor),
            Secinfo4::RpcsecGss(info) => {
                w.u32(RPCSEC_GSS);
                w.write(info);
            }
        }
    }
}

impl Decode for Secinfo4 {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        match r.u32()? {
            RPCSEC_GSS => r.read().map(Secinfo4::RpcsecGss),
            flavor => Ok(Secinfo4::Flavor(flavor)),
        }
    }
}

xdr_struct! {
    /// A mechanism of RPCSEC_GSS, `rpcsec_gss_info`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RpcsecGssInfo {
        /// The mechanism.
        pub oid: Bytes [<= OID_MAX],
        /// The quality of protection.
        pub qop: u32,
        /// The protection.
        pub service: RpcGssSvc,
    }
}

xdr_enum! {
    /// The protection by RPCSEC_GSS, `rpc_gss_svc_t`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum RpcGssSvc {
        /// The identity of the caller.
        None = 1,
        /// Also that nothing was changed.
        Integrity = 2,
        /// Also that it stays secret.
        Privacy = 3,
    }
}

xdr_union! {
    /// How a server may authenticate on a back channel, `callback_sec_parms4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum CallbackSecParms4 {
        /// AUTH_NONE.
        0 => None,
        /// AUTH_SYS with these credentials.
        1 => Sys(AuthSys),
        /// RPCSEC_GSS with these handles.
        6 => Gss(GssCbHandles4),
    }
}

xdr_struct! {
    /// Security contexts for a back channel, `gss_cb_handles4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GssCbHandles4 {
        /// The protection.
        pub service: RpcGssSvc,
        /// The context that the server made.
        pub handle_from_server: Bytes [<= OPAQUE_LIMIT],
        /// The context that the client made.
        pub handle_from_client: Bytes [<= OPAQUE_LIMIT],
    }
}
