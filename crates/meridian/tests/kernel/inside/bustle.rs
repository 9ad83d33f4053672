//! Changes of names that are possible exactly once: a request that a server executes twice, or that
//! it forgets after answering, shows as an error that no other process could have caused.
//!
//! What must never enter: repetition after an error.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Which answers reach the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Each of them, at the latest after it was asked for again.
    AllHeard,
    /// A server that is killed loses its reply cache, which may keep the answers for as long as
    /// connections break but need not outlive the server (RFC 8881, section 2.10.6.5). So a client
    /// that repeats a change may hear that it has happened already.
    SomeLost,
}

/// Works in a folder of its own until it is killed, and prints the number of each finished round.
pub fn work(folder: &Path, name: &str, answers: Answers) -> Result<()> {
    let home = folder.join(name);
    fs::create_dir(&home)?;
    for number in 0_u64.. {
        round(&home, number, answers).with_context(|| format!("{name}, round {number}"))?;
        println!("{number}");
    }
    Ok(())
}

fn round(home: &Path, number: u64, answers: Answers) -> Result<()> {
    let [new, linked, moved, folder] =
        ["new", "linked", "moved", "folder"].map(|kind| home.join(format!("{kind}-{number}")));
    let (inside, pointer) = (folder.join("inside"), home.join("pointer"));
    let made = |path: &Path| fs::symlink_metadata(path).is_ok();
    let gone = |path: &Path| fs::symlink_metadata(path).is_err();
    let check = |what, result, done: bool| happened(what, result, done, answers);

    // Creation survives even that: it carries a verifier which lies with the file.
    File::create_new(&new).context("exclusive creation")?;
    check("link", fs::hard_link(&new, &linked), made(&linked))?;
    check(
        "rename",
        fs::rename(&new, &moved),
        made(&moved) && gone(&new),
    )?;
    check("mkdir", fs::create_dir(&folder), made(&folder))?;
    check("symlink", symlink("x", &pointer), made(&pointer))?;
    let entered = fs::rename(&moved, &inside);
    check(
        "rename into a folder",
        entered,
        made(&inside) && gone(&moved),
    )?;
    for path in [&pointer, &linked, &inside] {
        check("removal", fs::remove_file(path), gone(path))?;
    }
    check("rmdir", fs::remove_dir(&folder), gone(&folder))?;
    let left = fs::read_dir(home)?.count();
    ensure!(left == 0, "{left} entries are left over");
    Ok(())
}

/// Ends well when a change has happened and was answered as it ought to be.
fn happened(what: &str, result: io::Result<()>, done: bool, answers: Answers) -> Result<()> {
    let repeated = |error: &io::Error| {
        answers == Answers::SomeLost
            && matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound)
    };
    match result {
        Err(error) if !repeated(&error) => Err(error).context(what.to_owned()),
        _ => {
            ensure!(done, "{what} was answered and did not happen");
            Ok(())
        }
    }
}
