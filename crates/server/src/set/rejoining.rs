//! A member with an untrusted copy becomes a new member; its old data is set aside.
//!
//! It gets a new slot. The old slot's obligations are forgotten: its votes, and the numbers that it gave to objects and
//! updates. It is unknown which of them may be used again (decision 0013).
//!
//! What must never enter: the old slot; the set decides about it as about any lost member.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use peer::set::{Kind, SetDirectory, SetError, Token};

use super::{Joined, Membership, Reached, SetCommandError, has_tree};
use crate::data_directory::{DataDirectory, set_path};

/// The files of the new membership, until the old ones have been moved.
const JOINING: &str = "set.joining";
/// The directory for replaced copies.
const ASIDE: &str = "aside";

/// A member that has rejoined.
#[derive(Clone, Debug)]
pub struct Rejoined {
    /// Its new membership.
    pub joined: Joined,
    /// Its previous slot, if the directory knew it.
    pub before: Option<u16>,
    /// The path of its old data.
    pub aside: PathBuf,
}

/// Sets aside the set data of this data directory, and makes its server a new replica of the set that invited it. May
/// be repeated with the same token after a partial failure or an interruption. No server may run on the directory
/// meanwhile; the inviting server must run.
///
/// # Errors
/// [`SetCommandError`], each with what to do next; except after a partial failure nothing has changed.
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

/// The previous slot, if known, and the path of the old data, if the command was interrupted after it had finished.
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

/// Moves the tree, the set's files and the clients' records away.
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
        // Last: until then the directory shows which member's copy this was.
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
