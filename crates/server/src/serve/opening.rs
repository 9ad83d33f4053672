//! Opens the server's trees, and starts its role by its data directory.
//!
//! What must never enter: serving clients.

use super::pool;
use super::replication::Replication;
use super::trees::{self, Tree};
use super::{Build, ServeError};
use crate::configuration::Configuration;
use crate::data_directory::DataDirectory;
use crate::set::Membership;

/// The opened parts of a server.
pub(super) struct Opened {
    pub(super) trees: Vec<Tree>,
    pub(super) membership: Option<Membership>,
    pub(super) pool: Option<pool::Role>,
}

/// Opens the exported trees, and starts the role that the data directory gives: a replica, a server of a pool, or neither.
pub(super) async fn open(
    (data, configuration): (&DataDirectory, &Configuration),
    pool: Option<pool::Prepared>,
    this_start: (u32, Build),
) -> Result<Opened, ServeError> {
    let has_names = pool.as_ref().is_none_or(pool::Prepared::has_names);
    let replication = match has_names {
        true => Replication::prepare(data, configuration)?,
        false => None,
    };
    let striped = pool.as_ref().and_then(pool::Prepared::striped);
    let joined = pool.as_ref().and_then(pool::Prepared::joined);
    let pooled = (striped.as_ref(), joined.as_deref());
    let mut trees = match pool.as_ref().is_some_and(pool::Prepared::is_data_server) {
        true => Vec::new(),
        false => trees::open_all(data, configuration, replication.as_ref(), pooled).await?,
    };
    let membership = replication
        .as_ref()
        .map(|replication| replication.membership.clone());
    let readers = pool.as_ref().and_then(pool::Prepared::readers);
    // The pool comes first, because a replica may have to cut or remove contents there before it begins.
    let pool = match pool {
        Some(pool) => {
            let begun = pool.begin((data, configuration), &trees, this_start.0);
            Some(begun.await?)
        }
        None => None,
    };
    if let Some(replication) = replication {
        let with = (replication, readers);
        replicate(with, &mut trees, configuration, this_start).await?;
    }
    Ok(Opened {
        trees,
        membership,
        pool,
    })
}

/// Wraps the store of the set's tree in the replica.
async fn replicate(
    (replication, readers): (Replication, Option<pool::Readers>),
    trees: &mut [Tree],
    configuration: &Configuration,
    this_start: (u32, Build),
) -> Result<(), ServeError> {
    let meant = |tree: &&mut Tree| tree.name == replication.tree;
    if let Some(tree) = trees.iter_mut().find(meant) {
        let known = readers.as_ref().map(pool::Readers::as_known);
        let store = (tree.store.clone(), known);
        let begun = replication.begin(store, configuration, this_start);
        let replica = begun.await?;
        if let Some(readers) = readers {
            readers.are_let_by(&replica);
        }
        tree.serve_by(replica);
    }
    Ok(())
}
