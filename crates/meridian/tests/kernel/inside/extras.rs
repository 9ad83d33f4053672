//! What minor version 2 adds for one process: holes, preallocation and extended attributes.
//!
//! What must never enter: what works over NFSv4.1 too.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use anyhow::{Result, ensure};
use rustix::fs::{FallocateFlags, SeekFrom, XattrFlags};
use rustix::io::Errno;

use super::tour::{Sight, drop_caches, show};

const MIB: u64 = 1 << 20;

/// Shows every sight in a folder of its own.
pub fn walk(folder: &Path) -> Result<()> {
    let sights: &[(&str, Sight)] = &[
        ("holes", holes),
        ("preallocation", preallocation),
        ("punched holes", punched_holes),
        ("extended attributes", attributes),
        ("large extended attributes", large_attributes),
        ("extended attributes of folders", attributes_of_folders),
    ];
    show(folder, sights, &[])
}

fn new_file(at: &Path) -> Result<File> {
    Ok(File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(at.join("f"))?)
}

fn data_from(file: &File, place: u64) -> Result<u64, Errno> {
    rustix::fs::seek(file, SeekFrom::Data(place))
}

fn hole_from(file: &File, place: u64) -> Result<u64, Errno> {
    rustix::fs::seek(file, SeekFrom::Hole(place))
}

fn holes(at: &Path) -> Result<()> {
    let file = new_file(at)?;
    file.write_all_at(&[1; 65536], MIB)?;
    file.write_all_at(&[2; 65536], 3 * MIB)?;
    file.set_len(4 * MIB)?;
    file.sync_all()?;
    ensure!(
        data_from(&file, 0) == Ok(MIB),
        "data begin at {:?}",
        data_from(&file, 0)
    );
    ensure!(hole_from(&file, MIB) == Ok(MIB + 65536));
    ensure!(data_from(&file, MIB + 65536) == Ok(3 * MIB));
    ensure!(hole_from(&file, 3 * MIB) == Ok(3 * MIB + 65536));
    ensure!(data_from(&file, 3 * MIB + 65536) == Err(Errno::NXIO));
    ensure!(hole_from(&file, 4 * MIB) == Err(Errno::NXIO));
    let full = at.join("full");
    fs::write(&full, [7; 10_000])?;
    let full = File::open(full)?;
    ensure!(
        hole_from(&full, 0) == Ok(10_000),
        "every file ends in a hole"
    );
    Ok(())
}

fn preallocation(at: &Path) -> Result<()> {
    let file = new_file(at)?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 2 * MIB)?;
    let found = file.metadata()?;
    ensure!(found.len() == 2 * MIB);
    ensure!(
        found.blocks() * 512 >= 2 * MIB,
        "{} blocks are reserved",
        found.blocks()
    );
    file.write_all_at(b"middle", MIB)?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), MIB, 16)?;
    let mut text = [0; 6];
    file.read_exact_at(&mut text, MIB)?;
    ensure!(&text == b"middle", "allocation overwrote data");
    Ok(())
}

fn punched_holes(at: &Path) -> Result<()> {
    let file = new_file(at)?;
    file.write_all_at(&vec![9; 4 << 20], 0)?;
    file.sync_all()?;
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, MIB, 2 * MIB)?;
    drop_caches()?;
    let found = file.metadata()?;
    ensure!(
        found.len() == 4 * MIB && found.blocks() * 512 < 3 * MIB,
        "{} blocks",
        found.blocks()
    );
    let bytes = fs::read(at.join("f"))?;
    let zeros = bytes.iter().filter(|byte| **byte == 0).count();
    ensure!(zeros == 2 << 20 && bytes[1 << 20..3 << 20].iter().all(|byte| *byte == 0));
    ensure!(hole_from(&file, 0) == Ok(MIB) && data_from(&file, MIB) == Ok(3 * MIB));
    Ok(())
}

fn value(path: &Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; 65536];
    let length = rustix::fs::getxattr(path, name, &mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

fn names(path: &Path) -> Result<Vec<String>> {
    let mut bytes = vec![0; 65536];
    let length = rustix::fs::listxattr(path, &mut bytes)?;
    let names = bytes[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    let mut names: Vec<String> = names
        .map(|name| String::from_utf8_lossy(name).into())
        .collect();
    names.sort();
    Ok(names)
}

fn attributes(at: &Path) -> Result<()> {
    let path = at.join("f");
    File::create_new(&path)?;
    let set =
        |name: &str, text: &str, flags| rustix::fs::setxattr(&path, name, text.as_bytes(), flags);
    set("user.colour", "red", XattrFlags::CREATE)?;
    set("user.empty", "", XattrFlags::empty())?;
    ensure!(set("user.colour", "blue", XattrFlags::CREATE) == Err(Errno::EXIST));
    ensure!(set("user.absent", "blue", XattrFlags::REPLACE) == Err(Errno::NODATA));
    set("user.colour", "blue", XattrFlags::REPLACE)?;
    drop_caches()?;
    ensure!(value(&path, "user.colour") == Ok(b"blue".to_vec()));
    ensure!(value(&path, "user.empty") == Ok(Vec::new()));
    ensure!(value(&path, "user.absent") == Err(Errno::NODATA));
    ensure!(
        names(&path)? == ["user.colour", "user.empty"],
        "{:?}",
        names(&path)?
    );
    rustix::fs::removexattr(&path, "user.colour")?;
    ensure!(rustix::fs::removexattr(&path, "user.colour") == Err(Errno::NODATA));
    ensure!(names(&path)? == ["user.empty"]);
    Ok(())
}

fn large_attributes(at: &Path) -> Result<()> {
    let path = at.join("f");
    File::create_new(&path)?;
    let large: Vec<u8> = (0..60_000_u32).map(|number| (number % 251) as u8).collect();
    rustix::fs::setxattr(&path, "user.large", &large, XattrFlags::empty())?;
    for number in 0..100 {
        let name = format!("user.{number:03}.{}", "n".repeat(100));
        rustix::fs::setxattr(&path, name, b"v", XattrFlags::empty())?;
    }
    drop_caches()?;
    ensure!(
        value(&path, "user.large")? == large,
        "60,000 bytes came back changed"
    );
    ensure!(names(&path)?.len() == 101, "{} names", names(&path)?.len());
    Ok(())
}

fn attributes_of_folders(at: &Path) -> Result<()> {
    rustix::fs::setxattr(at, "user.kind", b"folder", XattrFlags::empty())?;
    fs::rename(at, at.with_extension("moved"))?;
    ensure!(value(&at.with_extension("moved"), "user.kind") == Ok(b"folder".to_vec()));
    Ok(())
}
