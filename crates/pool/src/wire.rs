//! The encoding of the messages between homes and data servers. All numbers are big-endian; the first byte is the kind of message.
//!
//! Both ends agree on a version when they connect; this is version 3.

use crate::keys::{HandleKey, HandleKeys};
use crate::message::{
    Act, ContentsId, Holding, Intent, IntentNumber, Report, StoreIdentity, ToDataServer, ToHome,
};
use crate::numbers::{Generation, IssueNumber, KeyNumber, PlacementNumber};
use control::Moment;
use fields::{Fields, Malformed, Tag};
use std::time::Duration;
use vfs::{Extent, ObjectId};

const UNKNOWN_MESSAGE: Malformed = Malformed("it is of no known kind");

/// The kind of [`ToHome`].
#[derive(Clone, Copy)]
#[repr(u8)]
enum ToHomeKind {
    LeaseRequest = 1,
    Taken = 2,
    Looked = 3,
}

impl Tag for ToHomeKind {
    const ALL: &'static [Self] = &[Self::LeaseRequest, Self::Taken, Self::Looked];
    const UNKNOWN: Malformed = UNKNOWN_MESSAGE;

    fn number(self) -> u8 {
        self as u8
    }
}

/// The kind of [`ToDataServer`]. 1 and 2 were a lease and an intent of version 1, 4 a lease of version 2.
#[derive(Clone, Copy)]
#[repr(u8)]
enum ToDataServerKind {
    Look = 3,
    Take = 5,
    Lease = 6,
}

impl Tag for ToDataServerKind {
    const ALL: &'static [Self] = &[Self::Look, Self::Take, Self::Lease];
    const UNKNOWN: Malformed = UNKNOWN_MESSAGE;

    fn number(self) -> u8 {
        self as u8
    }
}

/// The kind of [`Act`].
#[derive(Clone, Copy)]
#[repr(u8)]
enum ActKind {
    Fence = 0,
    Truncate = 1,
    Punch = 2,
    Remove = 3,
}

impl Tag for ActKind {
    const ALL: &'static [Self] = &[Self::Fence, Self::Truncate, Self::Punch, Self::Remove];
    const UNKNOWN: Malformed = Malformed("it asks for no known act");

    fn number(self) -> u8 {
        self as u8
    }
}

impl ToHome {
    /// The encoded bytes; at most 65.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match *self {
            ToHome::LeaseRequest { asked, identity } => {
                bytes.push(ToHomeKind::LeaseRequest.number());
                put(&mut bytes, asked.0);
                bytes.extend(identity.store.to_be_bytes());
                put(&mut bytes, identity.counter);
                put(&mut bytes, identity.run);
            }
            ToHome::Taken { number, report } => {
                bytes.push(ToHomeKind::Taken.number());
                put(&mut bytes, number.0);
                put_report(&mut bytes, report);
            }
            ToHome::Looked { question, report } => {
                bytes.push(ToHomeKind::Looked.number());
                put(&mut bytes, question);
                put_report(&mut bytes, report);
            }
        }
        bytes
    }

    /// Reads what [`ToHome::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are not of that form.
    pub fn decode(bytes: &[u8]) -> Result<ToHome, Malformed> {
        let mut fields = Fields::new(bytes);
        let message = match ToHomeKind::read(&mut fields)? {
            ToHomeKind::LeaseRequest => ToHome::LeaseRequest {
                asked: Moment(fields.u64()?),
                identity: StoreIdentity {
                    store: u128::from_be_bytes(fields.array()?),
                    counter: fields.u64()?,
                    run: fields.u64()?,
                },
            },
            ToHomeKind::Taken => ToHome::Taken {
                number: IntentNumber(fields.u64()?),
                report: report(&mut fields)?,
            },
            ToHomeKind::Looked => ToHome::Looked {
                question: fields.u64()?,
                report: report(&mut fields)?,
            },
        };
        fields.end()?;
        Ok(message)
    }
}

impl ToDataServer {
    /// The encoded bytes; at most 98. The bytes of a lease contain secrets.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            ToDataServer::Lease {
                asked,
                issue,
                keys,
                clients,
            } => {
                bytes.push(ToDataServerKind::Lease.number());
                put(&mut bytes, asked.0);
                put(&mut bytes, issue.0);
                put(&mut bytes, micros(*clients));
                put_key(&mut bytes, keys.current());
                bytes.push(u8::from(keys.previous().is_some()));
                keys.previous()
                    .iter()
                    .for_each(|key| put_key(&mut bytes, key));
            }
            ToDataServer::Take(intent, key) => {
                bytes.push(ToDataServerKind::Take.number());
                bytes.extend(key.0.to_be_bytes());
                put(&mut bytes, intent.number.0);
                put_contents(&mut bytes, intent.contents);
                put(&mut bytes, intent.generation.0);
                put_act(&mut bytes, intent.act);
            }
            ToDataServer::Look {
                issue,
                question,
                contents,
                stable,
            } => {
                bytes.push(ToDataServerKind::Look.number());
                put(&mut bytes, issue.0);
                put(&mut bytes, *question);
                put_contents(&mut bytes, *contents);
                bytes.push(u8::from(*stable));
            }
        }
        bytes
    }

    /// Reads what [`ToDataServer::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are not of that form.
    pub fn decode(bytes: &[u8]) -> Result<ToDataServer, Malformed> {
        let mut fields = Fields::new(bytes);
        let message = match ToDataServerKind::read(&mut fields)? {
            ToDataServerKind::Lease => ToDataServer::Lease {
                asked: Moment(fields.u64()?),
                issue: IssueNumber(fields.u64()?),
                clients: Duration::from_micros(fields.u64()?),
                keys: keys(&mut fields)?,
            },
            ToDataServerKind::Take => {
                let key = KeyNumber(fields.u32()?);
                let intent = Intent {
                    number: IntentNumber(fields.u64()?),
                    contents: contents(&mut fields)?,
                    generation: Generation(fields.u64()?),
                    act: act(&mut fields)?,
                };
                ToDataServer::Take(intent, key)
            }
            ToDataServerKind::Look => ToDataServer::Look {
                issue: IssueNumber(fields.u64()?),
                question: fields.u64()?,
                contents: contents(&mut fields)?,
                stable: yes_or_no(&mut fields)?,
            },
        };
        fields.end()?;
        Ok(message)
    }
}

impl Holding {
    /// The encoded bytes: 40.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, self.total_bytes);
        put(&mut bytes, self.available_bytes);
        put(&mut bytes, self.contents);
        put(&mut bytes, self.read_bytes);
        put(&mut bytes, self.written_bytes);
        bytes
    }

    /// Reads what [`Holding::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are not of that form.
    pub fn decode(bytes: &[u8]) -> Result<Holding, Malformed> {
        let mut fields = Fields::new(bytes);
        let holding = Holding {
            total_bytes: fields.u64()?,
            available_bytes: fields.u64()?,
            contents: fields.u64()?,
            read_bytes: fields.u64()?,
            written_bytes: fields.u64()?,
        };
        fields.end()?;
        Ok(holding)
    }
}

/// Saturates: a lease is never that long.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn put(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend(number.to_be_bytes());
}

fn yes_or_no(fields: &mut Fields<'_>) -> Result<bool, Malformed> {
    match fields.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("it says neither yes nor no")),
    }
}

fn put_key(bytes: &mut Vec<u8>, key: &HandleKey) {
    bytes.extend(key.number().0.to_be_bytes());
    bytes.extend(key.secret());
}

fn key(fields: &mut Fields<'_>) -> Result<HandleKey, Malformed> {
    Ok(HandleKey::new(KeyNumber(fields.u32()?), fields.array()?))
}

/// The newest key, and the previous key, if it counts.
fn keys(fields: &mut Fields<'_>) -> Result<HandleKeys, Malformed> {
    let current = key(fields)?;
    let previous = match yes_or_no(fields)? {
        true => Some(key(fields)?),
        false => None,
    };
    Ok(HandleKeys::of(current, previous))
}

fn put_report(bytes: &mut Vec<u8>, report: Report) {
    put(bytes, report.end);
    put(bytes, report.run);
    put(bytes, report.writes);
}

fn report(fields: &mut Fields<'_>) -> Result<Report, Malformed> {
    Ok(Report {
        end: fields.u64()?,
        run: fields.u64()?,
        writes: fields.u64()?,
    })
}

fn put_contents(bytes: &mut Vec<u8>, contents: ContentsId) {
    put(bytes, contents.object.as_u64());
    bytes.extend(contents.placement.0.to_be_bytes());
}

fn contents(fields: &mut Fields<'_>) -> Result<ContentsId, Malformed> {
    Ok(ContentsId {
        object: ObjectId::from_u64(fields.u64()?),
        placement: PlacementNumber(fields.u32()?),
    })
}

fn put_act(bytes: &mut Vec<u8>, act: Act) {
    match act {
        Act::Fence => bytes.push(ActKind::Fence.number()),
        Act::Truncate(size) => {
            bytes.push(ActKind::Truncate.number());
            put(bytes, size);
        }
        Act::Punch(extent) => {
            bytes.push(ActKind::Punch.number());
            put(bytes, extent.offset);
            put(bytes, extent.length);
        }
        Act::Remove => bytes.push(ActKind::Remove.number()),
    }
}

fn act(fields: &mut Fields<'_>) -> Result<Act, Malformed> {
    Ok(match ActKind::read(fields)? {
        ActKind::Fence => Act::Fence,
        ActKind::Truncate => Act::Truncate(fields.u64()?),
        ActKind::Punch => Act::Punch(Extent {
            offset: fields.u64()?,
            length: fields.u64()?,
        }),
        ActKind::Remove => Act::Remove,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: Report = Report {
        end: 1 << 40,
        run: u64::MAX,
        writes: 7,
    };

    const CONTENTS: ContentsId = ContentsId {
        object: ObjectId::from_u64(0x0001_0203_0405_0607),
        placement: PlacementNumber(9),
    };

    /// Removed or added bytes are noticed.
    fn comes_back<T: std::fmt::Debug + PartialEq>(
        message: T,
        encode: impl Fn(&T) -> Vec<u8>,
        decode: impl Fn(&[u8]) -> Result<T, Malformed>,
    ) {
        let mut bytes = encode(&message);
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{message:?}: {length}");
        }
        assert_eq!(decode(&bytes), Ok(message));
        bytes.push(0);
        assert!(decode(&bytes).is_err());
    }

    #[test]
    fn what_data_servers_say_reads_back_as_written() {
        let identity = StoreIdentity {
            store: u128::MAX - 5,
            counter: 3,
            run: 4,
        };
        let messages = [
            ToHome::LeaseRequest {
                asked: Moment(77),
                identity,
            },
            ToHome::Taken {
                number: IntentNumber(12),
                report: REPORT,
            },
            ToHome::Looked {
                question: 13,
                report: REPORT,
            },
        ];
        for message in messages {
            comes_back(message, ToHome::encode, ToHome::decode);
        }
        let holding = Holding {
            total_bytes: 1,
            available_bytes: 2,
            contents: 3,
            read_bytes: 4,
            written_bytes: 5,
        };
        comes_back(holding, Holding::encode, Holding::decode);
    }

    #[test]
    fn what_homes_say_reads_back_as_written() {
        let extent = Extent {
            offset: 5,
            length: 6,
        };
        let acts = [
            Act::Fence,
            Act::Truncate(0),
            Act::Punch(extent),
            Act::Remove,
        ];
        let takes = acts.into_iter().map(|act| {
            let intent = Intent {
                number: IntentNumber(1),
                contents: CONTENTS,
                generation: Generation(2),
                act,
            };
            ToDataServer::Take(intent, KeyNumber(11))
        });
        let looks = [true, false].map(|stable| ToDataServer::Look {
            issue: IssueNumber(8),
            question: 9,
            contents: CONTENTS,
            stable,
        });
        let lease = |keys| ToDataServer::Lease {
            asked: Moment(1),
            issue: IssueNumber(2),
            keys,
            clients: Duration::from_micros(2_999_997),
        };
        let first = HandleKeys::new(HandleKey::new(KeyNumber(3), [4; 32]));
        let mut both = first.clone();
        both.rotate(HandleKey::new(KeyNumber(4), [5; 32]));
        let leases = [first, both].map(lease);
        let longest = leases[1].encode().len();
        for message in takes.chain(looks).chain(leases) {
            assert!(message.encode().len() <= longest);
            comes_back(message, ToDataServer::encode, ToDataServer::decode);
        }
        assert_eq!(longest, 98);
        for unknown in [1, 2, 4, 9] {
            assert!(ToDataServer::decode(&[unknown]).is_err());
        }
    }
}
