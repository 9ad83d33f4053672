//! What clients find again after a restart: client records, grace, and files.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::crowds::connect_from;
use crate::fixture::{Place, Running, complaint, run};
use nfs4::NfsStat4;
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

/// Any host that came first after a restart took the name of a client, and with it what the client held.
#[test]
fn the_name_of_a_client_is_kept_for_it_over_a_restart() {
    let place = Place::new(PATIENT);
    let server = place.start();
    block_on(async {
        Client::connect(options(&server, "alpha")).await.unwrap();
    });
    server.kill();
    let server = place.start();
    let address = server.address;
    block_on(async {
        let stranger = Options {
            owner: "alpha".into(),
            patience: Duration::ZERO,
            ..Options::dialling(move || connect_from(99, address))
        };
        assert!(Client::connect(stranger).await.is_err());
        // The client itself, started anew at the same address.
        let client = Client::connect(options(&server, "alpha")).await.unwrap();
        write_file(&client, "new", "by the client").await.unwrap();
    });
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

/// The way to a server that is started anew with another address now and then. It can lose what the server says.
struct Way {
    address: SocketAddr,
    server: Arc<Mutex<SocketAddr>>,
    loses: Arc<AtomicBool>,
}

impl Way {
    fn to(server: SocketAddr) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let way = Way {
            address: listener.local_addr().unwrap(),
            server: Arc::new(Mutex::new(server)),
            loses: Arc::default(),
        };
        let (server, loses) = (way.server.clone(), way.loses.clone());
        // It ends with the test's process.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let address = *server.lock().unwrap();
                // Dropped, the connection tells the client to try again.
                if let Ok(server) = TcpStream::connect(address) {
                    carry(client, server, loses.clone());
                }
            }
        });
        way
    }
}

/// Carries bytes in both directions until one side ends.
fn carry(client: TcpStream, server: TcpStream, loses: Arc<AtomicBool>) {
    let ways = [
        (
            client.try_clone().unwrap(),
            server.try_clone().unwrap(),
            None,
        ),
        (server, client, Some(loses)),
    ];
    for (mut from, mut to, loses) in ways {
        std::thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                let lost = (loses.as_ref()).is_some_and(|loses| loses.load(Ordering::Acquire));
                if !lost && to.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            // Either may be gone already.
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
}

/// The server is killed when it has carried out what is asked and before any answer arrives. Each change is told as done
/// after the restart, and was done once.
#[test]
fn what_was_done_when_the_server_was_killed_is_answered_by_its_next_start() {
    let place = Place::new(PATIENT);
    let server = place.start();
    let way = Way::to(server.address);
    block_on(async {
        let watcher = Client::connect(options(&server, "watcher")).await.unwrap();
        let root = watcher.mount("/export").await.unwrap();
        for name in ["old", "doomed", "linked"] {
            write_file(&watcher, name, "content").await.unwrap();
        }
        let linked = watcher.lookup(&root, "linked").await.unwrap();
        let client = Client::connect(Options {
            owner: "asker".into(),
            ..Options::at(way.address)
        });
        let client = client.await.unwrap();

        way.loses.store(true, Ordering::Release);
        let asked = async {
            let how = How::create_new(0o644);
            tokio::join!(
                client.create_directory(&root, "made", 0o755),
                client.remove(&root, "doomed"),
                client.rename(&root, "old", &root, "new"),
                client.link(&linked, &root, "second"),
                client.open(&root, "sole", &how),
            )
        };
        let restarted = async {
            for (name, there) in [
                ("made", true),
                ("doomed", false),
                ("old", false),
                ("new", true),
                ("second", true),
                ("sole", true),
            ] {
                while watcher.lookup(&root, name).await.is_ok() != there {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            // What is seen may not be stable yet; what is answered later is, and all before it.
            write_file(&watcher, "last", "content").await.unwrap();
            server.kill();
            let server = place.start();
            *way.server.lock().unwrap() = server.address;
            way.loses.store(false, Ordering::Release);
            server
        };
        let ((made, removed, renamed, linked_again, opened), _server) =
            tokio::join!(asked, restarted);
        made.unwrap();
        removed.unwrap();
        renamed.unwrap();
        linked_again.unwrap();
        opened.unwrap();
        let next = client.remove(&root, "new").await;
        assert!(
            matches!(
                next,
                Err(Error::Status {
                    status: NfsStat4::BadSession,
                    ..
                })
            ),
            "what is new needs a new session: {next:?}"
        );
    });
}

/// Takes all space of a disk.
fn fill(balloon: &Path) {
    let mut balloon = File::create(balloon).unwrap();
    let full = std::io::copy(&mut std::io::repeat(0), &mut balloon).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
}

#[test]
fn a_server_on_a_full_disk_starts_once_there_is_space() {
    let place = Place::new("");
    fs::create_dir(place.data()).unwrap();
    let Some(_disk) = SmallDisk::mounted(&place.data(), "size=64m") else {
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

/// Where the disk has no space for its socket either, `meridian status` said that no server runs.
#[test]
fn a_server_that_cannot_even_say_that_it_waits_for_space_is_seen() {
    let place = Place::new("");
    fs::create_dir(place.data()).unwrap();
    let Some(_disk) = SmallDisk::mounted(&place.data(), "size=64m,nr_inodes=300") else {
        return;
    };
    place.start().stop();
    let filled = place.data().join("filled");
    fs::create_dir(&filled).unwrap();
    for number in 0.. {
        match File::create(filled.join(number.to_string())) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::StorageFull);
                break;
            }
        }
    }
    let server = std::thread::scope(|scope| {
        let starting = scope.spawn(|| place.start());
        while !place.read_log().contains("the disk is full") {
            assert!(!starting.is_finished(), "{}", place.read_log());
            std::thread::sleep(Duration::from_millis(50));
        }
        let asked = run(&["status", "--data", place.data().to_str().unwrap()]);
        fs::remove_dir_all(&filled).unwrap();
        let told = complaint(&asked);
        assert_eq!(asked.status.code(), Some(1), "{told}");
        assert!(told.contains("whose disk is so full"), "{told}");
        starting.join().unwrap()
    });
    assert!(server.answers_null());
    server.stop();
}

/// A file system in memory, gone with the test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mounted(path: &Path, options: &str) -> Option<SmallDisk> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]);
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
