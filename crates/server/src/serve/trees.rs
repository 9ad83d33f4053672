//! Opens the exported stores.
//!
//! What must never enter: the inside of a store.

use std::path::PathBuf;
use std::sync::Arc;

use nfs4_server::{AccessRule, Export, Layouts, PseudoPath};
use replica::Replica;
use store::{Elsewhere, NewStore, Reserve, Store, StoreOptions};
use vfs::FileSystem;

use super::ServeError;
use super::pool::{JoinedServer, StripedTree};
use super::replication::Replication;
use crate::configuration::{Configuration, ExportConfiguration};
use crate::data_directory::{DataDirectory, MemberOf, is_filled};
use crate::set::Membership;

/// Any user who can mount a new tree can create files in its root, but not remove those of others, as in `/tmp`. With
/// the superuser of other machines squashed, no other user could begin to use the tree.
const ROOT_MODE: u32 = 0o1777;

/// An open store and its export path.
pub(super) struct Tree {
    /// Its name in the data directory.
    pub(super) name: String,
    pub(super) path: PseudoPath,
    pub(super) store: Arc<Store>,
    /// The file system for clients: the store itself, or the replica around it.
    pub(super) file_system: Arc<dyn FileSystem>,
    /// The replica around the store, if the set keeps this tree.
    pub(super) replica: Option<Arc<Replica>>,
    /// With it, clients read and write the contents of striped files directly.
    layouts: Option<Arc<dyn Layouts>>,
    rules: Vec<AccessRule>,
}

impl Tree {
    /// From now on clients use the replica around the store.
    pub(super) fn serve_by(&mut self, replica: Arc<Replica>) {
        self.file_system = replica.file_system();
        self.replica = Some(replica);
    }

    /// Whether clients must not see it, because this server is a witness without contents, or was removed.
    pub(super) fn is_withheld(&self) -> bool {
        let replica = self.replica.as_ref();
        replica.is_some_and(|replica| replica.is_witness() || replica.is_removed())
    }

    /// The export for clients; `None` when it is withheld.
    pub(super) fn export(&self) -> Option<Export> {
        let shown = !self.is_withheld();
        shown.then(|| self.shown())
    }

    fn shown(&self) -> Export {
        let export = Export::new(
            self.path.clone(),
            self.file_system.clone(),
            self.rules.clone(),
        );
        match &self.layouts {
            Some(layouts) => export.with_layouts(layouts.clone()),
            None => export,
        }
    }
}

/// Opens every exported tree, and creates missing ones. The contents of the files of one tree may be stored elsewhere,
/// or that whole tree.
pub(super) async fn open_all(
    data: &DataDirectory,
    configuration: &Configuration,
    replication: Option<&Replication>,
    (striped, joined): (Option<&StripedTree>, Option<&JoinedServer>),
) -> Result<Vec<Tree>, ServeError> {
    let mut trees = Vec::new();
    for export in &configuration.exports {
        let membership = replication
            .filter(|replication| replication.tree == export.tree)
            .map(|replication| &replication.membership);
        let striped = striped.filter(|striped| striped.name == export.tree);
        let joined = joined.filter(|joined| joined.shows().0 == export.tree);
        let places = (striped, joined);
        trees.push(open_exported(data, (configuration, export), membership, places).await?);
    }
    Ok(trees)
}

/// Opens the tree of one export. `striped`: the contents of its files are stored elsewhere. `joined`: the whole tree is stored elsewhere.
async fn open_exported(
    data: &DataDirectory,
    (configuration, export): (&Configuration, &ExportConfiguration),
    membership: Option<&Membership>,
    (striped, joined): (Option<&StripedTree>, Option<&JoinedServer>),
) -> Result<Tree, ServeError> {
    let is_there = is_filled(&data.tree(&export.tree))?;
    let new = match joined {
        Some(joined) if !is_there => NewStore {
            tree: Some(joined.identity_of_tree().await?),
            slot: joined.shows().1,
            root_mode: ROOT_MODE,
            ..NewStore::default()
        },
        _ => new_store(membership),
    };
    if membership.is_some() && data.member()?.is_some() && !is_there {
        return Err(ServeError::TreeMissing(data.tree(&export.tree)));
    }
    // Trees of sets and joined servers come from other servers. Their loss is detected in other ways.
    let is_own = membership.is_none() && joined.is_none();
    if is_own && !is_there && data.has_made(&export.tree)? {
        return Err(ServeError::TreeLost {
            path: data.tree(&export.tree),
            tree: export.tree.clone(),
        });
    }
    let at_first = striped.map(|striped| striped.striped.clone() as Arc<dyn Elsewhere>);
    let options = StoreOptions {
        elsewhere: at_first.or_else(|| joined.map(JoinedServer::elsewhere)),
        ..options(data.tree(&export.tree), configuration)
    };
    let name = export.tree.clone();
    // Opening reads the disk, and replays the journal after a crash.
    let opened = tokio::task::spawn_blocking(move || open(&options, &name, &new)).await;
    let opened = opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    let wrong = |source| ServeError::Tree {
        tree: export.tree.clone(),
        source,
    };
    let store = Arc::new(opened.map_err(wrong)?);
    let mut layouts = None;
    let file_system: Arc<dyn FileSystem> = match (striped, joined) {
        (Some(striped), _) => {
            let (shown, given) = striped.show(&store);
            layouts = Some(given);
            shown
        }
        (None, Some(joined)) => {
            let path = data.tree(&export.tree);
            let shown = joined.show(data, (&store, &path), &configuration.pool);
            let (shown, given) = shown.await?;
            layouts = Some(given);
            shown
        }
        (None, None) => store.clone(),
    };
    if joined.is_none() {
        check_place(data, &export.tree, &store, membership)?;
    }
    if is_own {
        data.note_made(&export.tree)?;
    }
    Ok(Tree {
        name: export.tree.clone(),
        path: export.path.clone(),
        file_system,
        replica: None,
        layouts,
        store,
        rules: export.rules.clone(),
    })
}

/// Refuses a tree that does not belong here, and records whose copy it is.
fn check_place(
    data: &DataDirectory,
    tree: &str,
    store: &Store,
    membership: Option<&Membership>,
) -> Result<(), ServeError> {
    let (path, slot) = (data.tree(tree), store.slot());
    let Some(membership) = membership else {
        let read = replica::is_members_copy(store);
        return match read.map_err(replica::StartError::from)? {
            true => Err(ServeError::SetMissing { path, slot: slot.0 }),
            false if slot != NewStore::default().slot => Err(ServeError::StoreOfPool(path)),
            false => Ok(()),
        };
    };
    if (store.tree(), slot) != (membership.tree, membership.slot) {
        let tree = tree.to_owned();
        return Err(ServeError::OtherTree { tree, path });
    }
    let set = membership.set;
    let place = MemberOf { set, slot };
    match data.member()? {
        None => Ok(data.note_member(place)?),
        Some(noted) if noted == place => Ok(()),
        Some(noted) => Err(ServeError::OtherMember {
            path: data.path().to_owned(),
            theirs: format!("number {} of set {}", noted.slot.0, noted.set),
            own: format!("number {} of set {}", slot.0, set),
        }),
    }
}

/// The initial state of a tree: that of a set is the same at all replicas.
fn new_store(membership: Option<&Membership>) -> NewStore {
    let new = NewStore {
        root_mode: ROOT_MODE,
        ..NewStore::default()
    };
    match membership {
        None => new,
        Some(membership) => NewStore {
            tree: Some(membership.tree),
            slot: membership.slot,
            ..new
        },
    }
}

fn open(options: &StoreOptions, name: &str, new: &NewStore) -> Result<Store, store::StoreError> {
    match Store::open(options) {
        Err(store::StoreError::NoStore(path)) => {
            tracing::info!(tree = name, path = %path.display(), "making a new, empty tree");
            Store::create(options, new)
        }
        opened => opened,
    }
}

/// The options of a store in this directory.
pub(super) fn options(directory: PathBuf, configuration: &Configuration) -> StoreOptions {
    let reserve = configuration
        .store
        .reserve_bytes
        .map_or(Reserve::Automatic, Reserve::Bytes);
    StoreOptions {
        commit: configuration.commit,
        cache_bytes: configuration.store.cache_bytes,
        open_files: configuration.store.open_files,
        checksums: configuration.store.checksums,
        reserve,
        ..StoreOptions::new(directory)
    }
}
