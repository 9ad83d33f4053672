//! The keeper of the set's authority, and restoring the authority when its keeper is lost.
//!
//! What must never enter: the key, and asking the administrator.

use std::path::Path;

use peer::set::{AuthorityBackup, SetDirectory};

pub use peer::set::AuthorityView;

use super::{Membership, SetCommandError, to_change};
use crate::data_directory::set_path;
use crate::status::{ask, ask_view};

/// What this data directory says about the set's authority.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn authority(data: &Path) -> Result<AuthorityView, SetCommandError> {
    Ok(SetDirectory::new(set_path(data)).authority()?)
}

/// Writes a backup of the authority to a new file. It is as secret as the key.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub fn export_authority(data: &Path, to: &Path) -> Result<(), SetCommandError> {
    Ok(SetDirectory::new(set_path(data)).export_authority(to)?)
}

/// Checks the files that only the keeper of the authority needs, if this server is the keeper.
///
/// # Errors
/// [`SetCommandError`], each with what to do next; for example, the key is missing.
pub fn check_authority(data: &Path) -> Result<(), SetCommandError> {
    Ok(SetDirectory::new(set_path(data)).check_authority()?)
}

/// The keeper that would lose the authority to the server of this data directory. That server must run and be in the
/// view, so that it has the newest list of members that a majority of the set knows. The keeper must not be connected.
///
/// # Errors
/// [`SetCommandError::NotRestored`] says why it cannot be restored here now, and what to do.
pub async fn check_restoration(data: &Path) -> Result<AuthorityView, SetCommandError> {
    let membership = Membership::read(SetDirectory::new(set_path(data)))?;
    let authority = membership.directory.authority()?;
    let refused = |why: String| Err(SetCommandError::NotRestored(why));
    if authority.is_here {
        return Err(peer::set::SetError::AlreadyKeeper.into());
    }
    let keeper = authority.keeper;
    let status = match ask(data).await {
        Ok(status) => status,
        Err(error) => return refused(error.to_string()),
    };
    let trees = status
        .exports
        .iter()
        .filter_map(|export| export.replication.as_ref());
    let mut peers = trees.flat_map(|replication| &replication.peers);
    if peers.any(|peer| peer.slot == keeper && peer.connected) {
        return refused(format!(
            "replica {keeper} keeps it and is in contact; have it moved there, with `meridian set authority move --to {}`",
            membership.slot.0
        ));
    }
    match ask_view(data).await {
        Ok(view) if view.takes_part => Ok(authority),
        Ok(_) => refused(
            "this server takes no part in the view, so it cannot know what the set knows; wait until it does, or, when the majority is gone for ever, use `meridian set recover` first".to_owned(),
        ),
        Err(error) => refused(error.to_string()),
    }
}

/// Makes the server of this data directory the keeper of the set's authority, from a backup: a file that
/// [`export_authority`] wrote, or a copy of a previous keeper's `set` directory. Call [`check_restoration`] first.
///
/// # Errors
/// [`SetCommandError`], each with what to do next; then nothing has changed.
pub fn restore_authority(data: &Path, from: &Path) -> Result<(), SetCommandError> {
    let backup = AuthorityBackup::read(from)?;
    Ok(to_change(data)?.restore_authority(&backup)?)
}
