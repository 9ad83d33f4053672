//! Changes of names that are possible exactly once: a request that a server executes twice, or that
//! it forgets after answering, shows as an error that no other process could have caused.
//!
//! What must never enter: repetition after an error.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Works in a folder of its own until it is killed, and prints the number of each finished round.
pub fn work(folder: &Path, name: &str) -> Result<()> {
    let home = folder.join(name);
    fs::create_dir(&home)?;
    for number in 0_u64.. {
        round(&home, number).with_context(|| format!("{name}, round {number}"))?;
        println!("{number}");
    }
    Ok(())
}

fn round(home: &Path, number: u64) -> Result<()> {
    let [new, linked, moved, folder] =
        ["new", "linked", "moved", "folder"].map(|kind| home.join(format!("{kind}-{number}")));
    let (inside, pointer) = (folder.join("inside"), home.join("pointer"));
    let made = |path: &Path| fs::symlink_metadata(path).is_ok();
    let gone = |path: &Path| fs::symlink_metadata(path).is_err();

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
fn check(what: &str, result: io::Result<()>, done: bool) -> Result<()> {
    result.with_context(|| what.to_owned())?;
    ensure!(done, "{what} was answered and did not happen");
    Ok(())
}
