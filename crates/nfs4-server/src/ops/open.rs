//! OPEN (RFC 8881, section 18.16): finds or creates a file, and registers the share of its owner.

use nfs4::{
    Bitmap4, Component4, CreateHow4, NfsStat4, OpenArgs, OpenClaim4, OpenDelegation4, OpenFlag4,
    OpenNoneDelegation4, OpenResOk, Stateid4, open_result, share as share_bits,
};
use vfs::{
    AccessCheck, Attributes, ChangeAttribute, Creation, Credentials, DirectoryChange, Error, Name,
    NewObject, OpenOwner, SetAttributes, Share, permission,
};

use super::directory::change_info;
use super::limits::{no_more_states, too_many_opens};
use super::space::Space;
use crate::attributes::to_set;
use crate::compound::Compound;
use crate::handle::{Handle, ObjectHandle};
use crate::state::{Reclaim, State, StateKind};
use crate::status::{OrStatus, status_of, status_of_name};

pub(crate) async fn open(
    compound: &mut Compound<'_>,
    args: OpenArgs,
) -> Result<OpenResOk, NfsStat4> {
    let session = compound.session()?;
    let share = share_of(args.share_access, args.share_deny)?;
    let reclaim = match &args.claim {
        OpenClaim4::Previous(_) => Reclaim::Yes,
        _ => Reclaim::No,
    };
    let service = compound.service;
    let admitted = service.admit(session.client, reclaim)?;
    // Checked before a file is created: the client sends the same request again.
    if reclaim == Reclaim::No
        && let Handle::Object(object) = compound.current()?
        && object.export.file_system.others_reclaim()
    {
        return Err(NfsStat4::Grace);
    }

    // Reserved before a file is created or truncated, because that would remain although the open is refused.
    let space = Space::keep(service, session.client, &args.owner.owner, StateKind::Open);
    let peer = compound.connection.peer();
    let space = space.map_err(|status| no_more_states(status, peer));
    let found = find(compound, &args, space.as_ref().err().copied()).await?;
    if found.is_removed {
        return Err(NfsStat4::Stale);
    }
    if found.object.read_only && share.write {
        return Err(NfsStat4::RoFs);
    }
    let reclaim = (reclaim, admitted.is_by_grace());
    let (stateid, attributes) = register(compound, &args, &found, share, reclaim, space).await?;
    Ok(opened(
        compound,
        args.share_access,
        found,
        stateid,
        Some(attributes),
    ))
}

/// Answers a repeated OPEN that created a file before this server's restart. It returns an invalid stateid, as if the
/// original answer had arrived before the restart. The client reclaims the open like its others.
pub(crate) async fn repeated(
    compound: &mut Compound<'_>,
    args: OpenArgs,
) -> Result<OpenResOk, NfsStat4> {
    let found = find(compound, &args, None).await?;
    let attributes = found.made.clone();
    if attributes.is_none() && !found.is_removed {
        return Err(NfsStat4::DeadSession);
    }
    let stateid = compound.service.state().bygone_stateid();
    Ok(opened(
        compound,
        args.share_access,
        found,
        stateid,
        attributes,
    ))
}

/// The result after the file is open; the file becomes current here. A file that was removed since then has no attributes.
fn opened(
    compound: &mut Compound<'_>,
    share_access: u32,
    found: Found,
    stateid: Stateid4,
    attributes: Option<Attributes>,
) -> OpenResOk {
    let attrset = found.attrset;
    // Without a name there is no directory to report.
    let version = attributes.as_ref().map(|attributes| attributes.change);
    let directory = (found.directory).unwrap_or_else(|| unchanged(version.unwrap_or(NO_VERSION)));
    if let Some(attributes) = attributes {
        compound.learn(&found.object, attributes);
    }
    compound.set_current(Handle::Object(found.object));
    compound.current_stateid = Some(stateid);
    OpenResOk {
        stateid,
        cinfo: change_info(directory),
        rflags: open_result::LOCKTYPE_POSIX
            | open_result::PRESERVE_UNLINKED
            | open_result::MAY_NOTIFY_LOCK,
        attrset,
        delegation: no_delegation(share_access),
    }
}

/// The file of an OPEN.
struct Found {
    object: ObjectHandle,
    /// The attributes that this request set when it created the file.
    made: Option<Attributes>,
    /// Whether this request created it at its first execution, and it is gone now.
    is_removed: bool,
    /// Whether the mode does not restrict the caller, because this request created the file, or an earlier one that the client repeats.
    is_own: bool,
    /// Whether to truncate an existing file after it is open.
    empty: bool,
    /// The change of the directory with its name; `None` if it was not found by name.
    directory: Option<DirectoryChange>,
    attrset: Bitmap4,
}

impl Found {
    /// An existing file, found without its name.
    fn existing(object: ObjectHandle) -> Found {
        Found {
            object,
            made: None,
            is_removed: false,
            is_own: false,
            empty: false,
            directory: None,
            attrset: Bitmap4::default(),
        }
    }

    /// An existing file, found by its name in a directory with this version.
    fn named(object: ObjectHandle, version: ChangeAttribute) -> Found {
        Found {
            directory: Some(unchanged(version)),
            ..Found::existing(object)
        }
    }

    /// The same; if `is` is true, it is truncated after it is open.
    fn emptied_if(self, is: bool) -> Found {
        let attrset = match is {
            true => Bitmap4::of(&[nfs4::Attr::Size]),
            false => self.attrset,
        };
        Found {
            empty: is,
            attrset,
            ..self
        }
    }

    /// A file that an earlier execution of the request created, and that is gone.
    fn removed(object: ObjectHandle, directory: DirectoryChange, attrset: Bitmap4) -> Found {
        Found {
            is_removed: true,
            directory: Some(directory),
            attrset,
            ..Found::existing(object)
        }
    }
}

/// For a file that is gone and was not found by its name: no version is reported.
const NO_VERSION: ChangeAttribute = ChangeAttribute(0);

/// An unchanged directory.
fn unchanged(version: ChangeAttribute) -> DirectoryChange {
    DirectoryChange {
        before: version,
        after: version,
    }
}

/// Finds the file by its claim, or creates it. If there is no space for one more open (`want`), it creates nothing.
async fn find(
    compound: &Compound<'_>,
    args: &OpenArgs,
    want: Option<NfsStat4>,
) -> Result<Found, NfsStat4> {
    match (&args.claim, &args.openhow) {
        (OpenClaim4::Null(name), OpenFlag4::NoCreate) => look_up(compound, name).await,
        (OpenClaim4::Null(name), OpenFlag4::Create(how)) => make(compound, name, how, want).await,
        (OpenClaim4::Fh | OpenClaim4::Previous(_), OpenFlag4::NoCreate) => {
            Ok(Found::existing(compound.current_object(NfsStat4::IsDir)?))
        }
        (OpenClaim4::Fh | OpenClaim4::Previous(_), OpenFlag4::Create(_)) => Err(NfsStat4::Inval),
        // No delegation was ever granted, so none can be claimed.
        (OpenClaim4::DelegateCur(_) | OpenClaim4::DelegCurFh(_), _) => Err(NfsStat4::BadStateid),
        (OpenClaim4::DelegatePrev(_) | OpenClaim4::DelegPrevFh, _) => Err(NfsStat4::NotSupp),
    }
}

async fn look_up(compound: &Compound<'_>, name: &Component4) -> Result<Found, NfsStat4> {
    let name = Name::new(name.0.clone()).map_err(status_of_name)?;
    let directory = match compound.current()? {
        Handle::Object(directory) => directory,
        Handle::Pseudo(node) => {
            let service = compound.service;
            let known = service.namespace.node(*node).children.contains_key(&name)
                || service.junction(*node, &name).is_some();
            return Err(if known {
                NfsStat4::IsDir
            } else {
                NfsStat4::NoEnt
            });
        }
        Handle::Absent(_) => return Err(NfsStat4::Moved),
    };
    let file_system = &directory.export.file_system;
    // Concurrently, because both may need another site.
    let (found, version) = tokio::join!(
        file_system.lookup(&directory.who, directory.id, &name),
        file_system.attributes(directory.id)
    );
    let object = directory.at(found.or_status()?.id);
    Ok(Found::named(object, version.or_status()?.change))
}

async fn make(
    compound: &Compound<'_>,
    name: &Component4,
    how: &CreateHow4,
    want: Option<NfsStat4>,
) -> Result<Found, NfsStat4> {
    let name = Name::new(name.0.clone()).map_err(status_of_name)?;
    let directory = compound.current_object(NfsStat4::RoFs)?;
    let version = compound.minor_version;
    let (creation, (set, attrset)) = match how {
        CreateHow4::Unchecked(attributes) => (Creation::Unchecked, to_set(attributes, version)?),
        CreateHow4::Guarded(attributes) => (Creation::Guarded, to_set(attributes, version)?),
        CreateHow4::Exclusive(verifier) => (
            Creation::Exclusive(compound.own_verifier(verifier)),
            (SetAttributes::default(), Bitmap4::default()),
        ),
        CreateHow4::Exclusive41(both) => (
            Creation::Exclusive(compound.own_verifier(&both.verf)),
            to_set(&both.attrs, version)?,
        ),
    };
    if directory.read_only {
        return existing(&directory, &name, creation, NfsStat4::RoFs).await;
    }
    if let Some(want) = want {
        // The owner may already have it open.
        let found = existing(&directory, &name, creation, want).await?;
        return Ok(found.emptied_if(set.size == Some(0)));
    }
    let file_system = &directory.export.file_system;
    let (who, new) = (compound.asking(&directory.who), NewObject::File(creation));
    let created = file_system.create(&who, directory.id, &name, new, &set);
    let created = match created.await {
        Err(Error::Removed {
            object,
            directory: changed,
        }) => {
            return Ok(Found::removed(directory.at(object), changed, attrset));
        }
        created => created.or_status()?,
    };
    let is_repeat = matches!(creation, Creation::Exclusive(_));
    let is_own = created.made || (is_repeat && permission::is_owner(&who, &created.attributes));
    let empty = !created.made && creation == Creation::Unchecked && set.size == Some(0);
    let found = Found {
        is_own,
        directory: Some(created.directory),
        ..Found::existing(directory.at(created.attributes.id))
    };
    Ok(match created.made {
        true => Found {
            attrset,
            made: Some(created.attributes),
            ..found
        },
        false => found.emptied_if(empty),
    })
}

/// If nothing can be created, opens an existing file even for a request that would create one.
async fn existing(
    directory: &ObjectHandle,
    name: &Name,
    creation: Creation,
    missing: NfsStat4,
) -> Result<Found, NfsStat4> {
    let file_system = &directory.export.file_system;
    let attributes = match file_system.lookup(&directory.who, directory.id, name).await {
        Err(Error::NotFound) => return Err(missing),
        Err(error) => return Err(status_of(&error)),
        Ok(attributes) => attributes,
    };
    if creation != Creation::Unchecked {
        return Err(NfsStat4::Exist);
    }
    let version = file_system
        .attributes(directory.id)
        .await
        .or_status()?
        .change;
    Ok(Found::named(directory.at(attributes.id), version))
}

/// Registers the share with the file system and in the state tables. Also returns the attributes at that time.
async fn register(
    compound: &Compound<'_>,
    args: &OpenArgs,
    found: &Found,
    share: Share,
    (reclaim, by_grace): (Reclaim, bool),
    space: Result<Space<'_>, NfsStat4>,
) -> Result<(Stateid4, Attributes), NfsStat4> {
    let service = compound.service;
    let client = compound.session()?.client;
    let peer = compound.connection.peer();
    let object = &found.object;
    let file = object.key();
    let file_system = &object.export.file_system;
    let owner_name = &args.owner.owner[..];

    let _gate = service.gates.pass(client, file).await;
    let (owner, before) = {
        let state = service.state();
        let before = state.existing_share(client, owner_name, file);
        (state.open_owner(client, owner_name)?, before)
    };
    let space = match before {
        // The existing open needs no further space.
        Some(_) => space.ok(),
        None => Some(space?),
    };
    if before.is_some_and(|held| held.conflicts(share)) {
        // The owner's own open is no exception (RFC 8881, section 18.16.3).
        return Err(NfsStat4::ShareDenied);
    }
    if reclaim == Reclaim::Yes && (share.deny_read || share.deny_write) {
        prove(by_grace, object, &owner).await?;
    }
    let opened = match &found.made {
        Some(made) => {
            let opening = file_system.open_made(&object.who, object.id, &owner, share);
            opening.await.map(|()| made.clone())
        }
        None => {
            let access = open_access(found, reclaim).await?;
            file_system.open(access, object.id, &owner, share).await
        }
    };
    let opened = opened.map_err(|error| match (error, reclaim) {
        (Error::ShareDenied, Reclaim::Yes) => NfsStat4::ReclaimConflict,
        // An open that denies nothing takes no disk space.
        (Error::NoSpace, _) if !(share.deny_read || share.deny_write) => too_many_opens(peer),
        (error, _) => status_of(&error),
    })?;
    let outcome = match empty_if_asked(found, share, &object.who).await {
        Ok(emptied) => {
            let enter = |state: &mut State| state.record_open(client, owner_name, file, share);
            let grant = match space {
                Some(space) => space.enter(enter),
                None => enter(&mut service.state()),
            };
            grant.map(|grant| (grant.stateid, emptied.unwrap_or(opened)))
        }
        Err(status) => Err(status),
    };
    match outcome {
        Ok(registered) => Ok(registered),
        Err(status) => {
            // Restores the owner's previous share.
            let undo = match before {
                None => file_system.close(object.id, &owner).await,
                Some(before) => file_system.downgrade(object.id, &owner, before).await,
            };
            undo.or_status()?;
            Err(status)
        }
    }
}

/// Fails if the owner must have state for the file, and has none: its open was given up, and another owner that it had
/// excluded may have opened the file in between.
async fn prove(by_grace: bool, object: &ObjectHandle, owner: &OpenOwner) -> Result<(), NfsStat4> {
    let file_system = &object.export.file_system;
    if by_grace && !file_system.others_went_on(object.id) {
        return Ok(());
    }
    let holds = file_system.holds_denial(object.id, owner).await;
    holds.or_status()?.then_some(()).ok_or(NfsStat4::ReclaimBad)
}

/// The access check for opening the file. Its creator, and an owner that had it open before a restart, are not
/// restricted by its mode.
async fn open_access(found: &Found, reclaim: Reclaim) -> Result<AccessCheck<'_>, NfsStat4> {
    let ObjectHandle {
        export, id, who, ..
    } = &found.object;
    let is_own = match reclaim {
        _ if found.is_own => true,
        Reclaim::No => false,
        Reclaim::Yes => {
            let attributes = export.file_system.attributes(*id).await.or_status()?;
            permission::is_owner(who, &attributes)
        }
    };
    Ok(match is_own {
        true => AccessCheck::Open(who),
        false => AccessCheck::Credentials(who),
    })
}

/// Truncates the file if requested, and returns its attributes.
async fn empty_if_asked(
    found: &Found,
    share: Share,
    who: &Credentials,
) -> Result<Option<Attributes>, NfsStat4> {
    if !found.empty {
        return Ok(None);
    }
    let access = if share.write {
        AccessCheck::Open(who)
    } else {
        AccessCheck::Credentials(who)
    };
    let set = SetAttributes {
        size: Some(0),
        ..SetAttributes::default()
    };
    let object = &found.object;
    let emptied = object
        .export
        .file_system
        .set_attributes(access, object.id, &set)
        .await
        .or_status()?;
    Ok(Some(emptied))
}

/// The share for access and deny bits. Additional bits about delegations are checked and ignored.
///
/// # Errors
/// `INVAL` for no access, and for unknown bits.
pub(super) fn share_of(access: u32, deny: u32) -> Result<Share, NfsStat4> {
    /// Bits for timestamps and stateids of delegations (RFC 9754, sections 3 and 5).
    const LATER_WISHES: u32 = 0x0030_0000;
    const KNOWN: u32 = share_bits::ACCESS_MASK
        | share_bits::WANT_DELEG_MASK
        | share_bits::WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL
        | share_bits::WANT_PUSH_DELEG_WHEN_UNCONTENDED
        | LATER_WISHES;
    let access_wanted = access & share_bits::ACCESS_MASK;
    let wish = access & share_bits::WANT_DELEG_MASK;
    if access_wanted == 0
        || access & !KNOWN != 0
        || wish > share_bits::WANT_CANCEL
        || deny & !share_bits::DENY_BOTH != 0
    {
        return Err(NfsStat4::Inval);
    }
    Ok(Share {
        read: access & share_bits::ACCESS_READ != 0,
        write: access & share_bits::ACCESS_WRITE != 0,
        deny_read: deny & share_bits::DENY_READ != 0,
        deny_write: deny & share_bits::DENY_WRITE != 0,
    })
}

/// Reports to a client that asked for a delegation why it gets none (RFC 8881, section 18.16.3).
fn no_delegation(share_access: u32) -> OpenDelegation4 {
    match share_access & share_bits::WANT_DELEG_MASK {
        share_bits::WANT_NO_PREFERENCE => OpenDelegation4::None,
        share_bits::WANT_NO_DELEG => OpenDelegation4::NoneExt(OpenNoneDelegation4::NotWanted),
        share_bits::WANT_CANCEL => OpenDelegation4::NoneExt(OpenNoneDelegation4::Cancelled),
        _ => OpenDelegation4::NoneExt(OpenNoneDelegation4::Resource(false)),
    }
}
