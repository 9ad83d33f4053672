//! A disk that damages one file of a data directory, each file in each of a few ways: what was answered before is served, or it is
//! said which file is damaged and what to do. Never are other bytes served, or fewer files, or zeros.
//!
//! What each kind of file of a store does in each kind of damage, by many seeds, is in `crates/store/tests/rot.rs`; here are all files of
//! a data directory, and the program as its users meet it: a server alone, a member of a set and the servers of a pool while the
//! others run.

mod alone;
mod of_pool;
mod of_set;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::fixture::{Place, complaint, run};
use bytes::Bytes;
use nfs4::{Attr, Bitmap4, NfsFh4, NfsStat4, SetxattrOption4};
use nfs4_client::{Client, Error, How, Options};

/// A generous limit for what happens at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// It only takes up space.
const BALLAST: &str = "ballast";

/// What an entry was when it was answered last.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answered {
    File(Bytes, Option<Bytes>),
    Link(Bytes),
    Directory,
}

/// All of a tree by path.
type Tree = BTreeMap<String, Answered>;

/// What the disk does to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip,
    Zero,
    Cut,
    Empty,
    Older,
    Swap,
    Remove,
}

const DAMAGES: [Damage; 7] = [
    Damage::Flip,
    Damage::Zero,
    Damage::Cut,
    Damage::Empty,
    Damage::Older,
    Damage::Swap,
    Damage::Remove,
];

/// What a disk loses at least.
const SECTOR_BYTES: usize = 512;

/// A content in which no block is like another, and none is zeros.
fn content(seed: u32, length: u32) -> Bytes {
    let word = |at: u32| ((at / 4096 + 1) * 31 + at * 7 + seed) as u8 | 1;
    (0..length).map(word).collect()
}

/// The same client each time, so that nobody waits until it has reclaimed.
fn options(address: SocketAddr) -> Options {
    Options {
        owner: Bytes::from_static(b"the one client"),
        verifier: nfs4::Verifier4([7; 8]),
        patience: PATIENCE / 4,
        ..Options::at(address)
    }
}

async fn connect(address: SocketAddr) -> Client {
    Client::connect(options(address)).await.unwrap()
}

async fn write(client: &Client, directory: &NfsFh4, name: &str, bytes: &Bytes) {
    let file = client
        .open(directory, name, &How::create(0o644))
        .await
        .unwrap();
    client.write_all(&file, 0, bytes).await.unwrap();
    client.commit(&file.handle, 0, 0).await.unwrap();
    client.close(&file).await.unwrap();
}

/// What is done first; a copy of the data directory as it is then is the older one.
async fn begin(client: &Client) {
    let root = client.mount("/export").await.unwrap();
    let made = client.create_directory(&root, "directory", 0o755).await;
    let below = made.unwrap();
    write(client, &root, "large", &content(1, 200_000)).await;
    write(client, &root, "small", &content(2, 100)).await;
    write(client, &root, "replaced", &content(3, 9000)).await;
    write(client, &root, "gone", &content(4, 9000)).await;
    write(client, &below, "inside", &content(5, 5000)).await;
    write(client, &below, "empty", &Bytes::new()).await;
    client.symlink(&root, "link", "where").await.unwrap();
}

/// What is done then, before the server is stopped.
async fn go_on(client: &Client) {
    let root = client.mount("/export").await.unwrap();
    let below = client.walk(&root, "directory").await.unwrap();
    write(client, &root, "large", &content(6, 200_000)).await;
    write(client, &root, "new", &content(7, 50_000)).await;
    write(client, &below, "replacement", &content(8, 9000)).await;
    let renamed = client.rename(&below, "replacement", &root, "replaced");
    renamed.await.unwrap();
    client.remove(&root, "gone").await.unwrap();
}

/// What is done at last, before a crash, with contents that have come to rest. The client keeps a file open.
async fn end(client: &Client) {
    let root = client.mount("/export").await.unwrap();
    let below = client.walk(&root, "directory").await.unwrap();
    let small = client.walk(&root, "small").await.unwrap();
    client.link(&small, &below, "second").await.unwrap();
    let value = content(9, 3000);
    let set = client.setxattr(&small, "note", value, SetxattrOption4::Either);
    set.await.unwrap();
    client.open(&root, "small", &How::read()).await.unwrap();
}

/// What has been answered when all of it was done.
fn answered() -> Tree {
    let file = |seed, length| Answered::File(content(seed, length), None);
    let small = Answered::File(content(2, 100), Some(content(9, 3000)));
    let all = [
        ("directory", Answered::Directory),
        ("directory/empty", Answered::File(Bytes::new(), None)),
        ("directory/inside", file(5, 5000)),
        ("directory/second", small.clone()),
        ("large", file(6, 200_000)),
        ("link", Answered::Link(Bytes::from_static(b"where"))),
        ("new", file(7, 50_000)),
        ("replaced", file(8, 9000)),
        ("small", small),
    ];
    all.map(|(path, what)| (path.to_owned(), what)).into()
}

/// Reads all of a tree. What the disk has taken is an error of its own.
async fn read_all(address: SocketAddr) -> (Tree, BTreeMap<String, Error>) {
    read_by(options(address)).await
}

async fn read_by(options: Options) -> (Tree, BTreeMap<String, Error>) {
    let (mut tree, mut errors) = (Tree::new(), BTreeMap::new());
    let client = match Client::connect(options).await {
        Ok(client) => client,
        Err(error) => return (tree, [(String::new(), error)].into()),
    };
    let root = match client.mount("/export").await {
        Ok(root) => root,
        Err(error) => return (tree, [(String::new(), error)].into()),
    };
    let mut left = vec![(String::new(), root)];
    while let Some((path, directory)) = left.pop() {
        let wanted = Bitmap4::of(&[Attr::Type]);
        let entries = match client.readdir(&directory, wanted).await {
            Ok(entries) => entries,
            Err(error) => {
                errors.insert(path, error);
                continue;
            }
        };
        for entry in entries {
            let name = String::from_utf8(entry.name.0.to_vec()).unwrap();
            let below = format!("{path}/{name}").trim_start_matches('/').to_owned();
            match read_one(&client, &directory, &name).await {
                Ok((what, handle)) => {
                    if what == Answered::Directory {
                        left.push((below.clone(), handle));
                    }
                    tree.insert(below, what);
                }
                Err(error) => drop(errors.insert(below, error)),
            }
        }
    }
    let _ = client.leave().await;
    (tree, errors)
}

async fn read_one(
    client: &Client,
    directory: &NfsFh4,
    name: &str,
) -> Result<(Answered, NfsFh4), Error> {
    let handle = client.walk(directory, name).await?;
    let kind = client.stat(&handle).await?.type_;
    let what = match kind {
        Some(nfs4::NfsFtype4::Dir) => Answered::Directory,
        Some(nfs4::NfsFtype4::Lnk) => Answered::Link(client.readlink(&handle).await?),
        _ => {
            let file = client.open(directory, name, &How::read()).await?;
            let bytes = client.read_to_end(&file).await;
            client.close(&file).await?;
            let names = client.listxattrs(&handle).await?;
            let value = match names.is_empty() {
                true => None,
                false => Some(client.getxattr(&handle, "note").await?),
            };
            Answered::File(bytes?, value)
        }
    };
    Ok((what, handle))
}

/// All files below a directory, by their paths in it.
fn files_of(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.symlink_metadata().unwrap().file_type();
            if kind.is_dir() {
                left.push(path);
            } else if kind.is_file() && !path.ends_with(BALLAST) {
                let name = path.strip_prefix(directory).unwrap().to_owned();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

/// A data directory at two times, and where its server's configuration says what it is.
struct Used {
    settings: &'static str,
    older: BTreeMap<PathBuf, Vec<u8>>,
    now: BTreeMap<PathBuf, Vec<u8>>,
    directories: BTreeSet<PathBuf>,
}

impl Used {
    /// What is in a data directory now, which was something else before.
    fn of(settings: &'static str, data: &Path, older: BTreeMap<PathBuf, Vec<u8>>) -> Used {
        let now = files_of(data);
        let mut directories = BTreeSet::new();
        let mut left = vec![data.to_owned()];
        while let Some(next) = left.pop() {
            for entry in fs::read_dir(&next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    let name = path.strip_prefix(data).unwrap();
                    directories.insert(name.to_owned());
                    left.push(path);
                }
            }
        }
        Used {
            settings,
            older,
            now,
            directories,
        }
    }

    /// Every file with every damage that changes it.
    fn cases(&self) -> Vec<(PathBuf, Damage)> {
        let of_file = |name: &PathBuf| {
            let damages = DAMAGES.into_iter().filter(|damage| {
                let is_alone = matches!(damage, Damage::Swap) && self.neighbour(name).is_none();
                let (before, after) = (self.now.get(name), self.damaged(name, *damage));
                !is_alone && before != after.as_ref()
            });
            damages
                .map(|damage| (name.clone(), damage))
                .collect::<Vec<_>>()
        };
        self.now.keys().flat_map(of_file).collect()
    }

    /// What is left of a file.
    fn damaged(&self, name: &Path, damage: Damage) -> Option<Vec<u8>> {
        let mut bytes = self.now[name].clone();
        let middle = bytes.len() / 2;
        match damage {
            Damage::Flip if bytes.is_empty() => {}
            Damage::Flip => bytes[middle] ^= 0x10,
            Damage::Zero => {
                let sector = middle / SECTOR_BYTES * SECTOR_BYTES;
                bytes
                    .iter_mut()
                    .skip(sector)
                    .take(SECTOR_BYTES)
                    .for_each(|byte| *byte = 0);
            }
            Damage::Cut => bytes.truncate(middle),
            Damage::Empty => bytes.clear(),
            Damage::Older => {
                if let Some(older) = self.older.get(name) {
                    bytes.clone_from(older);
                }
            }
            Damage::Swap => bytes.clone_from(&self.now[self.neighbour(name)?]),
            Damage::Remove => return None,
        }
        Some(bytes)
    }

    /// The next file in the same directory, or the first one behind the last.
    fn neighbour(&self, name: &Path) -> Option<&PathBuf> {
        let beside = |other: &&PathBuf| *other != name && other.parent() == name.parent();
        let mut behind = self
            .now
            .keys()
            .filter(beside)
            .skip_while(|other| *other < name);
        let first = || self.now.keys().find(beside);
        behind.next().or_else(first)
    }

    /// All files as they were left, but for what a damage has made of one.
    fn put(&self, data: &Path, damaged: Option<(&Path, Damage)>) {
        let _ = fs::remove_dir_all(data);
        fs::create_dir(data).unwrap();
        for directory in &self.directories {
            fs::create_dir_all(data.join(directory)).unwrap();
        }
        for (file, bytes) in &self.now {
            fs::write(data.join(file), bytes).unwrap();
        }
        let Some((name, damage)) = damaged else {
            return;
        };
        if let (Damage::Swap, Some(neighbour)) = (damage, self.neighbour(name)) {
            fs::write(data.join(neighbour), &self.now[name]).unwrap();
        }
        match self.damaged(name, damage) {
            Some(left) => fs::write(data.join(name), left).unwrap(),
            None => fs::remove_file(data.join(name)).unwrap(),
        }
    }

    /// A copy with this damage.
    fn copy(&self, name: &Path, damage: Damage) -> Place {
        let place = Place::new(self.settings);
        self.put(&place.data(), Some((name, damage)));
        place
    }

    /// Whether a damage is told with its file, or that in which the bytes of the file are now.
    fn names(&self, said: &str, name: &Path, damage: Damage) -> bool {
        let other = self
            .neighbour(name)
            .filter(|_| matches!(damage, Damage::Swap));
        is_named(said, name) || other.is_some_and(|other| is_named(said, other))
    }
}

/// A server that was started, if it serves.
enum Started {
    Serving(Child, SocketAddr),
    Refused(Option<i32>),
    /// It does neither.
    Silent,
}

fn start(command: &mut Command, log: &Path) -> Started {
    let log = fs::File::create(log).unwrap();
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for line in lines {
            // The receiver may be gone.
            let _ = tell.send(line.unwrap());
        }
    });
    match told.recv_timeout(PATIENCE) {
        Ok(first) => {
            let address = first.split(" is ready at ").nth(1).unwrap();
            let address = address.split(',').next().unwrap().trim_end_matches('.');
            Started::Serving(child, address.parse().unwrap())
        }
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
            Started::Refused(child.wait().unwrap().code())
        }
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
            child.kill().unwrap();
            child.wait().unwrap();
            Started::Silent
        }
    }
}

/// What a check says, and whether it says that all is well.
fn check(place: &Place) -> (Option<i32>, String) {
    let output = run(&["check", "--data", place.data().to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &complaint(&output);
    (output.status.code(), said)
}

/// Whether it is said which file is damaged. Of the embedded store it is enough that it is that, of contents which file of the tree it is.
fn is_named(said: &str, name: &Path) -> bool {
    let is_in = |folder: &str| name.components().any(|part| part.as_os_str() == folder);
    let own = name.file_name().unwrap().to_str().unwrap();
    let known_by = match name.parent().and_then(Path::file_name) {
        Some(folder) if own.len() < 16 => format!("{}/{own}", folder.to_str().unwrap()),
        _ => own.to_owned(),
    };
    let names_content = || {
        answered()
            .keys()
            .any(|path| said.contains(&format!("(/{path})")))
    };
    said.contains(&known_by)
        || is_in("meta") && said.contains("/meta")
        || is_in("data") && names_content()
        || name.starts_with("pool") && said.contains("(`pool`")
}

/// What is served otherwise than it was answered, and not refused.
fn differences(tree: &Tree, errors: &BTreeMap<String, Error>) -> Vec<String> {
    let mut wrong = Vec::new();
    let all = answered();
    for (path, what) in tree {
        if all.get(path) != Some(what) {
            wrong.push(format!("`{path}` is something else"));
        }
    }
    // What lies in a directory that cannot be read is not known to be gone.
    let refused = |path: &str| {
        errors
            .keys()
            .any(|refused| path.starts_with(refused.as_str()))
    };
    for path in all.keys() {
        if !tree.contains_key(path) && !refused(path) {
            wrong.push(format!("`{path}` is gone"));
        }
    }
    wrong
}

/// What is refused otherwise than with one of these.
fn other_errors(errors: &BTreeMap<String, Error>, allowed: &[NfsStat4]) -> Vec<String> {
    let is_allowed = |error: &Error| {
        error
            .status()
            .is_some_and(|status| allowed.contains(&status))
    };
    let others = errors.iter().filter(|(_, error)| !is_allowed(error));
    others
        .map(|(path, error)| format!("`{path}`: {error}"))
        .collect()
}

/// Some of all cases, or all: `DAMAGE_CASES` says how many, `DAMAGE_SEED` chooses others.
fn some_of<T>(mut all: Vec<T>, few: usize) -> Vec<T> {
    let number = |variable: &str| {
        std::env::var(variable)
            .ok()
            .map(|text| text.parse().unwrap())
    };
    let count = number("DAMAGE_CASES").unwrap_or(few);
    let mut state = number("DAMAGE_SEED").unwrap_or(7) as u64;
    println!("DAMAGE_CASES={count} DAMAGE_SEED={state}, of {}", all.len());
    let mut chosen = Vec::new();
    while chosen.len() < count && !all.is_empty() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        chosen.push(all.swap_remove((state >> 33) as usize % all.len()));
    }
    chosen
}

/// Fails with all that should not have been.
fn assert_none(wrong: &[String]) {
    assert!(
        wrong.is_empty(),
        "{}\n\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
}
