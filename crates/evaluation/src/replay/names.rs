//! The handling of names and attributes by the modelled client.
//!
//! What must never enter: open files; see `kernel`.

use anyhow::{Context, Result};
use nfs4::{Attributes4, CreateType4, Stateid4};
use nfs4_client::{STAT, ops};

use super::kernel::{Kernel, Name};
use super::requests::{attributes, found, of_size};

impl Kernel {
    pub(super) async fn make(&mut self, path: &str, kind: CreateType4) -> Result<()> {
        let (directory, name) = self.parent(path).await?;
        let attributes = Attributes4 {
            mode: Some(0o755),
            ..Attributes4::default()
        };
        let request = vec![
            ops::putfh(&directory),
            ops::create(kind, name, attributes.encode(&Attributes4::KNOWN)),
            ops::getfh(),
            ops::getattr(STAT),
        ];
        let results = self.requests.demand(request).await?;
        let found = found(&results)?;
        self.learn(path, found);
        Ok(())
    }

    pub(super) async fn remove(&mut self, path: &str) -> Result<()> {
        let (directory, name) = self.parent(path).await?;
        let number = self.known(path).await?.context("it is missing")?;
        self.names.insert(path.to_owned(), Name::Missing);
        let inode = &mut self.objects[number];
        inode.dirty = if inode.opens > 0 {
            inode.dirty.clone()
        } else {
            0..0
        };
        let request = match inode.opens > 0 {
            false => vec![ops::putfh(&directory), ops::remove(name)],
            true => {
                let silly = format!(".nfs{number:024x}");
                inode.silly = Some((directory.clone(), silly.clone()));
                vec![
                    ops::putfh(&directory),
                    ops::savefh(),
                    ops::putfh(&directory),
                    ops::rename(name, &*silly),
                ]
            }
        };
        self.requests.demand(request).await.map(drop)
    }

    pub(super) async fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let (old_directory, old) = self.parent(from).await?;
        let (new_directory, new) = self.parent(to).await?;
        self.known(from).await?.context("it is missing")?;
        let request = vec![
            ops::putfh(&old_directory),
            ops::savefh(),
            ops::putfh(&new_directory),
            ops::rename(old, new),
        ];
        self.requests.demand(request).await?;
        // Known paths below a directory move with it.
        let below = format!("{from}/");
        let names: Vec<(String, Name)> = self
            .names
            .range(from.to_owned()..)
            .take_while(|(path, _)| path.starts_with(from))
            .filter(|(path, _)| *path == from || path.starts_with(&below))
            .map(|(path, name)| (path.clone(), *name))
            .collect();
        for (path, name) in names {
            self.names.insert(path.clone(), Name::Missing);
            self.names
                .insert(format!("{to}{}", &path[from.len()..]), name);
        }
        Ok(())
    }

    pub(super) async fn link(&mut self, from: &str, to: &str) -> Result<()> {
        self.parent(from).await?;
        let number = self.known(from).await?.context("it is missing")?;
        self.flush(number).await?;
        let (directory, name) = self.parent(to).await?;
        let request = vec![
            ops::putfh(&self.objects[number].handle),
            ops::savefh(),
            ops::putfh(&directory),
            ops::link(name),
        ];
        self.requests.demand(request).await?;
        self.names.insert(to.to_owned(), Name::Known(number));
        self.revalidate(number).await
    }

    pub(super) async fn set(&mut self, path: &str, wanted: &Attributes4) -> Result<()> {
        let number = match path.is_empty() {
            true => 0,
            false => {
                self.parent(path).await?;
                self.known(path).await?.context("it is missing")?
            }
        };
        self.flush(number).await?;
        let inode = &self.objects[number];
        let stateid = inode.stateid.unwrap_or(Stateid4::ANONYMOUS);
        let encoded = wanted.encode(&Attributes4::KNOWN);
        let request = vec![
            ops::putfh(&inode.handle),
            ops::setattr(stateid, encoded),
            ops::getattr(STAT),
        ];
        let results = self.requests.demand(request).await?;
        self.objects[number].refresh(&attributes(&results)?);
        Ok(())
    }

    pub(super) async fn set_size(&mut self, path: &str, size: u64) -> Result<()> {
        self.set(path, &of_size(size)).await?;
        if let Some(&Name::Known(number)) = self.names.get(path) {
            self.objects[number].content.resize(size as usize, 0);
        }
        Ok(())
    }

    pub(super) async fn list(&mut self, path: &str) -> Result<()> {
        let number = match path.is_empty() {
            true => 0,
            false => {
                self.parent(path).await?;
                self.known(path).await?.context("it is missing")?
            }
        };
        let handle = self.objects[number].handle.clone();
        self.requests.counts.requests += 1;
        self.requests.client().readdir(&handle, STAT).await?;
        Ok(())
    }
}
