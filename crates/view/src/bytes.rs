//! Values as bytes, on disk and between replicas: a format number, then postcard.
//!
//! What must never enter: what is encoded. Decoding never panics and takes no more memory than a small
//! multiple of the bytes it is given.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The format of everything this crate stores and sends.
const FORMAT: u8 = 2;

/// A value as bytes.
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
    postcard::to_extend(value, vec![FORMAT]).map_err(|error| error.to_string())
}

/// The value that `bytes` are, to the last byte.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let Some((format, rest)) = bytes.split_first() else {
        return Err("no bytes".to_owned());
    };
    if *format != FORMAT {
        return Err(format!("format {format} is not known here"));
    }
    match postcard::take_from_bytes(rest) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err("bytes are left over".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
