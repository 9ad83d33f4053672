//! One process and its files.

use anyhow::{Context, Result};

use crate::restart::more;
use crate::scene::{MOUNT, Scene, finish, program, run};

pub fn names_modes_and_data_behave_as_on_a_disk() -> Result<()> {
    let scene = Scene::open()?;
    let guest = scene.guest("alpha")?;
    run(&guest, program(["tour", MOUNT]))?;
    guest.power_off()
}

pub fn holes_and_extended_attributes_work_over_minor_version_2() -> Result<()> {
    let scene = Scene::open()?;
    let guest = scene.guest_with("alpha", &scene.mount().version("4.2"))?;
    run(&guest, program(["tour", MOUNT]))?;
    run(&guest, "mkdir /run/m/extras")?;
    run(&guest, program(["extras", "/run/m/extras"]))?;
    guest.power_off()
}

/// Total, free and available blocks of 1024 bytes.
fn space(text: &str) -> Result<[u64; 3]> {
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    numbers.try_into().ok().context("three numbers")
}

pub fn file_systems_tell_their_size() -> Result<()> {
    let scene = Scene::beneath(
        "mkdir $DATA && mount -t tmpfs -o size=400m tmpfs $DATA",
        &[crate::scene::OPEN_EXPORT],
    )?;
    let guest = scene.guest_with("alpha", &scene.mount().option("noac"))?;
    let ask = "stat -f -c '%b %f %a' /run/m | { read b f a; s=$(stat -f -c %S /run/m);
        echo $((b * s / 1024)) $((f * s / 1024)) $((a * s / 1024)); }";
    let [total, free, available] = space(&run(&guest, ask)?.text())?;
    assert_eq!(total, 400 * 1024);
    assert!(free <= total && available <= free, "{free} {available}");
    run(
        &guest,
        "head -c 50M /dev/urandom > /run/m/f && sync /run/m/f",
    )?;
    let [_, less, _] = space(&run(&guest, ask)?.text())?;
    assert!(less + 49 * 1024 < free, "{free} became {less}");
    run(&guest, "rm /run/m/f")?;
    crate::scene::eventually("the space of a removed file is free again", || {
        Ok(space(&run(&guest, ask)?.text())?[1] > less + 45 * 1024)
    })?;
    guest.power_off()
}

/// Two files at once, each compared with a model of its own, while the server is killed and restarted.
pub fn random_changes_agree_with_a_model_across_crashes() -> Result<()> {
    let mut scene = Scene::open()?;
    let guest = scene.guest_with("alpha", &scene.mount().version("4.2"))?;
    let seed = std::process::id().to_string();
    let jobs = [
        guest.start(program(["scribble", "/run/m/one", "7", "1500"]))?,
        guest.start(program(["scribble", "/run/m/two", &seed, "1500"]))?,
    ];
    more(&jobs[0], 200)?;
    scene.crash_server()?;
    more(&jobs[1], 200)?;
    scene.crash_server()?;
    for job in &jobs {
        finish(job)?;
    }
    guest.power_off()?;
    scene.check_store()
}
