//! A server that lacks descriptors at its start says so, and nothing of what is stored; and it reads no file that is not one
//! of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::fixture::site::{Site, succeed};
use crate::fixture::{complaint, meridian};
use rustix::fs::{CWD, Mode, mkfifoat};

/// What a server says whose disk or files have changed.
const OF_CONTENTS: [&str; 8] = [
    "damaged",
    "has changed or lost",
    "meridian set rejoin",
    "missing",
    "belongs to no",
    "no store",
    "empty tree",
    "backup",
];

/// Starts the server with at most this many descriptors, and ends it as soon as it serves.
fn start_with(site: &Site, descriptors: u32) -> Output {
    let program = site.place.serve();
    let arguments = program.get_args().map(|argument| argument.to_owned());
    let mut shell = Command::new("timeout");
    shell
        .args(["--preserve-status", "--signal=TERM", "4", "sh", "-c"])
        .arg(format!("ulimit -n {descriptors}; exec \"$@\""))
        .arg("sh")
        .arg(program.get_program())
        .args(arguments);
    shell.env_remove("MERIDIAN_LOG").stdin(Stdio::null());
    shell.output().unwrap()
}

/// Whatever the limit, a start fails for want of descriptors or comes through.
fn starts_or_says_why(site: &Site) {
    for (failed, descriptors) in (5..64).step_by(3).enumerate() {
        let output = start_with(site, descriptors);
        if output.status.success() {
            assert!(failed > 3, "it was short of nothing");
            return;
        }
        let told = complaint(&output) + &String::from_utf8_lossy(&output.stdout);
        for word in OF_CONTENTS {
            assert!(
                !told.contains(word),
                "`{word}` with {descriptors} descriptors: {told}"
            );
        }
    }
    panic!("it never starts");
}

/// A start that lacked descriptors was taken for a damaged disk, with the advice to give up what is there.
#[test]
fn the_lack_of_descriptors_at_the_start_is_called_that_at_a_member() {
    let (first, server) = Site::founding();
    server.stop();
    starts_or_says_why(&first);
    let server = first.place.start();
    assert!(server.answers_null());
}

/// The same was taken for a pool whose files are missing.
#[test]
fn the_lack_of_descriptors_at_the_start_is_called_that_in_a_pool() {
    let metadata = Site::new();
    let pool = |site: &Site, arguments: &[&str]| site.meridian(&[&["pool"], arguments].concat());
    let address = |site: &Site| format!("127.0.0.1:{}", site.port);
    succeed(&pool(
        &metadata,
        &["create", "--address", &address(&metadata)],
    ));
    let server = metadata.place.start();
    let data = Site::new();
    let token = succeed(&pool(&metadata, &["invite", "--data-server"]));
    let join = ["join", token.trim_end(), "--address", &address(&data)];
    succeed(&pool(&data, &join));
    data.place.start().stop();
    starts_or_says_why(&data);
    server.stop();
    starts_or_says_why(&metadata);
}

/// All regular files of a directory, but those that only mean something by being locked.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let files = entries.flat_map(|entry| match entry.file_type().unwrap() {
        kind if kind.is_dir() => files(&entry.path()),
        kind if kind.is_file() && entry.file_name() != "lock" => vec![entry.path()],
        _ => Vec::new(),
    });
    files.collect()
}

/// A FIFO in the place of a file held up the reader until somebody wrote into it.
#[test]
fn whatever_stands_in_the_place_of_a_file_holds_up_nobody() {
    let (site, server) = Site::founding();
    site.invite();
    server.stop();
    let kept = site.place.directory.path().join("kept");
    let data = site.place.data();
    for file in files(&data) {
        fs::rename(&file, &kept).unwrap();
        mkfifoat(CWD, &file, Mode::RWXU).unwrap();
        let mut check = Command::new("timeout");
        check.args(["--signal=KILL", "20"]);
        check.arg(meridian().get_program());
        let checked = check.args(["check", "--data"]).arg(&data).output().unwrap();
        let told = complaint(&checked) + &String::from_utf8_lossy(&checked.stdout);
        let name = file.strip_prefix(&data).unwrap().display().to_string();
        assert!(
            matches!(checked.status.code(), Some(1 | 3)),
            "{name}: {:?} {told}",
            checked.status
        );
        fs::remove_file(&file).unwrap();
        fs::rename(&kept, &file).unwrap();
    }
    let server = site.place.start();
    assert!(server.answers_null());
}
