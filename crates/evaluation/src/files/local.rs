//! Files in a folder of this machine: on a site's own disk, or in a mounted file system.
//!
//! What must never enter: how they get to other sites.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};

use super::material::{BLOCK, Checksum, Material};

/// The folder.
#[derive(Debug, Clone)]
pub(crate) struct LocalFolder(Arc<PathBuf>);

impl LocalFolder {
    /// Makes it.
    pub(crate) fn make(path: PathBuf) -> Result<Self> {
        fs::create_dir_all(&path)
            .with_context(|| format!("could not create {}", path.display()))?;
        Ok(Self(Arc::new(path)))
    }

    /// An existing one.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self(Arc::new(path))
    }

    /// A file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file; does not wait until it is on the disk.
    pub(crate) async fn write(&self, name: &str, material: Material) -> Result<()> {
        let path = self.path(name);
        off_the_runtime(move || {
            let mut file = File::create(path)?;
            for number in 0..material.blocks() {
                file.write_all(&material.block(number))?;
            }
            Ok(())
        })
        .await
    }

    /// Whether there is a file of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Reads a whole file, and returns its checksum.
    pub(crate) async fn read(&self, name: &str) -> Result<Checksum> {
        let path = self.path(name);
        off_the_runtime(move || checksum(&path)).await
    }

    /// Removes it with everything in it.
    pub(crate) fn remove(&self) -> Result<()> {
        Ok(fs::remove_dir_all(&*self.0)?)
    }
}

/// Runs work that would block a thread of the runtime.
pub(crate) async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await?
}

fn checksum(path: &Path) -> Result<Checksum> {
    let mut file = File::open(path).with_context(|| format!("{} is missing", path.display()))?;
    let mut block = vec![0; BLOCK];
    let (mut length, mut crcs) = (0, Vec::new());
    loop {
        let count = read_full(&mut file, &mut block)?;
        if count == 0 {
            return Ok(Checksum::of(length, crcs.into_iter()));
        }
        length += count as u64;
        crcs.push(crc32c::crc32c(&block[..count]));
    }
}

/// Reads the available bytes, up to a block.
fn read_full(file: &mut File, block: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while done < block.len() {
        match file.read(&mut block[done..])? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_written_has_the_checksum_of_its_material() {
        let name = format!("staged-{}", std::process::id());
        let folder = LocalFolder::make(std::env::temp_dir().join(name)).unwrap();
        for length in [0, 1, BLOCK as u64, 3 * BLOCK as u64 + 17] {
            let material = Material::new(length, length);
            assert!(!folder.has(&length.to_string()));
            folder.write(&length.to_string(), material).await.unwrap();
            let found = folder.read(&length.to_string()).await.unwrap();
            assert_eq!(found, material.checksum());
        }
        folder.remove().unwrap();
    }
}
