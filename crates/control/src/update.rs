//! The controls that an update needs: the table of rule "operations on several objects acquire one group".
//!
//! It uses only the kind of the update and its objects. What must never enter: names, attributes and data.

use crate::rules::Rules;
use vfs::ObjectId;

/// An object that an update touches, with what replication control needs to know about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A directory.
    Directory(ObjectId),
    /// A file, symbolic link or special file with one link.
    File(ObjectId),
    /// The same with several links. Deep control of a directory does not cover it, because another
    /// replica may hold deep control of a directory with another of its links.
    LinkedFile(ObjectId),
}

impl Subject {
    /// Its identifier.
    #[must_use]
    pub fn object(self) -> ObjectId {
        match self {
            Subject::Directory(object) | Subject::File(object) | Subject::LinkedFile(object) => {
                object
            }
        }
    }
}

/// A changing operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Writes data or sets attributes.
    Change(Subject),
    /// Makes a new object in `parent`.
    Create {
        /// The directory that gets the new entry.
        parent: ObjectId,
    },
    /// Removes one link.
    Remove {
        /// The directory that loses the entry.
        parent: ObjectId,
        /// The object that loses a link.
        removed: Subject,
    },
    /// Adds a link to a non-directory.
    Link {
        /// The object that gets another link.
        file: ObjectId,
        /// The directory that gets the new entry.
        parent: ObjectId,
    },
    /// Moves a link, and replaces the object that has the new name.
    Rename {
        /// The directory that loses the entry.
        from: ObjectId,
        /// The directory that gets it, perhaps the same.
        to: ObjectId,
        /// The object that is moved.
        moved: Subject,
        /// The object that had the new name.
        replaced: Option<Subject>,
    },
}

/// The replica through which an operation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A client of this replica asks for it, or the replica itself.
    Own,
    /// Another replica has forwarded it.
    Other,
}

/// One object that has to be controlled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) object: ObjectId,
    pub(crate) kind: NeedKind,
}

/// How an object can be covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeedKind {
    /// By its own control or by deep control above it.
    File,
    /// By its own control only: it has several links, or is leaving the reach of deep control.
    LoneFile,
    /// By its own control or by deep control above it; may be asked for with deep control.
    Directory,
    /// By deep control of its own only, which then covers what the move brings to another place.
    MovedDirectory,
}

impl Need {
    fn of(subject: Subject) -> Need {
        let (object, kind) = match subject {
            Subject::Directory(object) => (object, NeedKind::Directory),
            Subject::File(object) => (object, NeedKind::File),
            Subject::LinkedFile(object) => (object, NeedKind::LoneFile),
        };
        Need { object, kind }
    }

    fn directory(object: ObjectId) -> Need {
        Need::of(Subject::Directory(object))
    }
}

impl Update {
    /// The group of controls under which the update may be executed.
    pub(crate) fn needs(&self, rules: Rules) -> Vec<Need> {
        let mut needs = match *self {
            Update::Change(subject) => vec![Need::of(subject)],
            Update::Create { parent } => vec![Need::directory(parent)],
            Update::Remove { parent, removed } => {
                let mut needs = vec![Need::directory(parent)];
                if rules.removal_controls_object() {
                    needs.push(Need::of(removed));
                }
                needs
            }
            Update::Link { file, parent } => {
                let file = Need::of(Subject::LinkedFile(file));
                vec![file, Need::directory(parent)]
            }
            Update::Rename {
                from,
                to,
                moved,
                replaced,
            } => {
                let mut needs = vec![Need::directory(from)];
                if to != from {
                    needs.push(Need::directory(to));
                }
                needs.push(moved_need(moved, from != to, rules));
                needs.extend(replaced.map(Need::of));
                needs
            }
        };
        if !rules.linked_file_own_control() {
            for need in &mut needs {
                if need.kind == NeedKind::LoneFile {
                    need.kind = NeedKind::File;
                }
            }
        }
        needs
    }
}

fn moved_need(moved: Subject, changes_parent: bool, rules: Rules) -> Need {
    let mut need = Need::of(moved);
    let moves_subtree = need.kind == NeedKind::Directory && changes_parent;
    if moves_subtree && rules.moved_directory_explicit() {
        need.kind = NeedKind::MovedDirectory;
    }
    need
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(raw: u64) -> ObjectId {
        ObjectId::from_u64(raw)
    }

    fn kinds(update: Update) -> Vec<(u64, NeedKind)> {
        let needs = update.needs(Rules::ALL);
        let pairs = needs.iter().map(|need| (need.object.as_u64(), need.kind));
        pairs.collect()
    }

    #[test]
    fn removal_needs_the_object_too_or_a_creation_below_it_is_lost() {
        let removed = Subject::Directory(id(3));
        let needs = kinds(Update::Remove {
            parent: id(2),
            removed,
        });
        assert_eq!(needs, [(2, NeedKind::Directory), (3, NeedKind::Directory)]);
    }

    #[test]
    fn a_directory_needs_deep_control_of_its_own_only_when_its_parent_changes() {
        let rename = |to| Update::Rename {
            from: id(2),
            to,
            moved: Subject::Directory(id(3)),
            replaced: Some(Subject::LinkedFile(id(4))),
        };
        let stays = [
            (2, NeedKind::Directory),
            (3, NeedKind::Directory),
            (4, NeedKind::LoneFile),
        ];
        assert_eq!(kinds(rename(id(2))), stays);
        let moves = [
            (2, NeedKind::Directory),
            (5, NeedKind::Directory),
            (3, NeedKind::MovedDirectory),
            (4, NeedKind::LoneFile),
        ];
        assert_eq!(kinds(rename(id(5))), moves);
    }

    #[test]
    fn a_file_is_treated_as_linked_before_its_second_link_exists() {
        let needs = kinds(Update::Link {
            file: id(3),
            parent: id(2),
        });
        assert_eq!(needs, [(3, NeedKind::LoneFile), (2, NeedKind::Directory)]);
    }
}
