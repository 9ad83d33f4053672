//! Encoding of the locks and denials of one file in update records.

use bytes::BufMut;
use fields::{Fields, Tag};
use vfs::{ByteRange, LockKind, LockOwner, OpenOwner, Share};

use crate::locks::Held;
use crate::malformed::Malformed;
use crate::shares::Denial;

const VERSION: u8 = 1;

/// A [`LockKind`] as a byte.
#[derive(Clone, Copy)]
struct KindOfLock(LockKind);

impl Tag for KindOfLock {
    const ALL: &'static [Self] = &[KindOfLock(LockKind::Read), KindOfLock(LockKind::Write)];
    const UNKNOWN: fields::Malformed = fields::Malformed("the kind of a lock is unknown");

    fn number(self) -> u8 {
        match self.0 {
            LockKind::Read => 1,
            LockKind::Write => 2,
        }
    }
}

const READ: u8 = 1;
const WRITE: u8 = 2;
const DENY_READ: u8 = 4;
const DENY_WRITE: u8 = 8;

/// Longer lists are not encoded: a further lock is refused.
const MAX_LIST_BYTES: usize = 1 << 20;

/// All locks of a file. `None` when there are too many.
pub(crate) fn encode_locks(held: &[Held]) -> Option<Vec<u8>> {
    let mut row = vec![VERSION];
    for Held { owner, range, kind } in held {
        put_text(&mut row, &owner.client)?;
        put_text(&mut row, &owner.owner)?;
        row.put_u64(range.start());
        row.put_u64(range.last());
        row.put_u8(KindOfLock(*kind).number());
    }
    bounded(row)
}

pub(crate) fn decode_locks(row: &[u8]) -> Result<Vec<Held>, Malformed> {
    let mut fields = begin(row)?;
    let mut held = Vec::new();
    while !fields.is_empty() {
        let owner = LockOwner {
            client: text(&mut fields)?.into(),
            owner: text(&mut fields)?.into(),
        };
        let range = ByteRange::from_bounds(fields.u64()?, fields.u64()?);
        let range = range.ok_or(Malformed("a lock ends before it starts"))?;
        let KindOfLock(kind) = KindOfLock::read(&mut fields)?;
        held.push(Held { owner, range, kind });
    }
    Ok(held)
}

/// All opens of a file that deny access to others. `None` when there are too many.
pub(crate) fn encode_denials(denials: &[Denial]) -> Option<Vec<u8>> {
    let mut row = vec![VERSION];
    for (OpenOwner(owner), share) in denials {
        put_text(&mut row, owner)?;
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        row.put_u8(
            flag(share.read, READ)
                | flag(share.write, WRITE)
                | flag(share.deny_read, DENY_READ)
                | flag(share.deny_write, DENY_WRITE),
        );
    }
    bounded(row)
}

pub(crate) fn decode_denials(row: &[u8]) -> Result<Vec<Denial>, Malformed> {
    let mut fields = begin(row)?;
    let mut denials = Vec::new();
    while !fields.is_empty() {
        let owner = OpenOwner(text(&mut fields)?.into());
        let flags = fields.u8()?;
        if flags & !(READ | WRITE | DENY_READ | DENY_WRITE) != 0 {
            return Err(Malformed("an open has unknown flags"));
        }
        let share = Share {
            read: flags & READ != 0,
            write: flags & WRITE != 0,
            deny_read: flags & DENY_READ != 0,
            deny_write: flags & DENY_WRITE != 0,
        };
        denials.push((owner, share));
    }
    Ok(denials)
}

fn begin(row: &[u8]) -> Result<Fields<'_>, Malformed> {
    let mut fields = Fields::new(row);
    match fields.u8()? {
        VERSION => Ok(fields),
        _ => Err(Malformed("the version of a list of locks is unknown")),
    }
}

fn put_text(row: &mut Vec<u8>, text: &[u8]) -> Option<()> {
    row.put_u16(u16::try_from(text.len()).ok()?);
    row.put_slice(text);
    Some(())
}

fn text<'r>(fields: &mut Fields<'r>) -> Result<&'r [u8], Malformed> {
    let length = usize::from(fields.u16()?);
    Ok(fields.bytes(length)?)
}

fn bounded(row: Vec<u8>) -> Option<Vec<u8>> {
    (row.len() <= MAX_LIST_BYTES).then_some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back_and_shortened_ones_do_not_panic() {
        let owner = LockOwner {
            client: b"client"[..].into(),
            owner: b""[..].into(),
        };
        let held = vec![Held {
            owner,
            range: ByteRange::EVERYTHING,
            kind: LockKind::Write,
        }];
        let row = encode_locks(&held).unwrap();
        assert_eq!(decode_locks(&row), Ok(held));
        let share = Share {
            deny_write: true,
            ..Share::default()
        };
        let denials = vec![(OpenOwner(b"owner"[..].into()), share)];
        let denied = encode_denials(&denials).unwrap();
        assert_eq!(decode_denials(&denied), Ok(denials));
        for length in 2..row.len() {
            assert!(decode_locks(&row[..length]).is_err());
        }
        for length in 2..denied.len() {
            assert!(decode_denials(&denied[..length]).is_err());
        }
    }

    #[test]
    fn the_forms_of_the_lists_never_change() {
        let held = |kind| Held {
            owner: LockOwner {
                client: b"c"[..].into(),
                owner: b"own"[..].into(),
            },
            range: ByteRange::from_bounds(5, 6).unwrap(),
            kind,
        };
        let row = encode_locks(&[held(LockKind::Read), held(LockKind::Write)]).unwrap();
        let owner = b"\0\x01c\0\x03own";
        let range = [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 6];
        let form = [&[1], &owner[..], &range, &[1], owner, &range, &[2]].concat();
        assert_eq!(row, form);
        let mut unknown = row;
        *unknown.last_mut().unwrap() = 3;
        assert!(decode_locks(&unknown).is_err());
        let share = |number: u8| Share {
            read: number == 0,
            write: number == 1,
            deny_read: number == 2,
            deny_write: number == 3,
        };
        let denials = (0..4).map(|number| (OpenOwner(vec![number].into()), share(number)));
        let row = encode_denials(&denials.collect::<Vec<_>>()).unwrap();
        let form = [0, 1, 0, 1, 0, 1, 1, 2, 0, 1, 2, 4, 0, 1, 3, 8];
        assert_eq!(row, [&[1], &form[..]].concat());
        let mut unknown = row;
        *unknown.last_mut().unwrap() = 16;
        assert!(decode_denials(&unknown).is_err());
    }

    #[test]
    fn a_list_that_nobody_could_read_again_is_not_written() {
        let held = |number: u64| Held {
            owner: LockOwner {
                client: vec![0; 1024].into(),
                owner: number.to_be_bytes()[..].into(),
            },
            range: ByteRange::EVERYTHING,
            kind: LockKind::Read,
        };
        let many: Vec<Held> = (0..2000).map(held).collect();
        assert_eq!(encode_locks(&many), None);
    }
}
