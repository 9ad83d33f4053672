//! Renaming.

use vfs::permission::{WRITE, allows, sticky_forbids};
use vfs::{Credentials, DirectoryChange, Error, Name, ObjectId, Result};

use super::remove::check_removable;
use super::{check_changeable, dangling, searchable};
use crate::commit_hook::Change;
use crate::committer::Ticket;
use crate::mutation::{Mutation, Touch};
use crate::operation::Operation;
use crate::requests::Begun;
use crate::rows::{Effect, ObjectRow};
use crate::space::Demand;

/// The maximum depth of a path; a longer walk up is in a circle.
const MAX_DEPTH: usize = 1 << 20;

/// One end of a rename.
#[derive(Clone, Copy)]
pub(crate) struct Place<'n> {
    pub(crate) directory: ObjectId,
    pub(crate) name: &'n Name,
}

impl Operation {
    /// [`vfs::FileSystem::rename`].
    pub(crate) async fn rename(
        &self,
        who: &Credentials,
        from: Place<'_>,
        to: Place<'_>,
    ) -> Result<(DirectoryChange, DirectoryChange)> {
        // A rename needs no space permanently, and replacing a file by a shorter one frees some.
        let mutation = match self.begin_once(who, Demand::Change).await? {
            Begun::New(mutation) => mutation,
            Begun::Done(effect) => return effect.changes(),
        };
        let (changes, ticket) = self.rename_in(mutation, who, from, to)?;
        self.settle(ticket).await?;
        Ok(changes)
    }

    fn rename_in(
        &self,
        mut mutation: Mutation<'_>,
        who: &Credentials,
        from: Place<'_>,
        to: Place<'_>,
    ) -> Result<((DirectoryChange, DirectoryChange), Ticket)> {
        let source = mutation.object(from.directory)?.clone();
        let target = mutation.object(to.directory)?.clone();
        let source_attributes = searchable(who, from.directory, &source)?;
        let target_attributes = searchable(who, to.directory, &target)?;
        let moved = mutation
            .find(from.directory, from.name)?
            .ok_or(Error::NotFound)?;
        let replaced = mutation.find(to.directory, to.name)?;
        check_changeable(who, &source_attributes)?;
        check_changeable(who, &target_attributes)?;
        let moved_row = mutation.object(moved).map_err(|_| dangling())?.clone();
        if sticky_forbids(who, &source_attributes, &moved_row.attributes(moved)) {
            return Err(Error::NotPermitted);
        }
        if replaced == Some(moved) {
            let unchanged = |row: &ObjectRow| DirectoryChange {
                before: row.change,
                after: row.change,
            };
            let ticket = mutation.commit_local()?;
            return Ok(((unchanged(&source), unchanged(&target)), ticket));
        }
        if moved_row.is_directory() && from.directory != to.directory {
            check_directory_move(&mut mutation, who, moved, &moved_row, to.directory)?;
        }
        if let Some(replaced) = replaced {
            let row = mutation.object(replaced).map_err(|_| dangling())?;
            if sticky_forbids(who, &target_attributes, &row.attributes(replaced)) {
                return Err(Error::NotPermitted);
            }
            check_replaceable(&moved_row, row)?;
        }
        self.move_name(mutation, who, (from, to), (moved, replaced))
    }

    fn move_name(
        &self,
        mut mutation: Mutation<'_>,
        who: &Credentials,
        (from, to): (Place<'_>, Place<'_>),
        (moved, replaced): (ObjectId, Option<ObjectId>),
    ) -> Result<((DirectoryChange, DirectoryChange), Ticket)> {
        let shape = Change::Rename {
            from: from.directory,
            to: to.directory,
            moved: mutation.touched(moved)?,
            replaced: replaced.map(|id| mutation.touched(id)).transpose()?,
        };
        let mut shares = self.shares();
        // First the new name: if both names have the same hash, the old one still holds its cookie.
        match replaced {
            Some(replaced) => {
                mutation.repoint_name(to.directory, to.name, moved)?;
                self.drop_name_of(&mut mutation, &shares, replaced)?;
            }
            None => mutation.add_name(to.directory, to.name, moved)?,
        }
        mutation.remove_name(from.directory, from.name)?;
        let gone = replaced.filter(|id| mutation.object(*id).is_err());
        mutation.touch(moved, Touch::Attributes)?;
        let source = mutation.touch(from.directory, Touch::Content)?;
        let target = mutation.touch(to.directory, Touch::Content)?;
        mutation.note_effect(who, Effect::Renamed(source, target), None)?;
        let ticket = mutation.commit(&shape)?;
        if let Some(gone) = gone {
            shares.forget(gone);
        }
        Ok(((source, target), ticket))
    }
}

/// Checks the move of a directory to another parent: it changes the directory itself (its `..`), and must not move it below itself.
fn check_directory_move(
    mutation: &mut Mutation<'_>,
    who: &Credentials,
    moved: ObjectId,
    row: &ObjectRow,
    target: ObjectId,
) -> Result<()> {
    let mut ancestor = target;
    for _ in 0..MAX_DEPTH {
        if ancestor == moved {
            return Err(Error::Invalid("a directory cannot be moved below itself"));
        }
        if ancestor == ObjectId::ROOT {
            break;
        }
        ancestor = mutation.peek(ancestor)?.directory()?.parent;
    }
    if ancestor != ObjectId::ROOT {
        return Err(Error::Io(
            "a directory has no way up to the root; run the check".into(),
        ));
    }
    if allows(who, &row.attributes(moved), WRITE) {
        Ok(())
    } else {
        Err(Error::AccessDenied)
    }
}

/// A file may replace anything except a directory; a directory may replace only an empty directory.
fn check_replaceable(moved: &ObjectRow, replaced: &ObjectRow) -> Result<()> {
    match (moved.is_directory(), replaced.is_directory()) {
        (false, true) => Err(Error::IsDirectory),
        (true, false) => Err(Error::NotDirectory),
        _ => check_removable(replaced),
    }
}
