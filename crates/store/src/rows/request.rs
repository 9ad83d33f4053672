//! The results of the last request of a series, for each of its parts.

use bytes::BufMut;
use fields::{Fields, Tag};
use vfs::{ChangeAttribute, DirectoryChange, ObjectId, RequestId};

use crate::malformed::Malformed;

const VERSION: u8 = 2;

/// The kind of an [`Effect`].
#[derive(Clone, Copy)]
#[repr(u8)]
enum EffectKind {
    Made = 1,
    Changed = 2,
    Renamed = 3,
    Set = 4,
}

impl Tag for EffectKind {
    const ALL: &'static [Self] = &[Self::Made, Self::Changed, Self::Renamed, Self::Set];
    const UNKNOWN: fields::Malformed = fields::Malformed("what a request has done is unknown");

    fn number(self) -> u8 {
        self as u8
    }
}

/// The result of a request, as far as its answer cannot be reconstructed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// An object was created with its name.
    Made {
        object: ObjectId,
        directory: DirectoryChange,
    },
    /// A name was removed or added, or an extended attribute set or removed.
    Changed(DirectoryChange),
    /// A name was moved from one directory to another.
    Renamed(DirectoryChange, DirectoryChange),
    /// Attributes were set.
    Set,
}

/// The last request of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestRow {
    number: u64,
    digest: u64,
    /// Larger in rows that the same store wrote later.
    pub(crate) age: u64,
    /// The effect of each part.
    effects: Vec<(u32, Effect)>,
}

impl RequestRow {
    /// The row of a request with this effect.
    pub(crate) fn new(request: &RequestId, age: u64, effect: Effect) -> RequestRow {
        RequestRow {
            number: request.number,
            digest: request.digest,
            age,
            effects: vec![(request.part, effect)],
        }
    }

    /// The same row with another age.
    pub(crate) fn with_age(self, age: u64) -> RequestRow {
        RequestRow { age, ..self }
    }

    /// The effect of this request, if the row is about it.
    pub(crate) fn effect_of(&self, request: &RequestId) -> Option<Effect> {
        let same_number = RequestId::is_same_number(self.number, request.number);
        if !same_number || self.digest != request.digest {
            return None;
        }
        let mut effects = self.effects.iter();
        effects
            .find(|(part, _)| *part == request.part)
            .map(|(_, effect)| *effect)
    }

    /// Merges two rows: the later request, or all known effects if both are the same request.
    pub(crate) fn merged(mut self, other: RequestRow) -> RequestRow {
        if (self.number, self.digest) == (other.number, other.digest) {
            for (part, effect) in other.effects {
                if self.effects.iter().all(|(known, _)| *known != part) {
                    self.effects.push((part, effect));
                }
            }
            self.age = self.age.max(other.age);
            return self;
        }
        match self.number > other.number {
            true => self,
            false => other,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut row = vec![VERSION];
        row.put_u64(self.number);
        row.put_u64(self.digest);
        row.put_u64(self.age);
        for (part, effect) in &self.effects {
            row.put_u32(*part);
            match effect {
                Effect::Made { object, directory } => {
                    row.put_u8(EffectKind::Made.number());
                    row.put_u64(object.as_u64());
                    put_change(&mut row, directory);
                }
                Effect::Changed(change) => {
                    row.put_u8(EffectKind::Changed.number());
                    put_change(&mut row, change);
                }
                Effect::Renamed(source, target) => {
                    row.put_u8(EffectKind::Renamed.number());
                    put_change(&mut row, source);
                    put_change(&mut row, target);
                }
                Effect::Set => row.put_u8(EffectKind::Set.number()),
            }
        }
        row
    }

    pub(crate) fn decode(row: &[u8]) -> Result<RequestRow, Malformed> {
        let mut fields = Fields::new(row);
        if fields.u8()? != VERSION {
            return Err(Malformed("the version of a request is unknown"));
        }
        let (number, digest, age) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let mut effects = Vec::new();
        while !fields.is_empty() {
            let part = fields.u32()?;
            let effect = match EffectKind::read(&mut fields)? {
                EffectKind::Made => Effect::Made {
                    object: ObjectId::from_u64(fields.u64()?),
                    directory: change(&mut fields)?,
                },
                EffectKind::Changed => Effect::Changed(change(&mut fields)?),
                EffectKind::Renamed => Effect::Renamed(change(&mut fields)?, change(&mut fields)?),
                EffectKind::Set => Effect::Set,
            };
            effects.push((part, effect));
        }
        Ok(RequestRow {
            number,
            digest,
            age,
            effects,
        })
    }
}

fn put_change(row: &mut Vec<u8>, change: &DirectoryChange) {
    row.put_u64(change.before.0);
    row.put_u64(change.after.0);
}

fn change(fields: &mut Fields<'_>) -> Result<DirectoryChange, Malformed> {
    Ok(DirectoryChange {
        before: ChangeAttribute(fields.u64()?),
        after: ChangeAttribute(fields.u64()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u64, part: u32) -> RequestId {
        RequestId {
            series: [7; RequestId::SERIES_BYTES],
            number,
            part,
            digest: 9,
            repeat_only: false,
        }
    }

    fn change(before: u64) -> DirectoryChange {
        DirectoryChange {
            before: ChangeAttribute(before),
            after: ChangeAttribute(before + 1),
        }
    }

    #[test]
    fn rows_come_back_and_damaged_ones_are_refused() {
        let object = ObjectId::from_u64(3);
        let effects = [
            Effect::Made {
                object,
                directory: change(1),
            },
            Effect::Changed(change(2)),
            Effect::Renamed(change(3), change(4)),
            Effect::Set,
        ];
        let rows = (0..).zip(effects);
        let row = rows.map(|(part, effect)| RequestRow::new(&request(5, part), 77, effect));
        let row = row.reduce(RequestRow::merged).unwrap();
        let encoded = row.encode();
        let number = |number: u64| number.to_be_bytes().to_vec();
        let form = [
            [&[2][..], &number(5), &number(9), &number(77)].concat(),
            [&[0, 0, 0, 0, 1][..], &number(3), &number(1), &number(2)].concat(),
            [&[0, 0, 0, 1, 2][..], &number(2), &number(3)].concat(),
            [
                &[0, 0, 0, 2, 3][..],
                &number(3),
                &number(4),
                &number(4),
                &number(5),
            ]
            .concat(),
            vec![0, 0, 0, 3, 4],
        ];
        assert_eq!(encoded, form.concat(), "the form of a row never changes");
        assert_eq!(RequestRow::decode(&encoded), Ok(row.clone()));
        for (part, effect) in (0..).zip(effects) {
            assert_eq!(row.effect_of(&request(5, part)), Some(effect));
        }
        assert_eq!(row.effect_of(&request(5, 9)), None);
        assert_eq!(row.effect_of(&request(6, 0)), None);
        let other = RequestId {
            digest: 8,
            ..request(5, 0)
        };
        assert_eq!(row.effect_of(&other), None, "it asks for something else");
        let mut unknown = encoded.clone();
        unknown[29] = 99;
        for damaged in [&encoded[..encoded.len() - 1], &unknown, &[1], &[2]] {
            assert!(RequestRow::decode(damaged).is_err());
        }
    }

    #[test]
    fn the_later_request_counts_in_whichever_order_they_come() {
        // However many requests without a change lie between the two.
        for (early, late) in [
            (u64::from(u32::MAX), 1 << 32),
            (5, 6 + (1 << 31)),
            (5, 3 << 32),
        ] {
            let early = RequestRow::new(&request(early, 0), 1, Effect::Set);
            let late = RequestRow::new(&request(late, 0), 2, Effect::Changed(change(1)));
            assert_eq!(early.clone().merged(late.clone()), late);
            assert_eq!(late.clone().merged(early), late);
        }
    }
}
