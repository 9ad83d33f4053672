//! Macros that define a structure, an enumeration or a union once and derive both
//! directions from it. Types that fit none of them are written by hand where
//! they occur.

/// A structure (RFC 4506, section 4.14): its fields in order.
///
/// A field of variable length has its limit after its type.
///
/// ```
/// # use xdr::Bytes;
/// xdr::xdr_struct! {
///     /// The owner of an open file.
///     #[derive(Debug, Clone, PartialEq, Eq)]
///     pub struct Owner {
///         /// The client.
///         pub clientid: u64,
///         /// A name the client chose.
///         pub owner: Bytes [<= 1024],
///     }
/// }
/// ```
#[macro_export]
macro_rules! xdr_struct {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[$field_meta:meta])*
                $field_vis:vis $field:ident : $type:ty $([<= $max:expr])?
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $( $(#[$field_meta])* $field_vis $field: $type, )*
        }

        impl $crate::Encode for $name {
            fn encode(&self, w: &mut $crate::Writer) {
                $( $crate::Encode::encode(&self.$field, w); )*
            }
        }

        impl $crate::Decode for $name {
            fn decode(r: &mut $crate::Reader) -> Result<Self, $crate::DecodeError> {
                Ok(Self { $( $field: $crate::xdr_decode!(r, $type $(, $max)?), )* })
            }
        }
    };
}

/// A structure with one unnamed field: a name for another type.
///
/// ```
/// # use xdr::Bytes;
/// xdr::xdr_newtype! {
///     /// A file handle.
///     #[derive(Debug, Clone, PartialEq, Eq)]
///     pub struct Handle(pub Bytes [<= 128]);
/// }
/// ```
#[macro_export]
macro_rules! xdr_newtype {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident($field_vis:vis $type:ty $([<= $max:expr])?);
    ) => {
        $(#[$meta])*
        $vis struct $name($field_vis $type);

        impl $crate::Encode for $name {
            #[inline]
            fn encode(&self, w: &mut $crate::Writer) {
                $crate::Encode::encode(&self.0, w);
            }
        }

        impl $crate::Decode for $name {
            #[inline]
            fn decode(r: &mut $crate::Reader) -> Result<Self, $crate::DecodeError> {
                Ok(Self($crate::xdr_decode!(r, $type $(, $max)?)))
            }
        }
    };
}

/// An enumeration (RFC 4506, section 4.3). Values it does not list are refused.
///
/// `u32::from` and `TryFrom<u32>` convert to and from the number on the wire;
/// `ALL` lists every value in the order written.
///
/// ```
/// xdr::xdr_enum! {
///     /// Which end of a file.
///     #[derive(Debug, Clone, Copy, PartialEq, Eq)]
///     pub enum End {
///         /// Offset zero.
///         Start = 0,
///         /// The first offset past the data.
///         Eof = 1,
///     }
/// }
/// assert_eq!(End::try_from(1), Ok(End::Eof));
/// assert_eq!(u32::from(End::Start), 0);
/// ```
///
/// In a `named enum`, the description of each value begins with its name in the standard. The value is displayed with that name.
///
/// ```
/// xdr::xdr_enum! {
///     /// How it ended.
///     #[derive(Debug, Clone, Copy, PartialEq, Eq)]
///     pub named enum Status {
///         /// NFS4_OK: success.
///         Ok = 0,
///         /// NFS4ERR_PERM: not allowed.
///         Perm = 1,
///     }
/// }
/// assert_eq!(Status::Perm.to_string(), "NFS4ERR_PERM");
/// ```
#[macro_export]
macro_rules! xdr_enum {
    (
        $(#[$meta:meta])*
        $vis:vis named enum $name:ident {
            $(
                #[doc = $description:literal]
                $(#[$variant_meta:meta])*
                $variant:ident = $value:literal
            ),* $(,)?
        }
    ) => {
        $crate::xdr_enum! {
            $(#[$meta])*
            $vis enum $name {
                $(
                    #[doc = $description]
                    $(#[$variant_meta])*
                    $variant = $value,
                )*
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str($crate::first_word(match self {
                    $( Self::$variant => $description, )*
                }))
            }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $value:literal ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[repr(u32)]
        $vis enum $name {
            $( $(#[$variant_meta])* $variant = $value, )*
        }

        impl $name {
            /// Every value, in the order of the definition.
            $vis const ALL: &'static [Self] = &[$( Self::$variant, )*];
        }

        impl From<$name> for u32 {
            #[inline]
            fn from(value: $name) -> u32 {
                value as u32
            }
        }

        impl TryFrom<u32> for $name {
            type Error = $crate::DecodeError;

            #[inline]
            fn try_from(value: u32) -> Result<Self, $crate::DecodeError> {
                match value {
                    $( $value => Ok(Self::$variant), )*
                    _ => Err($crate::DecodeError::UnknownValue {
                        kind: stringify!($name),
                        value,
                    }),
                }
            }
        }

        impl $crate::Encode for $name {
            #[inline]
            fn encode(&self, w: &mut $crate::Writer) {
                w.u32(*self as u32);
            }
        }

        impl $crate::Decode for $name {
            #[inline]
            fn decode(r: &mut $crate::Reader) -> Result<Self, $crate::DecodeError> {
                Self::try_from(r.u32()?)
            }
        }
    };
}

/// A discriminated union (RFC 4506, section 4.15). Each arm names the number of
/// its discriminant; arms without a body are void. Discriminants it does not
/// list are refused.
///
/// ```
/// # use xdr::Bytes;
/// xdr::xdr_union! {
///     /// What to create.
///     #[derive(Debug, Clone, PartialEq, Eq)]
///     pub enum Kind {
///         /// A directory.
///         2 => Dir,
///         /// A symbolic link and its target.
///         5 => Link(Bytes [<= 4096]),
///     }
/// }
/// ```
#[macro_export]
macro_rules! xdr_union {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $(
                $(#[$variant_meta:meta])*
                $value:literal => $variant:ident $(($type:ty $([<= $max:expr])?))?
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis enum $name {
            $( $(#[$variant_meta])* $variant $(($type))?, )*
        }

        impl $crate::Encode for $name {
            fn encode(&self, w: &mut $crate::Writer) {
                match self {
                    $( $crate::xdr_arm!(Self, $variant, body $(: $type)?) => {
                        w.u32($value);
                        $crate::xdr_encode_body!(w, body $(: $type)?);
                    } )*
                }
            }
        }

        impl $crate::Decode for $name {
            fn decode(r: &mut $crate::Reader) -> Result<Self, $crate::DecodeError> {
                Ok(match r.u32()? {
                    $( $value => Self::$variant $((
                        $crate::xdr_decode!(r, $type $(, $max)?)
                    ))?, )*
                    value => {
                        return Err($crate::DecodeError::UnknownValue {
                            kind: stringify!($name),
                            value,
                        });
                    }
                })
            }
        }
    };
}

/// The name at the beginning of the description of a value.
#[doc(hidden)]
pub fn first_word(description: &str) -> &str {
    let word = description.split_whitespace().next();
    word.unwrap_or_default().trim_matches([':', '`'])
}

#[doc(hidden)]
#[macro_export]
macro_rules! xdr_decode {
    ($r:ident, $type:ty) => {
        <$type as $crate::Decode>::decode($r)?
    };
    ($r:ident, $type:ty, $max:expr) => {
        <$type as $crate::DecodeBounded>::decode_bounded($r, $max)?
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! xdr_arm {
    ($self:ident, $variant:ident, $body:ident) => {
        $self::$variant
    };
    ($self:ident, $variant:ident, $body:ident : $type:ty) => {
        $self::$variant($body)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! xdr_encode_body {
    ($w:ident, $body:ident) => {};
    ($w:ident, $body:ident : $type:ty) => {
        $crate::Encode::encode($body, $w)
    };
}
