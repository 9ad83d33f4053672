//! Credentials and verifiers in message headers (RFC 5531,
//! sections 8.2, 9 and appendix A). Other code decides whether to trust them.

use std::ops::Deref;

use xdr::{Bytes, Decode, DecodeError, Encode, Reader, Writer, xdr_struct};

/// The largest body of a credential or verifier, in bytes (RFC 5531, section 8.2).
pub const OPAQUE_AUTH_MAX: usize = 400;

/// The longest machine name in AUTH_SYS credentials, in bytes (RFC 5531, appendix A).
pub const MACHINE_NAME_MAX: usize = 255;

/// Numbers of authentication flavors (RFC 5531, section 8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AuthFlavor(
    /// The number on the wire.
    pub u32,
);

impl AuthFlavor {
    /// AUTH_NONE: no identity at all.
    pub const NONE: Self = Self(0);
    /// AUTH_SYS: user and group numbers, asserted by the client.
    pub const SYS: Self = Self(1);
    /// RPCSEC_GSS (RFC 2203).
    pub const RPCSEC_GSS: Self = Self(6);
}

xdr_struct! {
    /// A credential or verifier with an undecoded body.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct OpaqueAuth {
        /// The number of the flavor, see [`AuthFlavor`].
        pub flavor: u32,
        /// The body, whose meaning depends on the flavor.
        pub body: Bytes [<= OPAQUE_AUTH_MAX],
    }
}

impl OpaqueAuth {
    /// The empty AUTH_NONE credential or verifier.
    pub const fn none() -> Self {
        Self {
            flavor: AuthFlavor::NONE.0,
            body: Bytes::new(),
        }
    }
}

/// Supplementary group numbers of AUTH_SYS credentials: at most 16, kept in place
/// because every request carries them.
#[derive(Clone, Copy, Default)]
pub struct Groups {
    numbers: [u32; Self::MAX],
    count: u8,
}

impl Groups {
    /// The most groups that AUTH_SYS can carry (RFC 5531, appendix A).
    pub const MAX: usize = 16;

    /// The first [`Groups::MAX`] of `numbers`; the wire has no space for more.
    pub fn first_of(numbers: &[u32]) -> Self {
        let mut groups = Self::default();
        for &number in numbers.iter().take(Self::MAX) {
            groups.push(number);
        }
        groups
    }

    /// Requires that fewer than [`Groups::MAX`] numbers are present.
    fn push(&mut self, number: u32) {
        self.numbers[usize::from(self.count)] = number;
        self.count += 1;
    }
}

impl Deref for Groups {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.numbers[..usize::from(self.count)]
    }
}

impl PartialEq for Groups {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Groups {}

impl std::fmt::Debug for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Encode for Groups {
    fn encode(&self, w: &mut Writer) {
        <[u32]>::encode(self, w);
    }
}

impl Decode for Groups {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut groups = Self::default();
        for _ in 0..r.length(Self::MAX)? {
            groups.push(r.u32()?);
        }
        Ok(groups)
    }
}

xdr_struct! {
    /// AUTH_SYS credentials, `authsys_parms` (RFC 5531, appendix A).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AuthSys {
        /// An arbitrary number of the sender.
        pub stamp: u32,
        /// The name of the sender's machine, not to be trusted.
        pub machinename: Bytes [<= MACHINE_NAME_MAX],
        /// The effective user number.
        pub uid: u32,
        /// The effective group number.
        pub gid: u32,
        /// Further group numbers.
        pub gids: Groups,
    }
}

/// The identity that a call claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS.
    Sys(AuthSys),
    /// A flavor that is not understood here, RPCSEC_GSS included.
    Unsupported {
        /// The number of the flavor, see [`AuthFlavor`].
        flavor: u32,
        /// Its body, untouched.
        body: Bytes,
    },
}

impl Credentials {
    /// The number of the flavor, see [`AuthFlavor`].
    pub fn flavor(&self) -> u32 {
        match self {
            Credentials::None => AuthFlavor::NONE.0,
            Credentials::Sys(_) => AuthFlavor::SYS.0,
            Credentials::Unsupported { flavor, .. } => *flavor,
        }
    }

    /// Decodes a credential. The body of AUTH_SYS must be well formed and
    /// complete; that of AUTH_NONE is ignored.
    pub fn parse(auth: OpaqueAuth) -> Result<Self, DecodeError> {
        match AuthFlavor(auth.flavor) {
            AuthFlavor::NONE => Ok(Credentials::None),
            AuthFlavor::SYS => {
                let mut body = Reader::new(auth.body);
                let sys = body.read()?;
                body.finish()?;
                Ok(Credentials::Sys(sys))
            }
            AuthFlavor(flavor) => Ok(Credentials::Unsupported {
                flavor,
                body: auth.body,
            }),
        }
    }
}

impl Encode for Credentials {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.flavor());
        match self {
            Credentials::None => w.u32(0),
            Credentials::Unsupported { body, .. } => w.write(body),
            Credentials::Sys(sys) => {
                let length = w.mark();
                w.u32(0);
                let body = w.mark();
                w.write(sys);
                // The body is a multiple of four bytes long, so no padding follows.
                let written = u32::try_from(w.written_since(body)).unwrap_or(u32::MAX);
                w.patch_u32(length, written);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded<T: Encode>(value: &T) -> Bytes {
        let mut w = Writer::new();
        w.write(value);
        w.into_bytes()
    }

    fn parsed(bytes: Bytes) -> Result<Credentials, DecodeError> {
        Credentials::parse(Reader::new(bytes).read()?)
    }

    #[test]
    fn auth_sys_has_the_bytes_of_rfc_5531() {
        let sys = AuthSys {
            stamp: 0x0102_0304,
            machinename: Bytes::from_static(b"host1"),
            uid: 1000,
            gid: 100,
            gids: Groups::first_of(&[4, 24]),
        };
        #[rustfmt::skip]
        let golden: &[u8] = &[
            0, 0, 0, 1,             // AUTH_SYS
            0, 0, 0, 36,            // length of the body
            1, 2, 3, 4,             // stamp
            0, 0, 0, 5, b'h', b'o', b's', b't', b'1', 0, 0, 0,
            0, 0, 0x03, 0xe8,       // uid
            0, 0, 0, 100,           // gid
            0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 24,
        ];
        let credentials = Credentials::Sys(sys);
        assert_eq!(&encoded(&credentials)[..], golden);
        assert_eq!(parsed(Bytes::from_static(golden)), Ok(credentials));
    }

    #[test]
    fn a_seventeenth_group_is_refused() {
        let mut w = Writer::new();
        w.u32(1);
        w.u32(20 + 17 * 4);
        for word in [0, 0, 0, 0, 17] {
            w.u32(word);
        }
        for group in 0..17 {
            w.u32(group);
        }
        assert_eq!(
            parsed(w.into_bytes()),
            Err(DecodeError::TooLong {
                length: 17,
                max: 16
            })
        );
    }

    #[test]
    fn bytes_after_auth_sys_are_refused() {
        let mut w = Writer::new();
        w.u32(1);
        w.opaque(&[0; 24]);
        assert_eq!(parsed(w.into_bytes()), Err(DecodeError::Trailing(4)));
    }

    #[test]
    fn other_flavors_are_kept_as_they_are() {
        let gss = Credentials::Unsupported {
            flavor: AuthFlavor::RPCSEC_GSS.0,
            body: Bytes::from_static(b"token"),
        };
        assert_eq!(parsed(encoded(&gss)), Ok(gss));
        assert_eq!(parsed(encoded(&Credentials::None)), Ok(Credentials::None));
    }

    #[test]
    fn surplus_groups_are_cut_when_building() {
        let many: Vec<u32> = (0..40).collect();
        assert_eq!(&*Groups::first_of(&many), &many[..16]);
    }
}
