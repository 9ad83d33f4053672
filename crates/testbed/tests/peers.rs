//! The peers for comparisons serve, and stop without leaving anything behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testbed::{
    Gluster, GridFtp, GridFtpOptions, LinkSettings, Place, Requirements, Rsync, Service, World,
};

/// Three places a little apart.
fn world() -> Result<World> {
    let near = LinkSettings::round_trip(Duration::from_millis(4));
    World::new(&["paris", "oslo", "rome"], &near)
}

/// Bytes without repetition.
fn bytes(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// A new folder in a place's folder, removed together with it.
fn folder(place: &Place, name: &str) -> Result<PathBuf> {
    let folder = place.site().folder().join(name);
    fs::create_dir(&folder)?;
    Ok(folder)
}

fn stop(service: &mut Service) -> Result<()> {
    let status = service.stop()?;
    let ended = status.code().or(status.signal()).context("it ended")?;
    // SIGTERM (15) ends programs that do not catch it; rsync exits with 20 when it was told to stop.
    ensure!([0, 15, 20].contains(&ended), "{status}");
    Ok(())
}

use std::os::unix::process::ExitStatusExt as _;

#[test]
fn gridftp_copies_a_file_and_many_and_stops() -> Result<()> {
    let needs = Requirements::site().with_wan().with_gridftp();
    if !needs.admit("GridFTP copies files")? {
        return Ok(());
    }
    let world = world()?;
    let [paris, oslo, _] = world.places() else {
        anyhow::bail!("there are three places");
    };
    let (here, there) = (folder(paris, "here")?, folder(oslo, "there")?);
    let mut first = GridFtp::start(&world, paris)?;
    let mut second = GridFtp::start(&world, oslo)?;

    let large = bytes(3_000_001);
    fs::write(here.join("large"), &large)?;
    fs::write(here.join("done"), "")?;
    let pairs = ["large", "done"].map(|name| (here.join(name), there.join(name)));
    first.send(&second, &pairs, GridFtpOptions::EIGHT_STREAMS)?;
    ensure!(fs::read(there.join("large"))? == large, "the copy differs");
    ensure!(
        there.join("done").exists(),
        "an empty file comes over as well"
    );

    let many = here.join("many");
    fs::create_dir(&many)?;
    for number in 0..50 {
        fs::write(many.join(number.to_string()), bytes(1000 + number))?;
    }
    first.send_folder(
        &second,
        &many,
        &there.join("many"),
        GridFtpOptions::MANY_FILES,
    )?;
    ensure!(same_files(&many, &there.join("many"))? == 50);

    let lost = (here.join("no such file"), there.join("lost"));
    let refused = first.send(&second, &[lost], GridFtpOptions::EIGHT_STREAMS);
    ensure!(refused.is_err(), "a path with spaces was taken");
    let lost = (here.join("missing"), there.join("lost"));
    let refused = first.send(&second, &[lost], GridFtpOptions::EIGHT_STREAMS);
    ensure!(refused.is_err(), "a missing file was sent");

    stop(first.service())?;
    stop(second.service())
}

#[test]
fn rsync_makes_a_folder_equal_and_stops() -> Result<()> {
    let needs = Requirements::site().with_wan().with_rsync();
    if !needs.admit("rsync makes a folder equal")? {
        return Ok(());
    }
    let world = world()?;
    let [paris, oslo, _] = world.places() else {
        anyhow::bail!("there are three places");
    };
    let (here, there) = (folder(paris, "here")?, folder(oslo, "there")?);
    let mut rsync = Rsync::start(oslo, &there)?;
    fs::write(here.join("new"), bytes(100_000))?;
    fs::write(there.join("old"), "old")?;
    rsync.update_from(paris, &here)?;
    ensure!(same_files(&here, &there)? == 1);
    ensure!(!there.join("old").exists(), "what is gone here stays there");
    // The same length, and changed within the same second.
    let mut changed = bytes(100_000);
    changed.reverse();
    fs::write(here.join("new"), changed)?;
    rsync.update_from(paris, &here)?;
    ensure!(same_files(&here, &there)? == 1);
    stop(rsync.service())
}

#[test]
fn gluster_shows_at_one_place_what_another_wrote_and_stops() -> Result<()> {
    let needs = Requirements::site().with_wan().with_gluster();
    if !needs.admit("GlusterFS keeps three replicas")? {
        return Ok(());
    }
    let world = world()?;
    let [paris, _, rome] = world.places() else {
        anyhow::bail!("there are three places");
    };
    // The temporary folder may not support extended attributes.
    let disk = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("peers-{}", std::process::id()));
    fs::create_dir(&disk)?;
    let gluster = Gluster::start(&world, world.places(), &disk)?;
    let first = gluster.mount(paris)?;
    let second = gluster.mount(rome)?;
    let content = bytes(500_000);
    fs::create_dir(first.path().join("folder"))?;
    fs::write(first.path().join("folder/file"), &content)?;
    ensure!(fs::read(second.path().join("folder/file"))? == content);
    // Every place has its own copy.
    for place in world.places() {
        let copy = disk.join(format!("gluster-{}/folder/file", place.name()));
        ensure!(
            fs::read(copy)? == content,
            "{} has no whole copy",
            place.name()
        );
    }
    drop((first, second));
    gluster.stop()?;
    Ok(fs::remove_dir_all(disk)?)
}

/// Compares the files of two folders and returns their number.
fn same_files(one: &Path, other: &Path) -> Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(one)? {
        let name = entry?.file_name();
        let (here, there) = (one.join(&name), other.join(&name));
        ensure!(
            fs::read(&here)? == fs::read(&there)?,
            "{} differs",
            there.display()
        );
        count += 1;
    }
    ensure!(fs::read_dir(other)?.count() == count, "there are more");
    Ok(count)
}
