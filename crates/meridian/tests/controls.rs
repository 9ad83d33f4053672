//! Replication control as clients of real servers meet it: what of another site's changes is asked for there, and for how long.

use std::time::Duration;

use bytes::Bytes;
use nfs4::Bitmap4;
use nfs4_client::{Client, How, Options, StableHow4};
use server::ReplicaStatus;

use crate::fixture::Running;
use crate::fixture::site::{Site, block_on};
use crate::replicas::{two_configured, until};

/// One that keeps a short lease, too.
async fn client(server: &Running) -> Client {
    let options = Options {
        renewal: Some(Duration::from_millis(300)),
        ..Options::at(server.address)
    };
    Client::connect(options).await.unwrap()
}

/// Whether somebody controls just this file.
fn is_controlled(status: &ReplicaStatus, path: &str) -> bool {
    let mut controls = status.controls.iter();
    controls.any(|control| !control.deep && control.paths.iter().any(|covered| covered == path))
}

fn forwarded(site: &Site) -> u64 {
    until(site, |_| true).forwarded
}

/// Nobody tells the server that the file is closed; the client's lease ends, and with it the open that keeps control.
#[test]
fn a_client_that_vanishes_keeps_control_of_no_file() {
    let settings = "[time]\nlease_seconds = 2\n[replication]\nopen_file_control_idle = \"1 h\"\n";
    let [(_first, first_server), (second, second_server)] = two_configured(settings);
    block_on(async {
        let writer = client(&first_server).await;
        let root = writer.mount("/export").await.unwrap();
        let file = writer.open(&root, "log", &How::create(0o666)).await;
        let (file, text) = (file.unwrap(), Bytes::from_static(b"text"));
        let written = writer.write(&file, 0, text.clone(), StableHow4::FileSync);
        written.await.unwrap();
        until(&second, |status| is_controlled(status, "/log"));
        // Longer than control lasts when no client has the file open.
        tokio::time::sleep(Duration::from_secs(4)).await;
        until(&second, |status| is_controlled(status, "/log"));
        drop(writer);
        until(&second, |status| status.controls_total == 0);

        let reader = client(&second_server).await;
        let before = forwarded(&second);
        let opened = reader.open(&root, "log", &How::read()).await.unwrap();
        assert_eq!(reader.read_to_end(&opened).await.unwrap(), text);
        assert_eq!(forwarded(&second), before, "its own copy answers");
        reader.close(&opened).await.unwrap();
        reader.leave().await.unwrap();
    });
    second_server.stop();
    first_server.stop();
}

/// A log that a client keeps open, and seldom writes to, costs readers at other sites a round trip only around its writes (main paper, section 2.1).
#[test]
fn a_file_that_stays_open_and_is_not_written_is_controlled_by_nobody() {
    let settings = "[replication]\nopen_file_control_idle = \"2 s\"\n";
    let [(first, first_server), (second, second_server)] = two_configured(settings);
    block_on(async {
        let writer = client(&first_server).await;
        let root = writer.mount("/export").await.unwrap();
        let file = writer.open(&root, "log", &How::create(0o666)).await;
        let file = file.unwrap();
        let reader = client(&second_server).await;
        let mut lines = Vec::new();
        for _ in 0..2 {
            let line = Bytes::from_static(b"a line\n");
            let written = writer.write(
                &file,
                lines.len() as u64,
                line.clone(),
                StableHow4::FileSync,
            );
            written.await.unwrap();
            lines.extend_from_slice(&line);
            for site in [&first, &second] {
                until(site, |status| status.controls_total == 0);
            }
            let before = forwarded(&second);
            let opened = reader.open(&root, "log", &How::read()).await.unwrap();
            assert_eq!(reader.read_to_end(&opened).await.unwrap(), lines);
            assert_eq!(forwarded(&second), before, "its own copy answers");
            reader.close(&opened).await.unwrap();
        }
        writer.close(&file).await.unwrap();
        writer.leave().await.unwrap();
        reader.leave().await.unwrap();
    });
    second_server.stop();
    first_server.stop();
}

/// With relaxed names a large directory that another site is changing is listed without asking there for each page.
#[test]
fn relaxed_names_are_listed_by_the_own_server() {
    let settings = "[replication]\nnamespace = \"relaxed\"\ndeep_control_idle = \"1 h\"\n";
    let [(first, first_server), (second, second_server)] = two_configured(settings);
    block_on(async {
        let writer = client(&first_server).await;
        let root = writer.mount("/export").await.unwrap();
        for number in 0..200 {
            let name = format!("directory {number}");
            let made = writer.create_directory(&root, name.as_str(), 0o755);
            made.await.unwrap();
        }
        until(&first, |status| {
            status.peers.iter().all(|peer| peer.lag_updates == 0)
        });
        let reader = client(&second_server).await;
        let before = forwarded(&second);
        let entries = reader.readdir(&root, Bitmap4::default()).await.unwrap();
        assert_eq!(entries.len(), 200);
        assert_eq!(forwarded(&second), before);
        reader.leave().await.unwrap();
        writer.leave().await.unwrap();
    });
    second_server.stop();
    first_server.stop();
}
