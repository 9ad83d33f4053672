//! Controls that were granted to others here, and under which clients may still be reading past this replica.
//!
//! What must never enter: which clients read, and how their reading is ended.

use std::collections::{HashMap, HashSet};

use control::{ControlName, Mark, Record};
use vfs::ReplicaSlot;

/// The control that a record of the control table grants to another replica.
pub(crate) fn granted_to_another(record: &Record, own: ReplicaSlot) -> Option<ControlName> {
    match record {
        Record::Granted(proposal) => Some(proposal.name).filter(|name| name.holder != own),
        Record::Ended(_) | Record::SetAside(_) | Record::Forgotten(_) => None,
    }
}

/// See the module.
pub(crate) struct ReadPast {
    own: ReplicaSlot,
    /// How many records of the control table were handed out.
    recorded: Mark,
    /// Clients may read past this replica.
    is_read: bool,
    /// All reading by permission of an earlier start has ended.
    earlier_ended: bool,
    /// Each control with its last record, until all reading of what it covers has ended.
    granted: HashMap<ControlName, Mark>,
    /// Controls of objects that are being made, of which nothing can be read yet.
    born: HashSet<ControlName>,
}

impl ReadPast {
    pub(crate) fn new(own: ReplicaSlot) -> ReadPast {
        ReadPast {
            own,
            recorded: Mark(0),
            is_read: false,
            earlier_ended: false,
            granted: HashMap::new(),
            born: HashSet::new(),
        }
    }

    /// From now on, and perhaps since an earlier start, clients may read past this replica. Call this before anything is granted.
    pub(crate) fn begin(&mut self) {
        self.is_read = true;
    }

    /// An object has been made that another replica controls from the start. Its record follows before [`ReadPast::all_recorded`].
    pub(crate) fn is_born(&mut self, name: ControlName) {
        self.born.insert(name);
    }

    /// A record is handed out.
    pub(crate) fn note(&mut self, record: &Record) {
        self.recorded = Mark(self.recorded.0 + 1);
        if let Some(name) = granted_to_another(record, self.own)
            && self.is_read
            && !self.born.contains(&name)
        {
            self.granted.insert(name, self.recorded);
        }
    }

    /// All records of what has happened until now have been handed out.
    pub(crate) fn all_recorded(&mut self) {
        self.born.clear();
    }

    /// All reading has ended of what is covered by controls granted in the records up to this one, and by permission of an earlier start.
    pub(crate) fn ended(&mut self, through: Mark) {
        self.earlier_ended = true;
        self.granted.retain(|_, recorded| *recorded > through);
    }

    /// Whether no client can be reading what an update under these controls changes.
    pub(crate) fn has_ended(&self, under: &[ControlName]) -> bool {
        let is_read = |name| self.granted.contains_key(name);
        !self.is_read || (self.earlier_ended && !under.iter().any(is_read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{Incarnation, Proposal};

    fn name(holder: u16, number: u64) -> ControlName {
        ControlName {
            holder: ReplicaSlot(holder),
            incarnation: Incarnation(1),
            number,
        }
    }

    fn granted(name: ControlName) -> Record {
        Record::Granted(Proposal {
            name,
            claims: Vec::new(),
            downgradable: false,
            behind: Vec::new(),
        })
    }

    #[test]
    fn an_update_waits_for_those_who_read_what_its_controls_cover() {
        let (first, second, born) = (name(2, 1), name(2, 2), name(2, 3));
        let mut read_past = ReadPast::new(ReplicaSlot(1));
        assert!(read_past.has_ended(&[first]), "nobody reads");
        read_past.begin();
        assert!(!read_past.has_ended(&[]), "by leave of an earlier start");
        read_past.ended(Mark(0));
        assert!(read_past.has_ended(&[first]));
        read_past.note(&granted(first));
        read_past.note(&granted(name(1, 1)));
        read_past.is_born(born);
        read_past.note(&granted(born));
        read_past.all_recorded();
        read_past.note(&granted(second));
        assert!(read_past.has_ended(&[name(1, 1), born]));
        assert!(!read_past.has_ended(&[born, first]));
        // The control ended before reading under it had ended, and is granted again.
        read_past.note(&Record::Ended(second));
        assert!(!read_past.has_ended(&[second]));
        read_past.note(&granted(second));
        read_past.ended(Mark(4));
        assert!(read_past.has_ended(&[first]));
        assert!(!read_past.has_ended(&[second]));
        read_past.ended(Mark(6));
        assert!(read_past.has_ended(&[second]));
    }
}
