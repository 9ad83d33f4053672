//! A client that reads and caches: it keeps the entries of a directory as long as the directory's change attribute stays the same,
//! as the Linux client does.
//!
//! It sees only answers. The world decides which copy gives them; only the observer notes the version of the directory
//! that an entry comes from.

use control::ReplicaSlot;
use std::collections::BTreeMap;
use vfs::ObjectId;

/// A question to a replica: first the change attribute of a directory, then, if that has changed, an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub reader: usize,
    pub directory: ObjectId,
    pub name: u64,
    /// The change attribute under which the client will keep the entry. Without it, the client asks for that attribute.
    pub under: Option<u64>,
}

/// An answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// The change attribute.
    Change(u64),
    /// The object with the name, in this version of the directory.
    Entry(Entry),
}

/// An entry in a client's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The object with the name, if any.
    pub object: Option<ObjectId>,
    /// The version of the directory that this was read from; the client does not see it.
    pub of: u64,
}

/// The cached entries of one directory.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// The change attribute under which all of them were asked for.
    pub change: u64,
    /// Entries by their names.
    pub entries: BTreeMap<u64, Entry>,
}

/// A client with its cache.
#[derive(Clone, Debug)]
pub struct Reader {
    /// The replica it is connected to.
    pub home: ReplicaSlot,
    /// Its cache.
    pub kept: BTreeMap<ObjectId, Kept>,
}

impl Reader {
    pub(crate) fn new(home: ReplicaSlot) -> Reader {
        let kept = BTreeMap::new();
        Reader { home, kept }
    }

    /// Takes an answer. Returns the next question, if any.
    pub(crate) fn take(&mut self, question: Question, answer: Answer) -> Option<Question> {
        let kept = self.kept.entry(question.directory).or_default();
        match answer {
            Answer::Change(change) => {
                if kept.change != change {
                    *kept = Kept {
                        change,
                        entries: BTreeMap::new(),
                    };
                }
                let under = Some(change);
                let known = kept.entries.contains_key(&question.name);
                (!known).then_some(Question { under, ..question })
            }
            Answer::Entry(entry) => {
                // An entry that was asked for under an older change attribute is not kept.
                if question.under == Some(kept.change) {
                    kept.entries.insert(question.name, entry);
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(under: Option<u64>) -> Question {
        Question {
            reader: 0,
            directory: ObjectId::ROOT,
            name: 7,
            under,
        }
    }

    #[test]
    fn entries_are_kept_until_the_change_attribute_differs() {
        let mut reader = Reader::new(ReplicaSlot(1));
        let next = reader.take(question(None), Answer::Change(10));
        assert_eq!(next.and_then(|next| next.under), Some(10));
        let (object, of) = (None, 10);
        let entry = Answer::Entry(Entry { object, of });
        assert!(reader.take(question(Some(9)), entry).is_none());
        assert!(reader.take(question(None), Answer::Change(10)).is_some());
        assert!(reader.take(question(Some(10)), entry).is_none());
        assert!(reader.take(question(None), Answer::Change(10)).is_none());
        assert!(reader.take(question(None), Answer::Change(11)).is_some());
    }
}
