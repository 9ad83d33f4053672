//! Copies a folder to an NFSv4.1 server with Meridian's own client, lists it there, reads everything back
//! and compares. `make demo-single` does this if the Linux client is not available. With a name for the copy it
//! only copies, and prints the time, one request after another; `make demo` compares servers this way.
//!
//! What must never enter: anything a real user of files would not do.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use nfs4::{Bitmap4, Component4, NfsFh4};
use nfs4_client::{Client, Error, How, Options};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (server, export, folder, name) = match &arguments[..] {
        [server, export, folder] => (server, export, folder, None),
        [server, export, folder, name] => (server, export, folder, Some(&**name)),
        _ => bail!("usage: tree_round_trip ADDR:PORT EXPORT FOLDER [NAME]"),
    };
    let server: SocketAddr = server.parse().context("the server is named as ADDR:PORT")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(round_trip(server, export, Path::new(folder), name))
}

async fn round_trip(
    server: SocketAddr,
    export: &str,
    folder: &Path,
    name: Option<&str>,
) -> Result<()> {
    let client = Client::connect(Options::at(server))
        .await
        .context("cannot connect")?;
    let root = client
        .mount(export)
        .await
        .context("cannot find the export")?;
    let mut files = Vec::new();
    let began = Instant::now();
    let copy = name.unwrap_or("round trip");
    let copy = client.create_directory(&root, copy, 0o755).await?;
    copy_folder(&client, folder, &copy, &mut files).await?;
    if name.is_some() {
        let took = began.elapsed().as_secs_f64();
        println!("copied {} files in {took:.2} s", files.len());
        return Ok(client.leave().await?);
    }
    println!("copied {} files", files.len());
    let mut bytes = 0;
    for (local, remote) in &files {
        bytes += compare(&client, local, remote).await?;
    }
    println!(
        "read {} files back, {bytes} bytes: all are the same",
        files.len()
    );
    client.leave().await?;
    Ok(())
}

/// Copies the content of a folder, including subfolders but not symbolic links, and notes the source and
/// target of each file.
async fn copy_folder(
    client: &Client,
    folder: &Path,
    to: &NfsFh4,
    files: &mut Vec<(PathBuf, NfsFh4)>,
) -> Result<()> {
    let mut folders = vec![(folder.to_owned(), to.clone())];
    while let Some((folder, to)) = folders.pop() {
        let paths = fs::read_dir(&folder)?.map(|entry| Ok(entry?.path()));
        let mut paths: Vec<PathBuf> = paths.collect::<Result<_>>()?;
        paths.retain(|path| !path.is_symlink());
        for path in &paths {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            let name = Component4(Bytes::copy_from_slice(name));
            if path.is_dir() {
                folders.push((
                    path.clone(),
                    client.create_directory(&to, name, 0o755).await?,
                ));
            } else {
                let remote = copy_file(client, path, &to, name).await;
                let remote = remote.with_context(|| format!("cannot copy {}", path.display()))?;
                files.push((path.clone(), remote));
            }
        }
        let listed = client.readdir(&to, Bitmap4::default()).await?.len();
        ensure!(
            listed == paths.len(),
            "{} has {listed} entries there",
            folder.display()
        );
    }
    Ok(())
}

async fn copy_file(client: &Client, path: &Path, to: &NfsFh4, name: Component4) -> Result<NfsFh4> {
    let content = Bytes::from(fs::read(path)?);
    let file = client.open(to, name, &How::create(0o644)).await?;
    client.write_all(&file, 0, &content).await?;
    client.close(&file).await?;
    Ok(file.handle)
}

/// Fails unless both files are the same; returns their length.
async fn compare(client: &Client, local: &Path, remote: &NfsFh4) -> Result<usize> {
    let read = async {
        let file = client.open_handle(remote, &How::read()).await?;
        let content = client.read_to_end(&file).await?;
        client.close(&file).await?;
        Ok::<Bytes, Error>(content)
    };
    let content = read
        .await
        .with_context(|| format!("cannot read {} back", local.display()))?;
    ensure!(
        content == fs::read(local)?,
        "{} came back different",
        local.display()
    );
    Ok(content.len())
}
