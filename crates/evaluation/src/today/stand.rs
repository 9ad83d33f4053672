//! Three sites with a set of replicas, and the peers on the same sites.
//!
//! What must never enter: the measurements.

use std::path::PathBuf;

use anyhow::{Context, Result};
use testbed::{Gluster, GlusterMount, LinkSettings, Place, World};

use crate::field::{Field, Folder};
use crate::sites::Sites;

/// Sites, each with a replica.
pub(super) const SITES: usize = 3;

/// The sites with the set, and a common disk.
pub(super) struct Stand {
    /// The set.
    pub(super) sites: Sites,
    /// Dropped after the servers.
    folder: Folder,
}

/// GlusterFS at all sites. Must be dropped before the sites.
pub(super) struct Mounted {
    /// The volume as each site has it mounted.
    pub(super) mounts: Vec<GlusterMount>,
    gluster: Gluster,
}

impl Stand {
    /// Starts the set, at sites with these links. A connection that began at a shorter distance would never reach the full
    /// rate at a longer one.
    pub(super) fn start(field: &Field, link: &LinkSettings) -> Result<Self> {
        let folder = field.folder()?;
        let world = World::new(&["a", "b", "c"], link)?;
        let disk = folder.path().join("set");
        let sites = Sites::start_in(world, &field.program, &disk, SITES, "")?;
        Ok(Self { sites, folder })
    }

    /// Starts GlusterFS beside it and mounts the volume at every site.
    pub(super) fn gluster(&self) -> Result<Mounted> {
        eprintln!("evaluation: starting GlusterFS with {SITES} replicas");
        let world = self.sites.world();
        let gluster = Gluster::start(world, world.places(), self.folder.path())?;
        let mounts = world.places().iter().map(|place| gluster.mount(place));
        Ok(Mounted {
            mounts: mounts.collect::<Result<_>>()?,
            gluster,
        })
    }

    /// A site by its number.
    pub(super) fn place(&self, site: usize) -> Result<&Place> {
        let places = self.sites.world().places();
        places.get(site).context("there is no such site")
    }

    /// The folder for a site's own files: an absolute path on the disk that all servers use.
    pub(super) fn local(&self, site: usize) -> Result<PathBuf> {
        let path = self.folder.path().join(format!("local-{site}"));
        std::fs::create_dir_all(&path)?;
        Ok(path.canonicalize()?)
    }
}

impl Mounted {
    /// Fails unless all clients still run, and reach all replicas.
    pub(super) fn check_running(&mut self) -> Result<()> {
        for mount in &mut self.mounts {
            let ended = mount.service().ended()?;
            anyhow::ensure!(ended.is_none(), "a client of GlusterFS has died");
            let whole = mount.reaches_all();
            anyhow::ensure!(whole, "a client of GlusterFS does not reach every replica");
        }
        Ok(())
    }

    /// Stops everything in an orderly way.
    pub(super) fn stop(self) -> Result<()> {
        drop(self.mounts);
        self.gluster.stop()
    }
}
