//! A member whose copy cannot be trusted any more becomes a new one; what it had is kept aside.
//!
//! It gets a new slot. What the old one had promised is forgotten: which votes it gave, which numbers it gave to
//! objects and updates; nobody can tell any more which of them may be used again (decision 0013).
//!
//! What must never enter: what becomes of the old slot; the set decides about it as about any lost member.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use peer::set::{Kind, SetDirectory, SetError, Token};

use super::{Joined, Membership, Reached, SetCommandError, has_tree};
use crate::data_directory::{DataDirectory, set_path};

/// The files of the new membership until the old ones are out of the way.
const JOINING: &str = "set.joining";
/// Where copies are kept that were replaced.
const ASIDE: &str = "aside";

/// A member that has begun anew.
#[derive(Clone, Debug)]
pub struct Rejoined {
    /// Its new place.
    pub joined: Joined,
    /// Its previous slot, as far as the directory knew it.
    pub before: Option<u16>,
    /// Where everything lies that it had.
    pub aside: PathBuf,
}

/// Puts what this data directory has of a set aside, and makes its server a new replica of the set that
/// invited it. May be repeated with the same token when it failed half-way, or was interrupted. No server may run on the directory meanwhile; one must run
/// where the invitation came from.
///
/// # Errors
/// [`SetCommandError`], each with what to do next; unless it failed half-way nothing has changed.
pub async fn rejoin(
    token: &str,
    path: &Path,
    tree: &str,
    reached: Reached<'_>,
) -> Result<Rejoined, SetCommandError> {
    let now = SystemTime::now();
    let token = Token::parse(Kind::Set, token).map_err(SetError::from)?;
    token.check_expiry(now).map_err(SetError::from)?;
    let places = reached.places()?;
    let data = DataDirectory::existing(path)?;
    if crate::pools::belongs_to_one(path)? {
        return Err(SetCommandError::CopyInPool(path.to_owned()));
    }
    let fresh = SetDirectory::new(path.join(JOINING));
    let begun = fresh.exists()? && fresh.identity()?.slot() == token.slot;
    let previous = data.member()?;
    if !begun
        && previous.is_none()
        && !SetDirectory::new(set_path(path)).exists()?
        && !has_tree(&data, tree)?
    {
        return Err(SetCommandError::NothingToReplace(path.to_owned()));
    }
    let is_untouched = previous.is_none() && !has_tree(&data, tree)?;
    let finished = is_untouched.then(|| finished(path, &token)).flatten();
    let mut remark = None;
    let (before, aside) = match finished {
        Some(done) => done,
        None => {
            if !begun {
                remove_if_there(fresh.path())?;
                remark = peer::set::join(&token, &fresh, places, now).await?.remark;
            }
            let before = previous.map(|previous| previous.slot.0);
            let aside = put_aside(&data, tree, before, now)?;
            rename(fresh.path(), &set_path(path))?;
            data.synchronise()?;
            (before, aside)
        }
    };
    let directory = SetDirectory::new(set_path(path));
    let list = directory.member_list()?;
    Membership::read(directory)?;
    Ok(Rejoined {
        joined: Joined {
            set: token.set.to_string(),
            slot: token.slot.0,
            members: list.members,
            keeper: list.keeper,
            remark,
        },
        before,
        aside,
    })
}

/// The previous slot, as far as that was known, and where everything lies that it had, if the command was interrupted when all was done.
fn finished(path: &Path, token: &Token) -> Option<(Option<u16>, PathBuf)> {
    let identity = SetDirectory::new(set_path(path)).identity().ok()?;
    if (identity.set(), identity.slot()) != (token.set, token.slot) {
        return None;
    }
    let kept = fs::read_dir(path.join(ASIDE)).ok()?;
    let kept = kept.filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let (who, seconds) = name.strip_prefix("replica-")?.rsplit_once('-')?;
        let seconds: u64 = seconds.parse().ok()?;
        Some((seconds, who.parse().ok(), path.join(ASIDE).join(&name)))
    });
    let (_, before, aside) = kept.max()?;
    Some((before, aside))
}

/// Moves the tree, the set's files and what clients held out of the way.
fn put_aside(
    data: &DataDirectory,
    tree: &str,
    slot: Option<u16>,
    now: SystemTime,
) -> Result<PathBuf, SetCommandError> {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let who = slot.map_or("unknown".to_owned(), |slot| slot.to_string());
    let aside = data
        .path()
        .join(ASIDE)
        .join(format!("replica-{who}-{seconds}"));
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&aside);
    made.map_err(io(&aside))?;
    let moved = [
        (data.tree(tree), "tree"),
        (data.clients(), "clients"),
        // Last: until then it is known which member's copy this was.
        (set_path(data.path()), "set"),
    ];
    for (from, name) in moved {
        if from.try_exists().map_err(io(&from))? {
            rename(&from, &aside.join(name))?;
        }
    }
    data.forget_member()?;
    Ok(aside)
}

fn rename(from: &Path, to: &Path) -> Result<(), SetCommandError> {
    fs::rename(from, to).map_err(io(from))
}

fn remove_if_there(path: &Path) -> Result<(), SetCommandError> {
    match path.try_exists().map_err(io(path))? {
        true => fs::remove_dir_all(path).map_err(io(path)),
        false => Ok(()),
    }
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> SetCommandError {
    let path = path.to_owned();
    move |source| SetCommandError::Io { path, source }
}
