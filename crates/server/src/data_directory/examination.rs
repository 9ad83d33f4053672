//! Finds small files of a data directory that are damaged, and sets them aside.
//!
//! What must never enter: the inside of trees.

use std::fs;
use std::path::{Path, PathBuf};

use super::claim::Claim;
use super::identity::ReplicaIdentity;
use super::{
    CLIENTS, DAMAGED, DataDirectoryError, IDENTITY, INCARNATION, MADE, MEMBER, MemberOf, SHELF,
    SealedFileError, TREES, client_records, incarnation, is_filled, made_trees, tree_path,
};

/// What to do about a tree that is missing completely.
const LOST_TREE: &str =
    "mount the disk that holds it, or restore a backup; `--repair --accept-loss` gives it up";

/// A problem outside the trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Defect {
    /// What is wrong.
    pub(crate) what: String,
    /// What was done about it; `None` if nothing.
    pub(crate) repair: Option<&'static str>,
}

/// A data directory during a check. No server can start on it.
#[derive(Debug)]
pub(crate) struct Examination {
    claim: Claim,
    repairs: bool,
}

impl Examination {
    /// Claims the directory.
    ///
    /// # Errors
    /// [`DataDirectoryError`], each with what to do next.
    pub(crate) fn begin(path: &Path, repairs: bool) -> Result<Examination, DataDirectoryError> {
        let claim = match repairs {
            true => Claim::existing(path)?,
            false => Claim::unchanged(path)?,
        };
        Ok(Examination { claim, repairs })
    }

    /// Checks everything except the trees.
    ///
    /// # Errors
    /// When something cannot be read or, in a repair, cannot be written.
    pub(crate) fn defects(&self) -> Result<Vec<Defect>, DataDirectoryError> {
        let mut defects = Vec::new();
        let identity = self.path(IDENTITY);
        if let Err(error) = ReplicaIdentity::read(&identity) {
            let repair = "a new identity was made; clients lose their locks once";
            defects.push(self.treat(error, &identity, repair)?);
            if self.repairs {
                ReplicaIdentity::new()
                    .map_err(DataDirectoryError::Random)?
                    .write(&identity)?;
            }
        }
        let incarnation = self.path(INCARNATION);
        match incarnation::last(&incarnation) {
            Err(error) if !error.is_missing() => {
                let repair = "it was set aside; the clock takes its place";
                defects.push(self.treat(error, &incarnation, repair)?);
            }
            _ => {}
        }
        if let Err(error) = self.member() {
            defects.push(match error {
                SealedFileError::Damaged { .. } => Defect {
                    what: DataDirectoryError::Member(error).to_string(),
                    repair: None,
                },
                error => return Err(error.into()),
            });
        }
        let made = self.path(MADE);
        if let Err(error) = made_trees::read(&made) {
            let repair = "it was set aside; the next start makes it anew";
            defects.push(self.treat(error, &made, repair)?);
        }
        let records = self.path(CLIENTS);
        if super::exists(&records)? && !records.is_dir() {
            if self.repairs {
                self.set_aside(&records)?;
            }
            let repair = "it was set aside; clients cannot reclaim their locks";
            defects.push(Defect {
                what: format!("{} is no directory", records.display()),
                repair: self.repairs.then_some(repair),
            });
        } else if super::exists(&records)? {
            for path in listing(&records)? {
                if let Err(error) = client_records::read_record(&path) {
                    let repair = "it was set aside; that client cannot reclaim its locks";
                    defects.push(self.treat(error, &path, repair)?);
                }
            }
        }
        Ok(defects)
    }

    /// Trees that were created here and do not exist any more. With `give_up` they are not reported from now on.
    ///
    /// # Errors
    /// When their list or the directory cannot be read or, with `give_up`, cannot be written.
    pub(crate) fn lost_trees(&self, give_up: bool) -> Result<Vec<Defect>, DataDirectoryError> {
        let note = self.path(MADE);
        let made = match made_trees::read(&note) {
            // A damaged list is reported as a separate defect.
            Err(SealedFileError::Damaged { .. }) => return Ok(Vec::new()),
            made => made?,
        };
        let (mut kept, mut defects) = (made.clone(), Vec::new());
        for name in made {
            let path = tree_path(self.claim.path(), &name);
            if is_filled(&path)? {
                continue;
            }
            kept.remove(&name);
            let what = format!("the tree \"{name}\" was made here, and there is nothing of it");
            let repair = "it was given up; the next start that exports it makes a new, empty one";
            defects.push(Defect {
                what: match give_up {
                    true => format!("{what} in {}", path.display()),
                    false => format!("{what} in {}: {LOST_TREE}", path.display()),
                },
                repair: give_up.then_some(repair),
            });
        }
        if give_up && !defects.is_empty() {
            made_trees::write(&note, &kept)?;
        }
        Ok(defects)
    }

    /// The replica of a set, or the server of a pool, that the directory belongs to.
    ///
    /// # Errors
    /// When this cannot be read.
    pub(crate) fn member(&self) -> Result<Option<MemberOf>, SealedFileError> {
        MemberOf::read(&self.path(MEMBER))
    }

    /// The trees, each with its name, in order, and the contents of a data server.
    ///
    /// # Errors
    /// When their directory cannot be read.
    pub(crate) fn trees(&self) -> Result<Vec<(String, PathBuf)>, DataDirectoryError> {
        let (trees, shelf) = (self.path(TREES), self.path(SHELF));
        let shelf = super::exists(&shelf)?.then(|| (SHELF.to_owned(), shelf));
        if !super::exists(&trees)? {
            return Ok(shelf.into_iter().collect());
        }
        let name_of = |path: PathBuf| path.file_name()?.to_str().map(str::to_owned);
        let names = listing(&trees)?.into_iter().filter_map(name_of);
        let trees = names.map(|name| (name.clone(), tree_path(self.claim.path(), &name)));
        Ok(trees.chain(shelf).collect())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.claim.path().join(name)
    }

    /// The defect for a damaged file, which a repair sets aside. If a file cannot be read at all, or only by a newer
    /// program, the check ends.
    fn treat(
        &self,
        error: SealedFileError,
        path: &Path,
        repair: &'static str,
    ) -> Result<Defect, DataDirectoryError> {
        let damaged = matches!(error, SealedFileError::Damaged { .. });
        if !damaged && !error.is_missing() {
            return Err(error.into());
        }
        if damaged && self.repairs {
            self.set_aside(path)?;
        }
        Ok(Defect {
            what: error.to_string(),
            repair: self.repairs.then_some(repair),
        })
    }

    fn set_aside(&self, path: &Path) -> Result<(), DataDirectoryError> {
        let damaged = self.path(DAMAGED);
        fs::create_dir_all(&damaged).map_err(DataDirectoryError::io("create", &damaged))?;
        let name = path.file_name().unwrap_or_default();
        let free = (0u32..).map(|number| match number {
            0 => damaged.join(name),
            number => damaged.join(name).with_added_extension(number.to_string()),
        });
        let mut free = free.filter(|place| !place.exists());
        let place = free.next().unwrap_or_else(|| damaged.join(name));
        fs::rename(path, &place).map_err(DataDirectoryError::io("set aside", path))
    }
}

/// The entries of a directory, in order.
fn listing(directory: &Path) -> Result<Vec<PathBuf>, DataDirectoryError> {
    let wrong = || DataDirectoryError::io("read", directory);
    let entries = fs::read_dir(directory).map_err(wrong())?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()).map_err(wrong()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::super::DataDirectory;
    use super::*;

    #[test]
    fn damage_is_found_and_set_aside_but_never_removed() {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDirectory::open_or_create(directory.path()).unwrap();
        data.next_incarnation().unwrap();
        data.client_records(Box::new(|| false)).unwrap();
        drop(data);
        let examine = |repairs| {
            let examination = Examination::begin(directory.path(), repairs).unwrap();
            examination.defects().unwrap()
        };
        assert_eq!(examine(false), []);

        for name in [IDENTITY, INCARNATION, MADE, "clients/0123"] {
            fs::write(directory.path().join(name), name).unwrap();
        }
        let found = examine(false);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(
            found.iter().all(|defect| defect.repair.is_none()),
            "{found:?}"
        );
        let repaired = examine(true);
        assert_eq!(repaired.len(), 4, "{repaired:?}");
        assert!(
            repaired.iter().all(|defect| defect.repair.is_some()),
            "{repaired:?}"
        );
        assert_eq!(examine(false), []);
        for name in [IDENTITY, INCARNATION, MADE, "0123"] {
            let kept = fs::read_to_string(directory.path().join(DAMAGED).join(name)).unwrap();
            assert!(kept.ends_with(name), "{kept}");
        }
        DataDirectory::open_or_create(directory.path()).unwrap();
    }

    /// The start failed with advice about the disk, and the check with advice to choose another directory.
    #[test]
    fn what_lies_in_the_place_of_the_client_records_is_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDirectory::open_or_create(directory.path()).unwrap();
        fs::write(directory.path().join(CLIENTS), "a file").unwrap();
        let refused = data.client_records(Box::new(|| false)).err().unwrap();
        assert!(refused.to_string().contains("check --repair"), "{refused}");
        drop(data);
        for (repairs, found) in [(false, 1), (true, 1), (false, 0)] {
            let examination = Examination::begin(directory.path(), repairs).unwrap();
            let defects = examination.defects().unwrap();
            assert_eq!(defects.len(), found, "{defects:?}");
        }
        let kept = directory.path().join(DAMAGED).join(CLIENTS);
        assert_eq!(fs::read_to_string(kept).unwrap(), "a file");
        let data = DataDirectory::open_or_create(directory.path()).unwrap();
        data.client_records(Box::new(|| false)).unwrap();
    }
}
