//! Verifies, and repairs, everything in a data directory while no server runs on it.
//!
//! What must never enter: the inside of a store; each store checks itself.

use std::fmt;
use std::path::Path;

use peer::set::SetDirectory;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use store::{Report, Store, StoreError};
use vfs::ShownText;

use crate::data_directory::{
    DataDirectoryError, Defect, Examination, MemberOf, pool_path, set_path,
};
use crate::pools::PoolPlace;
use crate::set::Membership;

/// What a check may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Nothing; no file in the data directory is opened for writing.
    Nothing,
    /// Problems that can be repaired without losing data that only this copy may have.
    Mend,
    /// The same. In addition, rows end before the part that the disk has damaged, even if later rows were answered to clients.
    AcceptLoss,
}

/// The result of a check of a data directory.
#[derive(Debug)]
pub struct CheckReport {
    /// The permitted repair.
    repair: Repair,
    /// The defects outside the trees.
    defects: Vec<Defect>,
    /// Each tree with the report of its store, or why it cannot be checked.
    trees: Vec<(String, Result<Report, StoreError>)>,
}

impl CheckReport {
    /// Whether there are no unrepaired defects.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.defects.iter().all(|defect| defect.repair.is_some())
            && self
                .trees
                .iter()
                .all(|(_, tree)| tree.as_ref().is_ok_and(|report| report.sound))
    }
}

/// Checks a data directory, and repairs what `repair` allows. Takes as long as reading all metadata.
///
/// # Errors
/// [`DataDirectoryError`] when a server runs on it, or when it cannot be read.
pub fn check(data: &Path, repair: Repair) -> Result<CheckReport, DataDirectoryError> {
    let examination = Examination::begin(data, repair != Repair::Nothing)?;
    let mut report = CheckReport {
        repair,
        defects: examination.defects()?,
        trees: Vec::new(),
    };
    report
        .defects
        .extend(memberships(data, examination.member().ok().flatten()));
    let lost = examination.lost_trees(repair == Repair::AcceptLoss)?;
    report.defects.extend(lost);
    for (name, path) in examination.trees()? {
        let lost = match repair {
            Repair::AcceptLoss => Store::give_up_damaged(&path),
            Repair::Nothing | Repair::Mend => Ok(Vec::new()),
        };
        let checked = lost.and_then(|lost| {
            report.defects.extend(lost.into_iter().map(|what| Defect {
                what: format!("tree \"{name}\": {what}"),
                repair: Some(GIVEN_UP),
            }));
            Store::check(&path, repair != Repair::Nothing)
        });
        report.trees.push((name, checked));
    }
    Ok(report)
}

/// The defects in the files of the server's set and pool, compared with the identity in the directory. A repair does
/// not change these files: only a backup and the other members have them.
fn memberships(data: &Path, member: Option<MemberOf>) -> Vec<Defect> {
    let (set_files, pool_files) = (set_path(data), pool_path(data));
    let set = SetDirectory::new(&set_files);
    let set = if_there(set, place_in_set);
    let pool = SetDirectory::of_pool(&pool_files);
    let pool = if_there(pool, place_in_pool);
    let other = match (member, &set, &pool) {
        (Some(member), None, None) => Some(format!(
            "the file `member` says that this server is number {} of {}, and neither {} nor {} is there; put back the whole data directory from one backup",
            member.slot.0,
            member.set,
            set_files.join("set.json").display(),
            pool_files.join("pool.json").display(),
        )),
        (Some(member), Some(Ok(place)), _) | (Some(member), None, Some(Ok(place)))
            if member != *place =>
        {
            Some(format!(
                "the file `member` says that this server is number {} of {}, and the files of the set or pool make it number {} of {}; put back the whole data directory from one backup",
                member.slot.0, member.set, place.slot.0, place.set,
            ))
        }
        _ => None,
    };
    let wrong = [set.and_then(Result::err), pool.and_then(Result::err), other];
    let defects = wrong.into_iter().flatten();
    defects.map(|what| Defect { what, repair: None }).collect()
}

/// Reads files of a set or pool, if there are any.
fn if_there(
    files: SetDirectory,
    read: impl FnOnce(SetDirectory) -> Result<MemberOf, String>,
) -> Option<Result<MemberOf, String>> {
    match files.exists() {
        Ok(there) => there.then(|| read(files)),
        Err(error) => Some(Err(error.to_string())),
    }
}

/// The server's place in the set by its files, or the defect in them.
fn place_in_set(files: SetDirectory) -> Result<MemberOf, String> {
    let membership = Membership::read(files).map_err(|error| error.to_string())?;
    let authority = membership.directory.check_authority();
    authority.map_err(|error| error.to_string())?;
    let Membership { set, slot, .. } = membership;
    Ok(MemberOf { set, slot })
}

/// The same for a pool.
fn place_in_pool(files: SetDirectory) -> Result<MemberOf, String> {
    let place = PoolPlace::read(files).map_err(|error| error.to_string())?;
    let authority = place.directory.check_authority();
    authority.map_err(|error| error.to_string())?;
    let PoolPlace { pool, slot, .. } = place;
    Ok(MemberOf { set: pool, slot })
}

impl Serialize for CheckReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let told = self.to_string();
        let mut report = serializer.serialize_struct("CheckReport", 2)?;
        report.serialize_field("sound", &self.is_sound())?;
        report.serialize_field("lines", &told.lines().collect::<Vec<_>>())?;
        report.end()
    }
}

const GIVEN_UP: &str = "everything changed later is lost; the damaged file is kept in `lost-data`";

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Defect { what, repair } in &self.defects {
            match repair {
                Some(repair) => writeln!(f, "{}: {}", ShownText(what), ShownText(repair))?,
                None => writeln!(f, "{}", ShownText(what))?,
            }
        }
        for (name, tree) in &self.trees {
            match tree {
                Ok(report) => writeln!(f, "tree \"{name}\":\n{report}")?,
                Err(error) => writeln!(f, "tree \"{name}\" cannot be checked: {error}")?,
            }
        }
        let verdict = match (self.is_sound(), self.repair) {
            (true, _) => "All is well.",
            (false, Repair::Nothing) => {
                "Not all is well; run `meridian check --repair`, or restore a backup."
            }
            (false, Repair::Mend | Repair::AcceptLoss) => {
                "Not all is well, and this repair puts no more right: do what stands above, or restore a backup."
            }
        };
        f.write_str(verdict)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::data_directory::DataDirectory;
    use crate::set::{self, Reached};

    /// The result of a check of a member whose file of the set has this damage.
    fn told_of(name: &str, damage: fn(&Path)) -> (bool, String) {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let reached = Reached {
            peers: &"127.0.0.1:7643".parse().unwrap(),
            clients: None,
        };
        set::create(&data, "default", reached, None).unwrap();
        let (files, open) = (
            set_path(&data),
            DataDirectory::open_or_create(&data).unwrap(),
        );
        fs::write(files.join("invitations.json"), "[]").unwrap();
        let place = place_in_set(SetDirectory::new(&files)).unwrap();
        open.note_member(place).unwrap();
        drop(open);
        damage(&files.join(name));
        let report = check(&data, Repair::Nothing).unwrap();
        (report.is_sound(), report.to_string())
    }

    fn flip(path: &Path) {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x80;
        fs::write(path, bytes).unwrap();
    }

    type Damage = fn(&Path);

    fn empty(path: &Path) {
        fs::write(path, "").unwrap();
    }

    fn remove(path: &Path) {
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn files_of_a_set_that_cannot_be_believed_are_named() {
        let (sound, told) = told_of("set.json", |_| ());
        assert!(sound, "{told}");
        let cases: [(&str, &[Damage]); 8] = [
            ("set.json", &[flip, empty, remove]),
            ("authority.key", &[flip, empty, remove]),
            ("invitations.json", &[flip, empty]),
            ("../member", &[flip, empty]),
            ("authority.pem", &[flip, empty, remove]),
            ("replica.pem", &[flip, empty, remove]),
            ("replica.key", &[flip, empty, remove]),
            ("tree", &[empty, remove]),
        ];
        for (name, damages) in cases {
            for damage in damages {
                let (sound, told) = told_of(name, *damage);
                let path = format!("set/{name}").replace("set/../", "");
                assert!(!sound && told.contains(&path), "{name}: {told}");
            }
        }
    }

    /// The files of another member are valid in themselves, but do not belong to this server.
    #[test]
    fn files_of_the_set_that_are_not_of_this_member_are_named() {
        let (sound, told) = told_of("../member", |path| {
            let data = DataDirectory::open_or_create(path.parent().unwrap());
            let place = MemberOf {
                set: peer::SetId([7; 16]),
                slot: vfs::ReplicaSlot(2),
            };
            data.unwrap().note_member(place).unwrap();
        });
        assert!(
            !sound && told.contains("says that this server is number 2"),
            "{told}"
        );
    }
}
