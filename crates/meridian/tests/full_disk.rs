//! A disk that somebody else fills, up to one point after the other: whatever is asked for is done, or refused with `ENOSPC` and not
//! done at all, and is there after a crash. Files are cut short and removed whatever is left.

use std::collections::BTreeMap;
use std::fs;

use crate::fixture::disk::{OwnDisk, until_there_is_ballast};
use crate::fixture::run;
use crate::fixture::site::block_on;
use bytes::Bytes;
use nfs4::{Attributes4, Bitmap4, NfsFh4, NfsStat4, SetxattrOption4, StableHow4, Stateid4};
use nfs4_client::{Client, Error, How};
use testbed::{DiskFormat, Requirements};

/// How many bytes are left on the disk after it was filled: nothing; less than some operation needs; less than is kept back for
/// removals, and for metadata; plenty.
const LEFT: [u64; 8] = [
    0,
    4 << 10,
    64 << 10,
    1 << 20,
    6 << 20,
    20 << 20,
    60 << 20,
    250 << 20,
];

/// What is known of a file: its bytes and its extended attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct File {
    bytes: Vec<u8>,
    note: Option<Bytes>,
}

/// What has been answered: files by name; directories and links have none.
type Answered = BTreeMap<String, Option<File>>;

/// Whether it was done. Anything but lack of space is a failure.
fn is_done<T>(what: &str, outcome: Result<T, Error>) -> Option<T> {
    match outcome {
        Ok(done) => Some(done),
        Err(error) if error.status() == Some(NfsStat4::NoSpc) => None,
        Err(error) => panic!("{what}: {error}"),
    }
}

/// One client's work in a round.
struct Work<'a> {
    client: &'a Client,
    root: &'a NfsFh4,
    answered: &'a mut Answered,
    refused: usize,
}

impl Work<'_> {
    fn note<T>(&mut self, what: &str, outcome: Result<T, Error>) -> Option<T> {
        let done = is_done(what, outcome);
        self.refused += usize::from(done.is_none());
        done
    }

    async fn write(&mut self, name: &str, length: usize, seed: u8) {
        let opened = self.client.open(self.root, name, &How::create(0o644)).await;
        let Some(file) = self.note("make", opened) else {
            return;
        };
        self.answered.insert(name.to_owned(), Some(File::default()));
        let bytes: Vec<u8> = (0..length).map(|at| (at / 4096) as u8 ^ seed | 1).collect();
        for (number, piece) in bytes.chunks(64 << 10).enumerate() {
            let offset = number as u64 * (64 << 10);
            let piece = Bytes::copy_from_slice(piece);
            let written = self
                .client
                .write(&file, offset, piece.clone(), StableHow4::FileSync);
            let written = written.await;
            let Some(written) = self.note("write", written) else {
                break;
            };
            assert_eq!(written.committed, StableHow4::FileSync);
            let taken = written.count as usize;
            let known = self.answered.get_mut(name).unwrap().as_mut().unwrap();
            known.bytes.extend_from_slice(&piece[..taken]);
            if taken < piece.len() {
                break;
            }
        }
        self.client.close(&file).await.unwrap();
    }

    /// Everything that takes space, once.
    async fn take_space(&mut self, round: usize) {
        let name = |what: &str| format!("{what}-{round}");
        self.write(&name("small"), 300, 0x10).await;
        self.write(&name("large"), 600_000, 0x20).await;
        let directory = name("directory");
        let made = self
            .client
            .create_directory(self.root, directory.as_str(), 0o755);
        let made = made.await;
        if self.note("mkdir", made).is_some() {
            self.answered.insert(directory, None);
        }
        let target = Bytes::from(vec![b'x'; 1000]);
        let made = self
            .client
            .symlink(self.root, name("link").as_str(), target)
            .await;
        if self.note("symlink", made).is_some() {
            self.answered.insert(name("link"), None);
        }
        // These two were there before.
        let before = self.client.walk(self.root, &name("noted")).await.unwrap();
        let note = Bytes::from(vec![round as u8 + 1; 3000]);
        let option = SetxattrOption4::Either;
        let set = self
            .client
            .setxattr(&before, "note", note.clone(), option)
            .await;
        if self.note("setxattr", set).is_some() {
            let known = self.answered.get_mut(&name("noted")).unwrap();
            known.as_mut().unwrap().note = Some(note);
        }
        let (old, new) = (name("old"), name("new"));
        let moved = self
            .client
            .rename(self.root, old.as_str(), self.root, new.as_str());
        let moved = moved.await;
        if self.note("rename", moved).is_some() {
            let file = self.answered.remove(&old).unwrap();
            self.answered.insert(new, file);
        }
    }

    /// What gives space back works whatever is left.
    async fn give_space(&mut self, round: usize) {
        let name = format!("cut-{round}");
        let cut = self.client.walk(self.root, &name).await.unwrap();
        let size = Attributes4 {
            size: Some(10),
            ..Attributes4::default()
        };
        let done = self.client.setattr(&cut, Stateid4::ANONYMOUS, &size);
        done.await.unwrap();
        let known = self.answered.get_mut(&name).unwrap();
        known.as_mut().unwrap().bytes.truncate(10);
        let gone = format!("gone-{round}");
        self.client.remove(self.root, gone.as_str()).await.unwrap();
        self.answered.remove(&gone);
    }
}

async fn read_all(client: &Client, root: &NfsFh4) -> Answered {
    let mut found = Answered::new();
    for entry in client.readdir(root, Bitmap4::of(&[])).await.unwrap() {
        let name = String::from_utf8(entry.name.0.to_vec()).unwrap();
        let handle = client.walk(root, &name).await.unwrap();
        if name.starts_with("directory") || name.starts_with("link") {
            found.insert(name, None);
            continue;
        }
        let file = client
            .open(root, name.as_str(), &How::read())
            .await
            .unwrap();
        let bytes = client.read_to_end(&file).await.unwrap().to_vec();
        client.close(&file).await.unwrap();
        let note = match client.listxattrs(&handle).await.unwrap().is_empty() {
            true => None,
            false => Some(client.getxattr(&handle, "note").await.unwrap()),
        };
        found.insert(name, Some(File { bytes, note }));
    }
    found
}

#[test]
fn what_was_answered_on_a_disk_with_little_space_is_there_after_a_crash() {
    let wanted = Requirements::disks();
    if !wanted.admit("a disk with little space").unwrap() {
        return;
    }
    let (own, place) = OwnDisk::with_place(DiskFormat::Ext4);
    let mut answered = Answered::new();
    let mut server = place.start();
    block_on(async {
        let client = server.client().await;
        let root = client.mount("/export").await.unwrap();
        let mut work = Work {
            client: &client,
            root: &root,
            answered: &mut answered,
            refused: 0,
        };
        for round in 0..LEFT.len() {
            for what in ["noted", "old", "cut", "gone"] {
                work.write(&format!("{what}-{round}"), 20_000, 0x40).await;
            }
        }
        assert_eq!(work.refused, 0);
        client.leave().await.unwrap();
    });
    let mut refused = Vec::new();
    for (round, left) in LEFT.into_iter().enumerate() {
        until_there_is_ballast(&place);
        let balloon = own.fill_but(left);
        block_on(async {
            let client = server.client().await;
            let root = client.mount("/export").await.unwrap();
            let mut work = Work {
                client: &client,
                root: &root,
                answered: &mut answered,
                refused: 0,
            };
            work.take_space(round).await;
            work.give_space(round).await;
            refused.push(work.refused);
            assert_eq!(
                read_all(&client, &root).await,
                answered,
                "{left} bytes left"
            );
            client.leave().await.unwrap();
        });
        server.kill();
        fs::remove_file(balloon).unwrap();
        server = place.start();
        block_on(async {
            let client = server.client().await;
            let root = client.mount("/export").await.unwrap();
            let found = read_all(&client, &root).await;
            assert_eq!(found, answered, "after a crash with {left} bytes left");
            client.leave().await.unwrap();
        });
    }
    // The least was too little for anything, the most enough for all.
    assert!(refused[0] > 0 && refused.last() == Some(&0), "{refused:?}");
    server.stop();
    let checked = run(&["check", "--data", place.data().to_str().unwrap()]);
    assert!(checked.status.success(), "{checked:?}");
}
