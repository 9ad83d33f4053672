//! Users and groups as text. With AUTH_SYS, client and server agree on numbers as names, so owners are sent as decimal
//! digits (RFC 8881, section 5.9). No user database is used.

use nfs4::{NfsStat4, Utf8str};
use vfs::ROOT_ID;
use xdr::Writer;

use crate::namespace::NOBODY_ID;

/// The id that POSIX reserves for "no such id", as in `chown(2)`.
const NO_ID: u32 = u32::MAX;

/// The most digits of an id.
const DIGITS: usize = 10;

/// Appends the text for an id.
pub(super) fn write_text_of(mut id: u32, w: &mut Writer) {
    let mut digits = [b'0'; DIGITS];
    let mut first = DIGITS;
    loop {
        first -= 1;
        digits[first] += (id % 10) as u8;
        id /= 10;
        if id == 0 {
            break;
        }
    }
    w.opaque(&digits[first..]);
}

/// Parses an id: decimal digits without leading zeros, or `root` or `nobody`. The server does not know its own domain,
/// so it refuses names in any domain: `root@example.org` is not this server's root.
///
/// # Errors
/// `BADOWNER` for everything else (RFC 8881, sections 5.9 and 15.1.15.2).
pub(super) fn id_of(text: &Utf8str) -> Result<u32, NfsStat4> {
    let text = text.as_str().ok_or(NfsStat4::BadOwner)?;
    match text {
        "root" => return Ok(ROOT_ID),
        "nobody" => return Ok(NOBODY_ID),
        _ => {}
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let has_leading_zero = text.len() > 1 && text.starts_with('0');
    if !is_number || has_leading_zero {
        return Err(NfsStat4::BadOwner);
    }
    match text.parse() {
        Ok(NO_ID) | Err(_) => Err(NfsStat4::BadOwner),
        Ok(id) => Ok(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdr::Reader;

    #[test]
    fn numbers_go_both_ways() {
        for id in [0, 7, 10, 1000, u32::MAX - 1] {
            let mut w = Writer::new();
            write_text_of(id, &mut w);
            let text: Utf8str = Reader::new(w.into_bytes()).read().unwrap();
            assert_eq!(text.as_str(), Some(id.to_string().as_str()));
            assert_eq!(id_of(&text), Ok(id));
        }
    }

    #[test]
    fn two_names_are_known() {
        for (name, id) in [("root", 0), ("nobody", NOBODY_ID)] {
            assert_eq!(id_of(&name.into()), Ok(id), "{name}");
        }
    }

    #[test]
    fn other_texts_are_no_owners() {
        let texts = [
            "",
            "alice",
            "alice@example.org",
            "+1",
            "-1",
            "007",
            "1 ",
            "0@example.org",
            "root@example.org",
            "root@",
            "@",
            "nobody@x",
        ];
        for text in texts.into_iter().chain(["4294967295", "4294967296"]) {
            assert_eq!(id_of(&text.into()), Err(NfsStat4::BadOwner), "{text}");
        }
        let not_text = Utf8str(bytes::Bytes::from_static(&[0xff]));
        assert_eq!(id_of(&not_text), Err(NfsStat4::BadOwner));
    }
}
