//! What a home stores beside the rows of its files: facts of the store, each under its own key.
//!
//! | key | row |
//! |---|---|
//! | `striping/issue` | the issue number (8) of the last start |
//! | `striping/key` | the number (4) of the newest key that handles are sealed with |
//! | `striping/server/`, data server (2) | its identity (16), counter (8; its highest bit: an older copy was seen) and run (8), when it was last heard of |
//! | `striping/intent/`, number (8) | version 1 (1), object (8), placement (4), generation (8), act (1), two numbers of the act (16), 1 when the row says what came of it (1), the data servers that owe it (2 each) |
//! | `striping/unsettled/`, object (8) | version 1 (1); while it exists, clients may write, or may have written, directly at data servers |
//! | `striping/move/`, object (8) | version 1 (1), placement (29) that the file is being moved to; only the move uses contents under it |
//! | `striping/placements` | the largest placement number (4) that a move used, or under which contents may have been removed |
//!
//! All numbers are big-endian.

use std::collections::BTreeSet;

use fields::{Fields, Malformed, Tag};
use pool::home::Owed;
use pool::{
    Act, ContentsId, DataServerNumber, Generation, Intent, IntentNumber, KeyNumber, Placement,
    PlacementNumber, StoreIdentity,
};
use vfs::{Extent, ObjectId};

/// A row to write or to remove.
pub(crate) type Fact = (Vec<u8>, Option<Vec<u8>>);

pub(crate) const ISSUE: &[u8] = b"striping/issue";
pub(crate) const KEY: &[u8] = b"striping/key";
pub(crate) const SERVERS: &[u8] = b"striping/server/";
pub(crate) const INTENTS: &[u8] = b"striping/intent/";
pub(crate) const UNSETTLED: &[u8] = b"striping/unsettled/";

pub(crate) const MOVES: &[u8] = b"striping/move/";
pub(crate) const PLACEMENTS: &[u8] = b"striping/placements";

const VERSION: u8 = 1;

/// The kind of an [`Act`].
#[derive(Clone, Copy)]
#[repr(u8)]
enum ActKind {
    Fence = 1,
    Truncate = 2,
    Punch = 3,
    Remove = 4,
}

impl Tag for ActKind {
    const ALL: &'static [Self] = &[Self::Fence, Self::Truncate, Self::Punch, Self::Remove];
    const UNKNOWN: Malformed = Malformed("it asks for no known act");

    fn number(self) -> u8 {
        self as u8
    }
}

pub(crate) fn key(newest: KeyNumber) -> Fact {
    (KEY.to_vec(), Some(newest.0.to_be_bytes().to_vec()))
}

pub(crate) fn parse_key(row: &[u8]) -> Option<KeyNumber> {
    Some(KeyNumber(u32::from_be_bytes(row.try_into().ok()?)))
}

pub(crate) fn identity(server: DataServerNumber, identity: StoreIdentity) -> Fact {
    let row = [
        &identity.store.to_be_bytes()[..],
        &identity.counter.to_be_bytes(),
        &identity.run.to_be_bytes(),
    ]
    .concat();
    ([SERVERS, &server.0.to_be_bytes()].concat(), Some(row))
}

pub(crate) fn parse_identity(key: &[u8], row: &[u8]) -> Option<(DataServerNumber, StoreIdentity)> {
    let number = key.strip_prefix(SERVERS)?.try_into().ok()?;
    let mut fields = Fields::new(row);
    let identity = StoreIdentity {
        store: u128::from_be_bytes(fields.array().ok()?),
        counter: fields.u64().ok()?,
        run: fields.u64().ok()?,
    };
    let server = DataServerNumber(u16::from_be_bytes(number));
    fields.is_empty().then_some((server, identity))
}

pub(crate) fn unsettled(object: ObjectId, is_unsettled: bool) -> Fact {
    let key = [UNSETTLED, &object.as_u64().to_be_bytes()].concat();
    (key, is_unsettled.then(|| vec![VERSION]))
}

pub(crate) fn parse_unsettled(key: &[u8], row: &[u8]) -> Option<ObjectId> {
    let object = key.strip_prefix(UNSETTLED)?.try_into().ok()?;
    (row == [VERSION]).then(|| ObjectId::from_u64(u64::from_be_bytes(object)))
}

pub(crate) fn a_move(object: ObjectId, to: Option<&Placement>) -> Fact {
    let key = [MOVES, &object.as_u64().to_be_bytes()].concat();
    (key, to.map(|to| [&[VERSION][..], &to.encode()].concat()))
}

/// The object, and the target of its move.
pub(crate) fn parse_move(key: &[u8], row: &[u8]) -> Option<(ObjectId, Placement)> {
    let object = key.strip_prefix(MOVES)?.try_into().ok()?;
    let to = row.strip_prefix(&[VERSION])?;
    let object = ObjectId::from_u64(u64::from_be_bytes(object));
    Some((object, Placement::decode(to).ok()?))
}

pub(crate) fn placements(last: PlacementNumber) -> Fact {
    (PLACEMENTS.to_vec(), Some(last.0.to_be_bytes().to_vec()))
}

pub(crate) fn parse_placements(row: &[u8]) -> Option<PlacementNumber> {
    Some(PlacementNumber(u32::from_be_bytes(row.try_into().ok()?)))
}

pub(crate) fn intent_key(number: IntentNumber) -> Vec<u8> {
    [INTENTS, &number.0.to_be_bytes()].concat()
}

pub(crate) fn intent(owed: &Owed) -> Fact {
    let Intent {
        number,
        contents,
        generation,
        act,
    } = owed.intent;
    let (kind, first, second) = match act {
        Act::Fence => (ActKind::Fence, 0, 0),
        Act::Truncate(size) => (ActKind::Truncate, size, 0),
        Act::Punch(extent) => (ActKind::Punch, extent.offset, extent.length),
        Act::Remove => (ActKind::Remove, 0, 0),
    };
    let mut row = vec![VERSION];
    row.extend(contents.object.as_u64().to_be_bytes());
    row.extend(contents.placement.0.to_be_bytes());
    row.extend(generation.0.to_be_bytes());
    row.push(kind.number());
    row.extend(first.to_be_bytes());
    row.extend(second.to_be_bytes());
    row.push(u8::from(owed.in_row));
    row.extend(owed.owed.iter().flat_map(|server| server.0.to_be_bytes()));
    (intent_key(number), Some(row))
}

pub(crate) fn parse_intent(key: &[u8], row: &[u8]) -> Option<Owed> {
    let number = key.strip_prefix(INTENTS)?.try_into().ok()?;
    let mut fields = Fields::new(row);
    if fields.u8().ok()? != VERSION {
        return None;
    }
    let contents = ContentsId {
        object: ObjectId::from_u64(fields.u64().ok()?),
        placement: PlacementNumber(fields.u32().ok()?),
    };
    let generation = Generation(fields.u64().ok()?);
    let kind = ActKind::read(&mut fields).ok()?;
    let first = fields.u64().ok()?;
    let second = fields.u64().ok()?;
    let act = match kind {
        ActKind::Fence => Act::Fence,
        ActKind::Truncate => Act::Truncate(first),
        ActKind::Punch => Act::Punch(Extent {
            offset: first,
            length: second,
        }),
        ActKind::Remove => Act::Remove,
    };
    let in_row = match fields.u8().ok()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let mut owed = BTreeSet::new();
    while !fields.is_empty() {
        owed.insert(DataServerNumber(fields.u16().ok()?));
    }
    let intent = Intent {
        number: IntentNumber(u64::from_be_bytes(number)),
        contents,
        generation,
        act,
    };
    Some(Owed {
        intent,
        owed,
        in_row,
    })
}

/// See [`crate::decode_as_anything`].
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    let _ = parse_unsettled(bytes, &[VERSION]);
    let _ = parse_placements(bytes);
    let _ = parse_key(bytes);
    let (key, _) = a_move(ObjectId::from_u64(1), None);
    if let Some((object, to)) = parse_move(&key, bytes) {
        assert_eq!(a_move(object, Some(&to)), (key, Some(bytes.to_vec())));
    }
    let server = [SERVERS, &1_u16.to_be_bytes()].concat();
    if let Some((number, known)) = parse_identity(&server, bytes) {
        assert_eq!(identity(number, known), (server, Some(bytes.to_vec())));
    }
    if let Some(owed) = parse_intent(&intent_key(IntentNumber(1)), bytes) {
        let (key, row) = intent(&owed);
        let again = row.and_then(|row| parse_intent(&key, &row));
        assert_eq!(again.as_ref(), Some(&owed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owed(act: Act, in_row: bool, servers: &[u16]) -> Owed {
        Owed {
            intent: Intent {
                number: IntentNumber(7 << 32 | 5),
                contents: ContentsId {
                    object: ObjectId::from_u64(u64::MAX - 1),
                    placement: PlacementNumber(3),
                },
                generation: Generation(9),
                act,
            },
            owed: servers.iter().copied().map(DataServerNumber).collect(),
            in_row,
        }
    }

    #[test]
    fn what_was_kept_is_read_as_it_was() {
        let hole = Extent {
            offset: 5,
            length: u64::MAX - 5,
        };
        for act in [
            Act::Fence,
            Act::Truncate(4711),
            Act::Punch(hole),
            Act::Remove,
        ] {
            for (in_row, servers) in [(false, &[1, 2, 515][..]), (true, &[])] {
                let owed = owed(act, in_row, servers);
                let (key, row) = intent(&owed);
                let row = row.unwrap();
                assert_eq!(parse_intent(&key, &row), Some(owed));
                for length in 0..39 {
                    assert_eq!(parse_intent(&key, &row[..length]), None, "{length} bytes");
                }
            }
        }
        let (key, row) = unsettled(ObjectId::from_u64(515), true);
        let parsed = parse_unsettled(&key, &row.unwrap());
        assert_eq!(parsed, Some(ObjectId::from_u64(515)));
        assert_eq!(parse_unsettled(&key[1..], &[VERSION]), None);
        let to = Placement {
            pool: pool::PoolId(7),
            kind: pool::LayoutKind::Files,
            number: PlacementNumber(3),
            unit: pool::StripeUnit::MIN,
            group: pool::DeviceGroupNumber(9),
            first_index: 1,
            generation: Generation::FIRST,
        };
        let (key, row) = a_move(ObjectId::from_u64(515), Some(&to));
        let row = row.unwrap();
        assert_eq!(parse_move(&key, &row), Some((ObjectId::from_u64(515), to)));
        assert_eq!(parse_move(&key, &row[1..]), None);
        let (_, row) = placements(PlacementNumber(258));
        assert_eq!(parse_placements(&row.unwrap()), Some(PlacementNumber(258)));
        let (_, row) = super::key(KeyNumber(515));
        assert_eq!(parse_key(&row.unwrap()), Some(KeyNumber(515)));
        let known = StoreIdentity {
            store: u128::MAX - 7,
            counter: 8,
            run: 9,
        };
        let (key, row) = identity(DataServerNumber(300), known);
        let row = row.unwrap();
        assert_eq!(
            parse_identity(&key, &row),
            Some((DataServerNumber(300), known))
        );
        assert_eq!(parse_identity(&key, &row[1..]), None);
    }

    #[test]
    fn the_form_of_an_intent_never_changes() {
        let hole = Extent {
            offset: 5,
            length: 6,
        };
        let numbers = [Act::Fence, Act::Truncate(2), Act::Punch(hole), Act::Remove];
        let rows = numbers.map(|act| intent(&owed(act, true, &[258])).1.unwrap());
        let before = [
            &[1][..],
            &[255, 255, 255, 255, 255, 255, 255, 254],
            &[0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9],
        ];
        let size = [0, 0, 0, 0, 0, 0, 0, 2];
        let (from, length) = (hole.offset.to_be_bytes(), hole.length.to_be_bytes());
        let none = [0; 8];
        let acts = [
            (1, none, none),
            (2, size, none),
            (3, from, length),
            (4, none, none),
        ];
        for (row, (kind, first, second)) in rows.iter().zip(acts) {
            let form = [&before.concat()[..], &[kind], &first, &second, &[1, 1, 2]].concat();
            assert_eq!(*row, form, "the form of a row never changes");
        }
        let (key, mut row) = intent(&owed(Act::Remove, true, &[]));
        if let Some(row) = &mut row {
            row[21] = 5;
        }
        assert_eq!(parse_intent(&key, &row.unwrap()), None, "no such act");
    }
}
