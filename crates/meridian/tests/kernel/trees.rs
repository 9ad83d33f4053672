//! What people do first with a file system: put a source tree there and use it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use testbed::{Guest, quoted};

use crate::scene::{MOUNT, Scene, program, run};

/// Runs a command of the host that must succeed.
fn host(command: &mut Command) -> Result<()> {
    let status = command.status();
    let status = status.with_context(|| format!("could not start {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// This workspace's own crates as they are now, copied so that nobody edits them meanwhile; and an
/// archive of the copy.
fn source_tree(scene: &Scene) -> Result<(String, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (copy, archive) = (
        scene.site.folder().join("tree"),
        scene.site.folder().join("tree.tar"),
    );
    std::fs::create_dir(&copy)?;
    host(
        Command::new("cp")
            .arg("-a")
            .arg(&crates)
            .arg(copy.join("crates")),
    )?;
    std::os::unix::fs::symlink("crates/meridian", copy.join("main-crate"))?;
    host(
        Command::new("tar")
            .arg("-C")
            .arg(&copy)
            .arg("-cf")
            .arg(&archive)
            .arg("."),
    )?;
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a plain name");
    Ok((text(&copy)?, text(&archive)?))
}

fn compare(guest: &Guest, original: &str) -> Result<()> {
    run(guest, program(["compare", original, "/run/m/tree"]))?;
    Ok(())
}

pub fn a_source_tree_is_unpacked_read_back_and_removed() -> Result<()> {
    let scene = Scene::open()?;
    let (original, archive) = source_tree(&scene)?;
    let alpha = scene.guest("alpha")?;
    let unpack = format!(
        "mkdir /run/m/tree && tar -C /run/m/tree -xf {}",
        quoted(&archive)
    );
    run(&alpha, unpack)?;
    compare(&alpha, &original)?;
    // A second client has seen none of it before.
    let beta = scene.guest_with("beta", &scene.mount().version("4.2"))?;
    compare(&beta, &original)?;
    let counted = run(&beta, "find /run/m/tree -name '*.rs' | wc -l")?.text();
    assert!(counted.trim().parse::<u32>()? > 100, "{counted}");

    run(&beta, "rm -rf /run/m/tree")?;
    assert_eq!(run(&beta, "ls -A /run/m")?.text(), "");
    alpha.unmount(MOUNT)?;
    alpha.mount(&scene.mount(), MOUNT)?;
    assert_eq!(run(&alpha, "ls -A /run/m")?.text(), "");
    alpha.power_off()?;
    beta.power_off()
}

/// Any machine with Rust has a C compiler, which Rust links with.
pub fn programs_run_from_the_mount_and_map_their_files() -> Result<()> {
    let scene = Scene::open()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/mapping.c");
    let built = scene.site.folder().join("mapping");
    host(Command::new("cc").arg("-o").arg(&built).arg(source))?;
    let guest = scene.guest("alpha")?;
    let copy = format!(
        "cp {} /run/m/mapping",
        quoted(built.to_str().context("a plain name")?)
    );
    run(&guest, copy)?;
    let output = run(
        &guest,
        "/run/m/mapping /run/m/mapped && wc -c < /run/m/mapped",
    )?;
    assert_eq!(output.text(), "mapped\n3145745\n");
    let beta = scene.guest("beta")?;
    let sums = "cksum < /run/m/mapped";
    assert_eq!(run(&guest, sums)?.text(), run(&beta, sums)?.text());
    beta.power_off()?;
    guest.power_off()
}
