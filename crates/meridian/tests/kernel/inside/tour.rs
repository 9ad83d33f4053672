//! What one process expects of any disk, over NFSv4.1.
//!
//! What must never enter: what needs a second client, or minor version 2.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{
    DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink,
};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use rustix::fs::{AtFlags, CWD, FileType, Mode};
use rustix::io::Errno;

/// The client's own removal of a name, after a close, is answered within this time.
const REMOVAL_ANSWERED: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A sight takes an empty folder and looks at one property.
pub(super) type Sight = fn(&Path) -> Result<()>;

/// Shows every sight in a folder of its own, but those that are left out.
pub fn walk(folder: &Path, left_out: &[&str]) -> Result<()> {
    let sights: &[(&str, Sight)] = &[
        ("exclusive creation", exclusive_creation),
        ("names of all lengths", names_of_all_lengths),
        ("awkward names", awkward_names),
        ("deep folders", deep_folders),
        ("renames of files", renames_of_files),
        ("renames of folders", renames_of_folders),
        ("hard links", hard_links),
        ("symbolic links", symbolic_links),
        ("special files", special_files),
        ("removal", removal),
        ("removed but open files", removed_but_open),
        ("replaced but open files", replaced_but_open),
        ("appending", appending),
        ("truncation", truncation),
        ("sparse files", sparse_files),
        ("large offsets", large_offsets),
        ("modes and set-id bits", modes),
        ("times", times),
        ("link counts of folders", link_counts_of_folders),
        ("direct transfers", direct_io),
    ];
    show(folder, sights, left_out)
}

pub(super) fn show(folder: &Path, sights: &[(&str, Sight)], left_out: &[&str]) -> Result<()> {
    let shown = sights.iter().filter(|(name, _)| !left_out.contains(name));
    for (name, sight) in shown {
        let place = folder.join(name);
        fs::create_dir(&place).with_context(|| format!("no folder for {name}"))?;
        sight(&place).with_context(|| format!("{name} do not work"))?;
        println!("{name}");
    }
    Ok(())
}

/// Fails unless `result` failed in this way.
pub(super) fn refused<T>(result: std::io::Result<T>, why: Errno) -> Result<()> {
    match result {
        Ok(_) => Err(anyhow::anyhow!(
            "it succeeded instead of failing with {why}"
        )),
        Err(error) => {
            let same = error.raw_os_error() == Some(why.raw_os_error());
            ensure!(same, "it failed with '{error}' instead of '{why}'");
            Ok(())
        }
    }
}

fn exclusive_creation(at: &Path) -> Result<()> {
    File::create_new(at.join("f"))?;
    refused(File::create_new(at.join("f")), Errno::EXIST)?;
    fs::create_dir(at.join("d"))?;
    refused(fs::create_dir(at.join("d")), Errno::EXIST)?;
    refused(symlink("x", at.join("f")), Errno::EXIST)?;
    let odd = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o400)
        .open(at.join("odd"))?;
    (&odd).write_all(b"its creator may write")?;
    ensure!(odd.metadata()?.mode() & 0o7777 == 0o400);
    Ok(())
}

fn names_of_all_lengths(at: &Path) -> Result<()> {
    for length in [1, 2, 3, 4, 5, 63, 64, 128, 254, 255] {
        let path = at.join("n".repeat(length));
        fs::write(&path, length.to_string())?;
        ensure!(fs::read_to_string(&path)? == length.to_string());
    }
    ensure!(fs::read_dir(at)?.count() == 10);
    refused(File::create(at.join("n".repeat(256))), Errno::NAMETOOLONG)?;
    refused(fs::create_dir(at.join("n".repeat(300))), Errno::NAMETOOLONG)
}

fn awkward_names(at: &Path) -> Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let names: [&[u8]; 8] = [
        b" ",
        b"...",
        b"-rf",
        b"a\nb",
        b"\\",
        b"*",
        "gr\u{fc}\u{df}e".as_bytes(),
        b"caf\xe9",
    ];
    for name in names {
        File::create_new(at.join(std::ffi::OsStr::from_bytes(name)))?;
    }
    let mut found: Vec<_> = fs::read_dir(at)?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<Result<_>>()?;
    found.sort();
    let mut wanted = names.to_vec();
    wanted.sort_unstable();
    ensure!(
        found.iter().map(|name| name.as_bytes()).eq(wanted),
        "{found:?}"
    );
    ensure!(!at.join("CAF").exists() && !at.join("GR\u{dc}SSE").exists());
    Ok(())
}

fn deep_folders(at: &Path) -> Result<()> {
    let mut path = at.to_owned();
    for level in 0..60 {
        path.push(format!("level-{level}"));
        fs::create_dir(&path)?;
    }
    fs::write(path.join("bottom"), "here")?;
    // Upwards by `..`, which the client may ask of the server.
    let up = path.join("../".repeat(60)).canonicalize()?;
    ensure!(up == at.canonicalize()?, "{}", up.display());
    fs::remove_dir_all(at.join("level-0"))?;
    ensure!(fs::read_dir(at)?.next().is_none());
    Ok(())
}

fn renames_of_files(at: &Path) -> Result<()> {
    let (a, b, d) = (at.join("a"), at.join("b"), at.join("d"));
    fs::write(&a, "a")?;
    fs::write(&b, "b")?;
    fs::create_dir(&d)?;
    fs::rename(&a, &b)?;
    ensure!(fs::read_to_string(&b)? == "a" && !a.exists());
    refused(fs::rename(&a, &b), Errno::NOENT)?;
    refused(fs::rename(&b, &d), Errno::ISDIR)?;
    refused(fs::rename(&d, &b), Errno::NOTDIR)?;
    fs::rename(&b, d.join("c"))?;
    ensure!(fs::read_to_string(d.join("c"))? == "a" && fs::read_dir(at)?.count() == 1);
    // Two names of one file: POSIX wants the rename to do nothing.
    fs::hard_link(d.join("c"), d.join("e"))?;
    fs::rename(d.join("c"), d.join("e"))?;
    ensure!(fs::read_dir(&d)?.count() == 2);
    Ok(())
}

fn renames_of_folders(at: &Path) -> Result<()> {
    let (a, b) = (at.join("a"), at.join("b"));
    fs::create_dir_all(a.join("inner/deep"))?;
    fs::create_dir_all(b.join("full"))?;
    refused(fs::rename(&a, &b), Errno::NOTEMPTY)?;
    refused(fs::rename(&a, a.join("inner/self")), Errno::INVAL)?;
    fs::remove_dir(b.join("full"))?;
    fs::rename(&a, &b)?;
    ensure!(b.join("inner/deep").is_dir() && !a.exists());
    fs::create_dir(&a)?;
    fs::rename(b.join("inner"), a.join("moved"))?;
    let parent = fs::metadata(a.join("moved/.."))?;
    ensure!(
        parent.ino() == fs::metadata(&a)?.ino(),
        "`..` did not follow"
    );
    Ok(())
}

fn hard_links(at: &Path) -> Result<()> {
    let (a, b, d) = (at.join("a"), at.join("b"), at.join("d"));
    fs::write(&a, "1")?;
    fs::hard_link(&a, &b)?;
    fs::create_dir(&d)?;
    fs::hard_link(&b, d.join("c"))?;
    refused(fs::hard_link(&a, &b), Errno::EXIST)?;
    refused(fs::hard_link(&d, at.join("e")), Errno::PERM)?;
    ensure!(fs::metadata(&a)?.nlink() == 3);
    ensure!(fs::metadata(&a)?.ino() == fs::metadata(d.join("c"))?.ino());
    fs::remove_file(&a)?;
    fs::write(d.join("c"), "22")?;
    ensure!(fs::read_to_string(&b)? == "22" && fs::metadata(&b)?.nlink() == 2);
    Ok(())
}

fn symbolic_links(at: &Path) -> Result<()> {
    fs::write(at.join("target"), "t")?;
    symlink("target", at.join("good"))?;
    symlink("nowhere", at.join("dangling"))?;
    symlink("loop", at.join("loop"))?;
    let long = "x/".repeat(1000);
    symlink(&long, at.join("long"))?;
    ensure!(fs::read_to_string(at.join("good"))? == "t");
    ensure!(fs::read_link(at.join("long"))?.as_os_str() == long.as_str());
    refused(File::open(at.join("dangling")), Errno::NOENT)?;
    refused(File::open(at.join("loop")), Errno::LOOP)?;
    fs::hard_link(at.join("good"), at.join("second"))?;
    ensure!(fs::symlink_metadata(at.join("second"))?.is_symlink());
    fs::remove_file(at.join("good"))?;
    ensure!(at.join("target").exists() && fs::symlink_metadata(at.join("loop"))?.is_symlink());
    Ok(())
}

fn special_files(at: &Path) -> Result<()> {
    let mode = Mode::from_raw_mode(0o640);
    let device = rustix::fs::makedev(7, 300);
    let kinds = [
        ("fifo", FileType::Fifo, 0),
        ("socket", FileType::Socket, 0),
        ("block", FileType::BlockDevice, device),
        ("character", FileType::CharacterDevice, device),
    ];
    for (name, kind, device) in kinds {
        rustix::fs::mknodat(CWD, at.join(name), kind, mode, device).context(name)?;
        let found = fs::symlink_metadata(at.join(name))?;
        ensure!(
            found.rdev() == device,
            "{name} has device {:x}",
            found.rdev()
        );
        ensure!(
            found.mode() & 0o777 == 0o640,
            "{name} has mode {:o}",
            found.mode()
        );
    }
    ensure!(
        fs::symlink_metadata(at.join("socket"))?
            .file_type()
            .is_socket()
    );
    // A FIFO lives in the client's kernel; the server only keeps its name.
    let reading = at.join("fifo");
    let reader = std::thread::spawn(move || fs::read_to_string(reading));
    fs::write(at.join("fifo"), "through")?;
    ensure!(reader.join().expect("the reader does not panic")? == "through");
    Ok(())
}

fn removal(at: &Path) -> Result<()> {
    fs::create_dir_all(at.join("d/e"))?;
    fs::write(at.join("f"), "")?;
    refused(fs::remove_dir(at.join("d")), Errno::NOTEMPTY)?;
    refused(fs::remove_dir(at.join("f")), Errno::NOTDIR)?;
    refused(fs::remove_file(at.join("d")), Errno::ISDIR)?;
    refused(fs::remove_file(at.join("none")), Errno::NOENT)?;
    fs::remove_dir_all(at.join("d"))?;
    fs::remove_file(at.join("f"))?;
    ensure!(fs::read_dir(at)?.next().is_none());
    Ok(())
}

fn removed_but_open(at: &Path) -> Result<()> {
    let path = at.join("f");
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    file.write_all(b"before")?;
    fs::remove_file(&path)?;
    file.write_all(b" and after")?;
    file.sync_all()?;
    drop_caches()?;
    file.seek(SeekFrom::Start(0))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    ensure!(text == "before and after", "{text}");
    ensure!(
        file.metadata()?.nlink() == 0,
        "nlink is {}",
        file.metadata()?.nlink()
    );
    // A name such as .nfs0000 would show that the client had to rename the file.
    ensure!(
        fs::read_dir(at)?.next().is_none(),
        "the folder is not empty"
    );
    fs::write(&path, "another")?;
    drop(file);
    ensure!(fs::read_to_string(&path)? == "another");
    Ok(())
}

fn replaced_but_open(at: &Path) -> Result<()> {
    fs::write(at.join("old"), "old")?;
    fs::write(at.join("new"), "new")?;
    let old = File::open(at.join("old"))?;
    fs::rename(at.join("new"), at.join("old"))?;
    drop_caches()?;
    let mut text = [0; 8];
    let read = old.read_at(&mut text, 0)?;
    ensure!(&text[..read] == b"old");
    ensure!(fs::read_to_string(at.join("old"))? == "new");
    // The Linux client gives the old file a name such as .nfs0000 before it renames another over it. At the last close it sends the removal of
    // that name, and the program does not wait for the answer.
    drop(old);
    let give_up = Instant::now() + REMOVAL_ANSWERED;
    while fs::read_dir(at)?.count() != 1 {
        ensure!(Instant::now() < give_up, "the replaced file keeps a name");
        thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

fn appending(at: &Path) -> Result<()> {
    let path = at.join("log");
    let append = || File::options().append(true).create(true).open(&path);
    let (mut one, mut two) = (append()?, append()?);
    for _ in 0..50 {
        one.write_all(b"1")?;
        two.write_all(b"2")?;
    }
    ensure!(fs::read_to_string(&path)? == "12".repeat(50));
    Ok(())
}

fn truncation(at: &Path) -> Result<()> {
    let path = at.join("f");
    fs::write(&path, "0123456789".repeat(1000))?;
    let file = File::options().read(true).write(true).open(&path)?;
    file.set_len(5)?;
    file.set_len(8192)?;
    drop_caches()?;
    let bytes = fs::read(&path)?;
    ensure!(
        bytes.len() == 8192 && bytes.starts_with(b"01234\0") && bytes[5..].iter().all(|b| *b == 0)
    );
    drop(File::create(&path)?);
    ensure!(fs::metadata(&path)?.len() == 0);
    Ok(())
}

fn sparse_files(at: &Path) -> Result<()> {
    let path = at.join("f");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    for place in 0..8 {
        file.write_all_at(format!("piece {place}").as_bytes(), place << 24)?;
    }
    file.sync_all()?;
    drop_caches()?;
    let found = file.metadata()?;
    ensure!(found.len() == (7 << 24) + 7);
    ensure!(
        found.blocks() * 512 < 1 << 20,
        "{} blocks are used",
        found.blocks()
    );
    let mut text = [1; 16];
    file.read_exact_at(&mut text, 3 << 24)?;
    ensure!(&text == b"piece 3\0\0\0\0\0\0\0\0\0");
    Ok(())
}

fn large_offsets(at: &Path) -> Result<()> {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(at.join("f"))?;
    for bits in [31, 32, 33, 40, 42] {
        let place = (1 << bits) - 3;
        file.write_all_at(b"across", place)?;
        file.sync_all()?;
        let mut text = [0; 6];
        file.read_exact_at(&mut text, place)?;
        ensure!(&text == b"across" && file.metadata()?.len() == place + 6);
    }
    Ok(())
}

fn modes(at: &Path) -> Result<()> {
    let path = at.join("f");
    fs::write(&path, "x")?;
    for mode in [0o600, 0o000, 0o4755, 0o2755, 0o1777, 0o7777] {
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        ensure!(
            fs::metadata(&path)?.mode() & 0o7777 == mode,
            "{mode:o} was not kept"
        );
    }
    // Root keeps the bits on a write but a change of owner takes them, as on Linux.
    std::os::unix::fs::chown(&path, Some(1000), Some(1000))?;
    let found = fs::metadata(&path)?;
    ensure!((found.uid(), found.gid()) == (1000, 1000));
    ensure!(
        found.mode() & 0o6000 == 0,
        "set-id bits stay: {:o}",
        found.mode()
    );
    DirBuilder::new().mode(0o2750).create(at.join("d"))?;
    ensure!(fs::metadata(at.join("d"))?.mode() & 0o777 == 0o750);
    Ok(())
}

fn times(at: &Path) -> Result<()> {
    let path = at.join("f");
    let file = File::create(&path)?;
    let then = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    file.set_times(fs::FileTimes::new().set_modified(then).set_accessed(then))?;
    drop_caches()?;
    let found = fs::metadata(&path)?;
    ensure!(
        found.modified()? == then && found.accessed()? == then,
        "{found:?}"
    );
    let before = (found.ctime(), found.ctime_nsec());
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    let found = fs::metadata(&path)?;
    ensure!(
        (found.ctime(), found.ctime_nsec()) > before,
        "ctime stood still"
    );
    ensure!(found.modified()? == then, "chmod changed mtime");
    (&file).write_all(b"x")?;
    file.sync_all()?;
    ensure!(
        fs::metadata(&path)?.modified()? > then,
        "a write left mtime alone"
    );
    let parent = fs::metadata(at)?;
    let before = (parent.mtime(), parent.mtime_nsec());
    fs::remove_file(&path)?;
    let parent = fs::metadata(at)?;
    ensure!(
        (parent.mtime(), parent.mtime_nsec()) > before,
        "removal left the folder's mtime alone"
    );
    Ok(())
}

fn link_counts_of_folders(at: &Path) -> Result<()> {
    for name in ["a", "b", "c"] {
        fs::create_dir(at.join(name))?;
    }
    ensure!(fs::metadata(at)?.nlink() == 5);
    fs::rename(at.join("a"), at.join("b/a"))?;
    fs::remove_dir(at.join("c"))?;
    ensure!(fs::metadata(at)?.nlink() == 3);
    ensure!(fs::metadata(at.join("b"))?.nlink() == 3);
    let link = rustix::fs::linkat(CWD, at.join("b"), CWD, at.join("x"), AtFlags::empty());
    ensure!(link == Err(Errno::PERM));
    Ok(())
}

fn direct_io(at: &Path) -> Result<()> {
    let path = at.join("f");
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits())?;
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(direct)
        .open(&path)?;
    let pattern: Vec<u8> = (0..3_000_000_u32)
        .map(|number| number as u8 ^ (number >> 8) as u8)
        .collect();
    file.write_all_at(&pattern, 0)?;
    let mut read = vec![0; pattern.len()];
    file.read_exact_at(&mut read, 0)?;
    ensure!(read == pattern && fs::read(&path)? == pattern);
    Ok(())
}

/// Makes the client ask the server again. It needs root.
pub(super) fn drop_caches() -> Result<()> {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").context("the client's caches stay")
}
