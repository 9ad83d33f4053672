//! What a metadata server asks a home, and the answers, in the form in which they travel.
//!
//! Encodings are postcard's. Every decoder is bounded by the length of what it is given.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use store::TreeIdentity;
use vfs::{
    Attributes, ByteRange, Commitment, Cookie, Created, Credentials, DirectoryChange,
    DirectoryPage, Error, Extent, FsId, LockConflict, LockKind, LockOwner, Name, NewObject,
    ObjectId, OpenOwner, OwnedAccessCheck, ReadData, RequestGroup, Result, SeekTarget,
    SetAttributes, Share, Space, Stability, Written, XattrMode, XattrName, XattrPage,
};

use crate::layouts::{Layout, NoLayout};

/// A change of the tree, which the home makes. The names are those of [`vfs::FileSystem`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Other attributes.
    SetAttributes(OwnedAccessCheck, ObjectId, SetAttributes),
    /// A new object.
    Create(Credentials, ObjectId, Name, NewObject, SetAttributes),
    /// A name goes.
    Remove(Credentials, ObjectId, Name),
    /// A name becomes another one.
    Rename(Credentials, (ObjectId, Name), (ObjectId, Name)),
    /// One more name.
    Link(Credentials, ObjectId, ObjectId, Name),
    /// Bytes from an offset on.
    Write(OwnedAccessCheck, ObjectId, u64, Bytes, Stability),
    /// Space for an extent.
    Allocate(OwnedAccessCheck, ObjectId, Extent),
    /// An extent becomes a hole.
    Deallocate(OwnedAccessCheck, ObjectId, Extent),
    /// An extended attribute's value.
    SetXattr(Credentials, ObjectId, XattrName, Bytes, XattrMode),
    /// An extended attribute goes.
    RemoveXattr(Credentials, ObjectId, XattrName),
}

/// A question for the home of an object. Each may be asked again: what changes nothing is answered as of then, and a [`Change`] has
/// the name of the client's request, or comes to the same the second time. The names are those of [`vfs::FileSystem`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// What all copies of the tree have in common, for a server that is to have a store of it.
    Tree,
    /// Space in the tree.
    Space,
    /// What is known of an object.
    Attributes(ObjectId),
    /// The object behind a name.
    Lookup(Credentials, ObjectId, Name),
    /// The directory that holds a directory.
    Parent(Credentials, ObjectId),
    /// Entries behind a cookie, at most this many.
    ReadDirectory(Credentials, ObjectId, Cookie, u32),
    /// The target of a symbolic link.
    ReadLink(Credentials, ObjectId),
    /// A client of the asker opens a file.
    Open(OwnedAccessCheck, ObjectId, OpenOwner, Share),
    /// It goes on with a smaller share.
    Downgrade(ObjectId, OpenOwner, Share),
    /// It has closed the file.
    Close(ObjectId, OpenOwner),
    /// Clients of the asker had time to open again what they had open in its earlier runs.
    EndReclaim,
    /// A lock that would be in the way.
    TestLock(ObjectId, LockOwner, ByteRange, LockKind),
    /// Bytes from an offset on, at most this many.
    Read(OwnedAccessCheck, ObjectId, u64, u32),
    /// Has what was written be stable, no matter which client wrote it.
    Commit(ObjectId, u64, u32),
    /// The next data or hole.
    Seek(OwnedAccessCheck, ObjectId, u64, SeekTarget),
    /// The value of an extended attribute.
    Xattr(Credentials, ObjectId, XattrName),
    /// Names of extended attributes.
    Xattrs(Credentials, ObjectId, u64, u32),
    /// Something is to be changed.
    Change(Change),
    /// Nobody asks again for what requests of these groups have done.
    EndRequests(Vec<RequestGroup>),
    /// Nothing but the lease under which copies count.
    Lease,
    /// All that clients of the asker hold is about to be told; [`Question::EndReclaim`] says that it was.
    BeginAgain,
    /// A client of the asker has opened the file, before the home was started anew or before the asker was. Or it has just made it.
    OpenAgain(OwnedAccessCheck, ObjectId, OpenOwner, Share),
    /// A client of the asker locks a range.
    Lock(ObjectId, LockOwner, ByteRange, LockKind),
    /// It has locked the range, before the home was started anew or before the asker was.
    LockAgain(ObjectId, LockOwner, ByteRange, LockKind),
    /// It gives back what it has locked of a range.
    Unlock(ObjectId, LockOwner, ByteRange),
    /// Whether it has locked something of the file, or may have, by what the home knows.
    HoldsLock(ObjectId, LockOwner),
    /// The asker has forgotten its clients since it heard that what they held is given up.
    HasForgotten,
    /// A client of the asker, by the asker's number of it, wants a layout of the file; whether for writing.
    Layout(ObjectId, u64, bool),
    /// It has given its layout back; or else, it has lost what that rests on.
    EndLayout(ObjectId, u64, bool),
    /// It has written, and the file ends there at least.
    CommitLayout(ObjectId, u64, Option<u64>),
    /// Where the data servers of a device are.
    Device([u8; 16]),
    /// Which devices there are.
    Devices,
    /// Clients of the asker use these sessions, among others; whether that is all.
    Sessions(Vec<RequestGroup>, bool),
    /// The row beside the name of a directory that lives at the asker. [`Error::Stale`]: there is no such name, and never will be but by what
    /// the asker asks from now on.
    Elsewhere(ObjectId),
    /// No names come into an empty directory any more, under this number: the asker has its name, and is about to remove that.
    Seal(ObjectId, u64),
    /// It has not.
    BreakSeal(ObjectId, u64),
    /// It has.
    Discard(ObjectId),
    /// Whether directories live there that the home has made itself.
    HasDirectories,
    /// What is known of objects that live at the home, for names of a page.
    AttributesOf(Vec<ObjectId>),
    /// A name is to be moved to the asker, under this number: it is noted as one on its way out.
    PrepareMove(u64, Credentials, ObjectId, Name),
    /// Whether it was moved.
    FinishMove(u64, bool),
    /// Whether a name of the asker was moved to the home, under this number.
    MoveOutcome(u64),
    /// The number of names that the asker has of a file that lives at the home, or is about to have.
    HoldNames(ObjectId, u32),
    /// How many names there are of a file that lives at the asker.
    NamesOf(ObjectId),
}

/// What a home answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// To [`Question::Tree`]: what clients see of the identity, and the key of names' hash.
    Tree(FsId, [u8; 16]),
    /// Space.
    Space(Space),
    /// What is known of the object that the question was about, or led to.
    Attributes(Attributes),
    /// A page of a directory.
    Page(DirectoryPage),
    /// A symbolic link's target, or an extended attribute's value.
    Bytes(Bytes),
    /// It was done.
    Done,
    /// A lock in the way, if there is one.
    Conflict(Option<LockConflict>),
    /// What was read.
    Read(ReadData),
    /// What was written before is stable.
    Committed(Commitment),
    /// Where the next data or hole is.
    Found(Option<u64>),
    /// A page of names of extended attributes.
    Xattrs(XattrPage),
    /// A made, or found, object.
    Created(Created),
    /// The version of a directory, or of an object, around the change.
    Changed(DirectoryChange),
    /// The same of both directories of a renaming.
    Renamed(DirectoryChange, DirectoryChange),
    /// What was written.
    Written(Written),
    /// Whether it is so.
    Holds(bool),
    /// To any question: the asker was away for so long that what its clients had open and locked is given up.
    GivenUp,
    /// A layout, or what to do without.
    Layout(std::result::Result<Layout, NoLayout>),
    /// The size of a file that was written past the home.
    Size(std::result::Result<u64, NoLayout>),
    /// The addresses of each data server of a device.
    Device(Option<Vec<Vec<SocketAddr>>>),
    /// All devices.
    Devices(Vec<[u8; 16]>),
    /// A page of a directory, and the cookies of entries whose attributes cannot be had, since their home is away.
    PageWithout(DirectoryPage, BTreeSet<Cookie>),
    /// What is known of each object, in the order of the question.
    Each(Vec<Result<Attributes>>),
    /// What a name leads to that is on its way out, and the version of its directory.
    Prepared(Attributes, DirectoryChange),
    /// A number of names.
    Names(u32),
}

/// A question about one tree, and no other that may be there under the same identifiers of objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Which tree. `None` by who does not know it yet.
    pub tree: Option<FsId>,
    /// The asker keeps copies, all of them of this run of the home. `None`: it keeps none.
    pub keeps: Option<u64>,
    /// So often the asker had forgotten all its clients in this run, when it admitted the one that wants this. Nothing is carried out for
    /// forgotten ones.
    pub clients: u64,
    /// The question.
    pub question: Question,
}

/// What a home answers, and what that is good for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The answer.
    pub answer: Result<Answer>,
    /// Whether it may be kept.
    pub granted: Granted,
    /// The directory that the question was about, if the answer is about others.
    pub directory: Option<Attributes>,
}

/// What a home grants to who keeps copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// How often the asker had been told something.
    pub told: u64,
    /// Whether all its copies count for a lease from the asking on.
    pub leased: bool,
    /// Whether this answer may be kept.
    pub keep: bool,
}

/// Copies that do not count any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct News {
    /// Which run of the home says it.
    pub run: u64,
    /// The objects, with the number under which each is told.
    pub told: Vec<(u64, ObjectId)>,
}

impl Asked {
    /// As it travels.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        encode(self)
    }

    /// Reads what [`Asked::encode`] wrote; nothing when it is none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Asked> {
        decode(bytes)
    }
}

impl Reply {
    /// As it travels.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        encode(self)
    }

    /// Reads what [`Reply::encode`] wrote; nothing when it is none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Reply> {
        decode(bytes)
    }
}

impl News {
    /// As it travels.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        encode(self)
    }

    /// Reads what [`News::encode`] wrote; nothing when it is none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<News> {
        decode(bytes)
    }
}

impl Question {
    /// Whether an answer that is late does no harm: the caller may have gone on meanwhile.
    #[must_use]
    pub fn may_be_given_up(&self) -> bool {
        !matches!(
            self,
            Question::Change(_)
                | Question::Open(..)
                | Question::Downgrade(..)
                | Question::Close(..)
                | Question::EndReclaim
                | Question::BeginAgain
                | Question::OpenAgain(..)
                | Question::Lock(..)
                | Question::LockAgain(..)
                | Question::Unlock(..)
                | Question::Layout(..)
                | Question::EndLayout(..)
                | Question::PrepareMove(..)
                | Question::FinishMove(..)
                | Question::HoldNames(..)
        )
    }

    /// Bytes of a file that it brings, or that its answer may bring, if it is about those.
    #[must_use]
    pub fn contents(&self) -> Option<u32> {
        match self {
            Question::Read(_, _, _, bytes) => Some(*bytes),
            Question::Change(Change::Write(_, _, _, bytes, _)) => {
                Some(u32::try_from(bytes.len()).unwrap_or(u32::MAX))
            }
            _ => None,
        }
    }

    /// Whether it may wait for others of the same asker to be answered. What gives something back, has what is held go on, or is asked to
    /// answer another home may not: the others may wait for that.
    #[must_use]
    pub fn may_wait(&self) -> bool {
        !matches!(
            self,
            Question::Tree
                | Question::Lease
                | Question::Parent(..)
                | Question::Downgrade(..)
                | Question::Close(..)
                | Question::Unlock(..)
                | Question::EndLayout(..)
                | Question::CommitLayout(..)
                | Question::EndReclaim
                | Question::BeginAgain
                | Question::OpenAgain(..)
                | Question::LockAgain(..)
                | Question::HasForgotten
                | Question::EndRequests(_)
                | Question::Sessions(..)
                | Question::Elsewhere(_)
                | Question::Seal(..)
                | Question::BreakSeal(..)
                | Question::Discard(_)
                | Question::HasDirectories
                | Question::AttributesOf(_)
                | Question::PrepareMove(..)
                | Question::FinishMove(..)
                | Question::MoveOutcome(_)
                | Question::HoldNames(..)
                | Question::NamesOf(_)
        )
    }

    /// Whether it is about a change that the home knows again by the client's request, and makes once. Other changes come to the same
    /// the second time.
    #[must_use]
    pub fn is_made_once(&self) -> bool {
        match self {
            Question::Change(change) => !matches!(
                change,
                Change::Write(..) | Change::Allocate(..) | Change::Deallocate(..)
            ),
            _ => false,
        }
    }
}

impl Answer {
    /// The answer to [`Question::ReadDirectory`].
    #[must_use]
    pub(crate) fn of_page(mut page: DirectoryPage) -> Answer {
        let unread = std::mem::take(&mut page.unread);
        match unread.is_empty() {
            true => Answer::Page(page),
            false => Answer::PageWithout(page, unread),
        }
    }

    /// The answer to [`Question::Tree`].
    #[must_use]
    pub fn of_tree(tree: TreeIdentity) -> Answer {
        Answer::Tree(tree.fs_id, tree.name_key)
    }
}

/// What is in memory can be written; were that ever wrong, the other side reads nothing and says so.
pub(crate) fn encode<T: Serialize>(value: &T) -> Bytes {
    postcard::to_allocvec(value).unwrap_or_default().into()
}

pub(crate) fn decode<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(value)
}

/// An answer to another question than was asked.
pub(crate) fn other_answer() -> Error {
    Error::Io("a metadata server answers another question than was asked".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::AccessCheck;

    #[test]
    fn questions_and_answers_arrive_as_they_were_sent_and_others_are_none() {
        let tree = FsId { major: 1, minor: 2 };
        let who = Credentials::root();
        let check = OwnedAccessCheck::from(AccessCheck::Open(&who));
        let asked = Asked {
            tree: Some(tree),
            keeps: Some(3),
            clients: 5,
            question: Question::Read(check, ObjectId::ROOT, 7, 8),
        };
        let sent = asked.encode();
        assert_eq!(Asked::decode(&sent), Some(asked));
        for end in 0..sent.len() {
            assert_eq!(Asked::decode(&sent[..end]), None);
        }
        assert_eq!(Asked::decode(&[&sent[..], &[0]].concat()), None);
        let read = Answer::Read(ReadData {
            bytes: Bytes::from_static(b"bytes"),
            end_of_file: true,
        });
        for answer in [Ok(read), Err(Error::AccessDenied)] {
            let reply = Reply {
                answer,
                granted: Granted {
                    told: 4,
                    leased: true,
                    keep: false,
                },
                directory: None,
            };
            assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }
        let news = News {
            run: 7,
            told: vec![(u64::MAX, ObjectId::from_u64(u64::MAX)); 1024],
        };
        let sent = news.encode();
        assert!(sent.len() < 48 << 10, "it is the body of a message");
        assert_eq!(News::decode(&sent), Some(news));
    }
}
