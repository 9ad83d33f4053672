//! Questions of a metadata server to a home, and the answers, as they are sent.
//!
//! The encoding is postcard. The input length bounds every decoder.

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
    /// A name is removed.
    Remove(Credentials, ObjectId, Name),
    /// A name is renamed.
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
    /// An extended attribute is removed.
    RemoveXattr(Credentials, ObjectId, XattrName),
}

/// A question for the home of an object. Each may be repeated: a question that changes nothing is answered with the current state, and a
/// [`Change`] carries the name of the client's request or has the same effect the second time. The names are those of [`vfs::FileSystem`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// What all copies of the tree have in common, for a server that needs a store of it.
    Tree,
    /// Space in the tree.
    Space,
    /// Attributes of an object.
    Attributes(ObjectId),
    /// The object behind a name.
    Lookup(Credentials, ObjectId, Name),
    /// The directory that holds a directory.
    Parent(Credentials, ObjectId),
    /// Entries after a cookie, at most this many.
    ReadDirectory(Credentials, ObjectId, Cookie, u32),
    /// The target of a symbolic link.
    ReadLink(Credentials, ObjectId),
    /// A client of the asker opens a file.
    Open(OwnedAccessCheck, ObjectId, OpenOwner, Share),
    /// It keeps the file open with a smaller share.
    Downgrade(ObjectId, OpenOwner, Share),
    /// It has closed the file.
    Close(ObjectId, OpenOwner),
    /// Clients of the asker have had time to reclaim what they had open in its earlier runs.
    EndReclaim,
    /// A conflicting lock.
    TestLock(ObjectId, LockOwner, ByteRange, LockKind),
    /// Bytes from an offset on, at most this many.
    Read(OwnedAccessCheck, ObjectId, u64, u32),
    /// Makes written data stable, no matter which client wrote it.
    Commit(ObjectId, u64, u32),
    /// The next data or hole.
    Seek(OwnedAccessCheck, ObjectId, u64, SeekTarget),
    /// The value of an extended attribute.
    Xattr(Credentials, ObjectId, XattrName),
    /// Names of extended attributes.
    Xattrs(Credentials, ObjectId, u64, u32),
    /// A change.
    Change(Change),
    /// No client repeats requests of these groups any more.
    EndRequests(Vec<RequestGroup>),
    /// Only the lease under which copies are valid.
    Lease,
    /// The asker is about to report all that its clients hold; [`Question::EndReclaim`] ends the report.
    BeginAgain,
    /// A client of the asker opened the file before the home or the asker restarted, or has just made it.
    OpenAgain(OwnedAccessCheck, ObjectId, OpenOwner, Share),
    /// A client of the asker locks a range.
    Lock(ObjectId, LockOwner, ByteRange, LockKind),
    /// A client of the asker locked the range before the home or the asker restarted.
    LockAgain(ObjectId, LockOwner, ByteRange, LockKind),
    /// It unlocks its locks within a range.
    Unlock(ObjectId, LockOwner, ByteRange),
    /// Whether it has, or may have, locked something of the file, as far as the home knows.
    HoldsLock(ObjectId, LockOwner),
    /// The asker has forgotten its clients after it heard that their state is given up.
    HasForgotten,
    /// A client of the asker wants a layout of the file, under the asker's number of the holder; whether for writing.
    Layout(ObjectId, u64, bool),
    /// It has returned its layout. With `true`, it has lost the state on which the layout depends.
    EndLayout(ObjectId, u64, bool),
    /// The same as with `true`, but answered only when nothing can happen under the layout any more, wherever the file lives.
    FenceLayout(ObjectId, u64),
    /// It has written, and the file ends there at least.
    CommitLayout(ObjectId, u64, Option<u64>),
    /// The addresses of a device's data servers.
    Device([u8; 16]),
    /// All devices.
    Devices,
    /// Sessions that clients of the asker use; `true` completes the list.
    Sessions(Vec<RequestGroup>, bool),
    /// The row beside the name of a directory that lives at the asker. [`Error::Stale`]: no such name exists, and only later requests of
    /// the asker can create one.
    Elsewhere(ObjectId),
    /// Seals an empty directory under this number, so that it gets no names: the asker has its name and is about to remove it.
    Seal(ObjectId, u64),
    /// The asker has not removed the name.
    BreakSeal(ObjectId, u64),
    /// The asker has removed the name.
    Discard(ObjectId),
    /// Whether directories live there that the home itself has made.
    HasDirectories,
    /// Attributes of objects that live at the home, for the names of a page.
    AttributesOf(Vec<ObjectId>),
    /// Prepares to move a name to the asker, under this number: the home notes that the name is leaving.
    PrepareMove(u64, Credentials, ObjectId, Name),
    /// Whether the name was moved.
    FinishMove(u64, bool),
    /// Whether a name of the asker was moved to the home, under this number.
    MoveOutcome(u64),
    /// The number of names that the asker has, or is about to have, of a file that lives at the home.
    HoldNames(ObjectId, u32),
    /// The number of names of a file that lives at the asker.
    NamesOf(ObjectId),
}

/// What a home answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// To [`Question::Tree`]: the client-visible identity, and the key of the name hash.
    Tree(FsId, [u8; 16]),
    /// Space.
    Space(Space),
    /// Attributes of the object that the question named or that its name leads to.
    Attributes(Attributes),
    /// A page of a directory.
    Page(DirectoryPage),
    /// A symbolic link's target, or an extended attribute's value.
    Bytes(Bytes),
    /// It was done.
    Done,
    /// A conflicting lock, if there is one.
    Conflict(Option<LockConflict>),
    /// The data read.
    Read(ReadData),
    /// The data written before is stable.
    Committed(Commitment),
    /// Where the next data or hole is.
    Found(Option<u64>),
    /// A page of names of extended attributes.
    Xattrs(XattrPage),
    /// The object that was made or found.
    Created(Created),
    /// The version of a directory, or of an object, around the change.
    Changed(DirectoryChange),
    /// The same for both directories of a rename.
    Renamed(DirectoryChange, DirectoryChange),
    /// The result of a write.
    Written(Written),
    /// Yes or no.
    Holds(bool),
    /// To any question: the asker was away for too long, and the opens and locks of its clients are given up.
    GivenUp,
    /// A layout, or what to do without one.
    Layout(std::result::Result<Layout, NoLayout>),
    /// The size of a file that a client wrote at the data servers.
    Size(std::result::Result<u64, NoLayout>),
    /// The addresses of each data server of a device.
    Device(Option<Vec<Vec<SocketAddr>>>),
    /// All devices.
    Devices(Vec<[u8; 16]>),
    /// A page of a directory, and the cookies of entries whose attributes are not available because their home is away.
    PageWithout(DirectoryPage, BTreeSet<Cookie>),
    /// Attributes of each object, in the order of the question.
    Each(Vec<Result<Attributes>>),
    /// The object behind a name that is leaving, and the version of its directory.
    Prepared(Attributes, DirectoryChange),
    /// A number of names.
    Names(u32),
}

/// A question about one tree. Another tree may use the same object identifiers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Which tree. `None` if the asker does not know it yet.
    pub tree: Option<FsId>,
    /// The asker keeps copies, all granted by this run of the home. `None`: it keeps none.
    pub keeps: Option<u64>,
    /// How often the asker had forgotten all its clients in this run when it admitted the asking client. Nothing is done for forgotten
    /// clients.
    pub clients: u64,
    /// The question.
    pub question: Question,
}

/// A home's answer, and what the asker may do with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The answer.
    pub answer: Result<Answer>,
    /// Whether it may be kept.
    pub granted: Granted,
    /// The directory that the question names, if the answer is about other objects.
    pub directory: Option<Attributes>,
}

/// What a home grants to an asker that keeps copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// How many invalidations the asker had been sent.
    pub told: u64,
    /// Whether all its copies are valid for one lease, counted from the question on.
    pub leased: bool,
    /// Whether this answer may be kept.
    pub keep: bool,
}

/// Invalidated copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct News {
    /// The run of the home that sends it.
    pub run: u64,
    /// The objects, each with the number of its invalidation.
    pub told: Vec<(u64, ObjectId)>,
}

impl Asked {
    /// Encodes it for sending.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        encode(self)
    }

    /// Decodes what [`Asked::encode`] wrote. `None` for anything else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Asked> {
        decode(bytes)
    }
}

impl Reply {
    /// Encodes it for sending.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        encode(self)
    }

    /// Decodes what [`Reply::encode`] wrote. `None` for anything else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Reply> {
        decode(bytes)
    }
}

impl News {
    /// Encodes it for sending.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        encode(self)
    }

    /// Decodes what [`News::encode`] wrote. `None` for anything else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<News> {
        decode(bytes)
    }
}

impl Question {
    /// Whether a late answer does no harm, because the caller may have continued meanwhile.
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
                | Question::FenceLayout(..)
                | Question::PrepareMove(..)
                | Question::FinishMove(..)
                | Question::HoldNames(..)
        )
    }

    /// The number of file bytes that the question carries or its answer may carry.
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

    /// Whether the question may wait until others of the same asker are answered. A question that releases state, keeps held state alive,
    /// or is needed to answer another home must not wait: the others may wait for it.
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
                | Question::FenceLayout(..)
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

    /// Whether the home recognizes a repeat of this change by the client's request and makes the change once. Other changes have the same
    /// effect the second time.
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

/// In-memory values can always be encoded. If that ever fails, the receiver decodes nothing and reports it.
pub(crate) fn encode<T: Serialize>(value: &T) -> Bytes {
    postcard::to_allocvec(value).unwrap_or_default().into()
}

pub(crate) fn decode<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(value)
}

/// The error for an answer that does not match the question.
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
