//! Compares a tree at a server with the expected result of a replay.
//!
//! What must never enter: how the tree was made.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use nfs4::{Bitmap4, NfsFh4};
use nfs4_client::{Client, How};

/// The expected tree: everything below a directory, by its path.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) objects: BTreeMap<String, Object>,
}

/// One object of it.
#[derive(Debug)]
pub(crate) enum Object {
    /// With everything in it.
    Directory,
    /// With this content.
    File(Vec<u8>),
    /// A symbolic link.
    Link,
}

/// Compares names and contents of everything below `root`. Returns how many bytes were compared.
///
/// # Errors
/// Fails at the first difference.
pub(crate) async fn compare(client: &Client, root: &NfsFh4, outcome: &Outcome) -> Result<u64> {
    let mut bytes = 0;
    let mut handles = BTreeMap::from([(String::new(), root.clone())]);
    for (path, object) in &outcome.objects {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let directory = handles
            .get(parent)
            .with_context(|| format!("{parent} is no directory"))?;
        let handle = client
            .lookup(directory, name)
            .await
            .with_context(|| format!("{path} is missing"))?;
        if let Object::File(expected) = object {
            let file = client.open_handle(&handle, &How::read()).await?;
            let found = client.read_to_end(&file).await?;
            client.close(&file).await?;
            ensure!(
                *found == **expected,
                "{path} has {} bytes where {} are expected, or others",
                found.len(),
                expected.len()
            );
            bytes += found.len() as u64;
        }
        if matches!(object, Object::Directory) {
            handles.insert(path.clone(), handle);
        }
    }
    let mut listed = 0;
    for (path, handle) in &handles {
        let names = client.readdir(handle, Bitmap4::EMPTY).await;
        listed += names
            .with_context(|| format!("could not list {path}"))?
            .len();
    }
    ensure!(
        listed == outcome.objects.len(),
        "{listed} names are there where {} are expected",
        outcome.objects.len()
    );
    Ok(bytes)
}
