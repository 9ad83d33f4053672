//! What clients find again after a restart: client records, grace, and files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fixture::{Place, Running};
use nfs4_client::{Client, Error, How, Options, StableHow4};
use rustix::process::Signal;

/// Long enough that nothing ends by itself while a test runs.
const PATIENT: &str = "[time]\nlease_seconds = 3600";

fn options(server: &Running, owner: &str) -> Options {
    Options {
        owner: owner.to_owned().into(),
        ..Options::at(server.address)
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

async fn write_file(client: &Client, name: &str, content: &str) -> Result<(), Error> {
    let root = client.mount("/export").await?;
    let file = client.open(&root, name, &How::create(0o644)).await?;
    client
        .write(&file, 0, content.to_owned().into(), StableHow4::FileSync)
        .await?;
    client.close(&file).await
}

async fn read_file(client: &Client, name: &str) -> Result<String, Error> {
    let root = client.mount("/export").await?;
    let file = client.open(&root, name, &How::read()).await?;
    let content = client.read_to_end(&file).await?;
    client.close(&file).await?;
    Ok(String::from_utf8(content.to_vec()).unwrap())
}

/// The log spoke of data that may be lost, of up to 490 files, where clients had only made and opened them.
#[test]
fn after_a_crash_no_more_is_said_than_is_known() {
    let place = Place::new("");
    let server = place.start();
    block_on(async {
        let client = Client::connect(options(&server, "alpha")).await.unwrap();
        let root = client.mount("/export").await.unwrap();
        for number in 0..20 {
            let name = format!("file {number}");
            client
                .open(&root, name.as_str(), &How::create(0o644))
                .await
                .unwrap();
        }
    });
    server.kill();
    place.start().stop();
    let log = place.read_log();
    assert!(!log.contains("lost"), "{log}");
}

#[test]
fn acknowledged_files_survive_a_crash() {
    let place = Place::new("");
    let server = place.start();
    block_on(async {
        let client = Client::connect(options(&server, "alpha")).await.unwrap();
        write_file(&client, "kept", "for ever").await.unwrap();
        client.leave().await.unwrap();
    });
    server.kill();
    let server = place.start();
    block_on(async {
        let client = Client::connect(options(&server, "alpha")).await.unwrap();
        assert_eq!(read_file(&client, "kept").await.unwrap(), "for ever");
        client.leave().await.unwrap();
    });
}

#[test]
fn a_client_on_record_gets_a_grace_period_after_a_crash_or_a_stop() {
    for signal in [Signal::KILL, Signal::TERM] {
        let place = Place::new(PATIENT);
        let server = place.start();
        assert!(!place.status().in_grace);
        block_on(async {
            let _client = Client::connect(options(&server, "alpha")).await.unwrap();
            assert_eq!(place.status().clients, 1);
            server.signal(signal);
        });
        server.wait();

        let server = place.start();
        assert!(place.status().in_grace, "{signal:?}: alpha may reclaim");
        block_on(async {
            let client = Client::connect(options(&server, "alpha")).await.unwrap();
            // The only one who could reclaim says that it has nothing to, so grace ends early.
            write_file(&client, "new", "open again").await.unwrap();
            assert!(!place.status().in_grace);
        });
    }
}

#[test]
fn a_client_that_left_is_not_waited_for() {
    let place = Place::new(PATIENT);
    let server = place.start();
    block_on(async {
        let client = Client::connect(options(&server, "alpha")).await.unwrap();
        client.leave().await.unwrap();
    });
    server.kill();
    let _server = place.start();
    assert!(!place.status().in_grace);
}

#[test]
fn a_stop_under_load_loses_no_acknowledged_file() {
    let place = Place::new("");
    let server = place.start();
    let connected = options(&server, "alpha");
    let (said, heard) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        block_on(async {
            let client = Client::connect(Options {
                patience: std::time::Duration::ZERO,
                ..connected
            });
            let client = client.await.unwrap();
            for number in 0.. {
                if write_file(&client, &number.to_string(), "content")
                    .await
                    .is_err()
                {
                    return number;
                }
                // The listener stops listening once it has heard enough.
                let _ = said.send(number);
            }
            unreachable!("the server stops at some time");
        })
    });
    while heard.recv().unwrap() < 20 {}
    server.stop();
    let written = writer.join().unwrap();

    let server = place.start();
    block_on(async {
        let client = Client::connect(options(&server, "alpha")).await.unwrap();
        for number in 0..written {
            let content = read_file(&client, &number.to_string()).await;
            assert_eq!(content.unwrap(), "content", "file {number} of {written}");
        }
    });
}

/// Takes all room of a disk.
fn fill(balloon: &Path) {
    let mut balloon = File::create(balloon).unwrap();
    let full = std::io::copy(&mut std::io::repeat(0), &mut balloon).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
}

#[test]
fn a_server_on_a_full_disk_starts_once_there_is_room() {
    let place = Place::new("");
    fs::create_dir(place.data()).unwrap();
    let Some(_disk) = SmallDisk::mounted(&place.data()) else {
        return;
    };
    place.start().stop();
    let balloon = place.data().join("balloon");
    fill(&balloon);
    let server = std::thread::scope(|scope| {
        let starting = scope.spawn(|| place.start());
        while !place.read_log().contains("the disk is full") {
            assert!(!starting.is_finished(), "{}", place.read_log());
            std::thread::sleep(Duration::from_millis(50));
        }
        fs::remove_file(&balloon).unwrap();
        starting.join().unwrap()
    });
    assert!(server.answers_null());
    server.stop();
}

/// A file system in memory, gone with the test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mounted(path: &Path) -> Option<SmallDisk> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]);
        if mount
            .arg(path)
            .status()
            .is_ok_and(|status| status.success())
        {
            return Some(SmallDisk(path.to_owned()));
        }
        eprintln!("NOT TESTED: only the superuser can mount the small disk that this test needs");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let status = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "the small disk stays mounted"
        );
    }
}
