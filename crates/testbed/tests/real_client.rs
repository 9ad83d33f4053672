//! The Linux NFS client against NFS-Ganesha: the promises of the testbed, tested with a server that is
//! known to work, so that a failure elsewhere points to the server under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::{Ganesha, Guest, Mount, Output, Requirements, Script, Signal, Site};

/// Long enough for anything that must come at all.
const SOON: Duration = Duration::from_secs(60);

/// A Ganesha with a guest that has mounted it at `/run/m`.
struct Scene {
    guest: Guest,
    ganesha: Ganesha,
    exported: PathBuf,
    site: Site,
}

impl Scene {
    /// Nothing if this machine cannot run guests.
    fn set(test: &str) -> Result<Option<Self>> {
        if !Requirements::guest().with_ganesha().admit(test)? {
            return Ok(None);
        }
        let site = Site::new()?;
        let exported = site.folder().join("exported");
        std::fs::create_dir(&exported)?;
        let ganesha = Ganesha::start(&site, &exported)?;
        let guest = Guest::boot(&site, "alpha")?;
        guest.mount(&Mount::of(ganesha.address(), Ganesha::EXPORT), "/run/m")?;
        Ok(Some(Self {
            guest,
            ganesha,
            exported,
            site,
        }))
    }
}

/// Runs a script that must succeed.
fn run(guest: &Guest, script: impl Into<Script>) -> Result<Output> {
    guest.run(script)?.success()
}

/// Waits until a condition of the outside world holds.
fn eventually(what: &str, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while !condition()? {
        ensure!(started.elapsed() < SOON, "this never came: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[test]
fn the_real_client_works_on_files() -> Result<()> {
    let Some(scene) = Scene::set("the real client works on files")? else {
        return Ok(());
    };
    let guest = &scene.guest;
    let mounts = run(guest, "grep ' /run/m ' /proc/mounts")?.text();
    assert!(
        mounts.contains("vers=4.1") && mounts.contains(" nfs4 "),
        "{mounts}"
    );

    let work = "mkdir a && echo one > a/f && ln a/f a/g && mv a/f h";
    run(guest, Script::new(work).directory("/run/m"))?;
    let exported = &scene.exported;
    assert_eq!(std::fs::read_to_string(exported.join("h"))?, "one\n");
    assert_eq!(std::fs::read_to_string(exported.join("a/g"))?, "one\n");
    std::fs::write(exported.join("from-below"), "two\n")?;
    assert_eq!(run(guest, "cat /run/m/from-below")?.text(), "two\n");

    let failed = guest.run("cat /run/m/absent; exit 7")?;
    assert_eq!((failed.code, failed.text().as_str()), (7, ""));
    assert!(
        failed.error_text().contains("No such file"),
        "{}",
        failed.error_text()
    );
    scene.guest.power_off()
}

#[test]
fn scripts_run_as_other_users_and_programs_run_natively() -> Result<()> {
    let Some(scene) = Scene::set("scripts run as other users")? else {
        return Ok(());
    };
    let guest = &scene.guest;
    run(
        guest,
        "mkdir -m 0700 /run/m/home && chown 1000:1001 /run/m/home",
    )?;
    let script = Script::new("touch f && stat -c '%u %g' f && id -G")
        .user(1000, 1001)
        .groups(&[2000, 2001])
        .directory("/run/m/home");
    assert_eq!(run(guest, &script)?.text(), "1000 1001\n1001 2000 2001\n");
    let stranger = Script::new("ls /run/m/home").user(1002, 1002);
    assert_ne!(guest.run(stranger)?.code, 0);

    let program = env!("CARGO_BIN_EXE_testbed");
    let output = guest.run(Script::program(program, ["no such command"]))?;
    assert_eq!(output.code, 2);
    assert!(
        output.error_text().contains("'no such command'"),
        "{}",
        output.error_text()
    );

    run(
        guest,
        Script::new("echo out > $S/new")
            .environment("S", Guest::SHARED)
            .user(1000, 1000),
    )?;
    assert_eq!(
        std::fs::read_to_string(guest.shared().join("new"))?,
        "out\n"
    );
    Ok(())
}

/// Holds a lock on `file` of one mount and reports whether another mount can get it.
fn lock_conflicts(holder: &Guest, held: &str, other: &Guest, wanted: &str) -> Result<bool> {
    let job = holder.start(format!(
        "exec flock {held} sh -c 'echo held; exec sleep 1000'"
    ))?;
    eventually("the first lock", || Ok(job.stdout_so_far()? == b"held\n"))?;
    let refused = other.run(format!("exec flock -n -E 99 {wanted} true"))?;
    job.signal(Signal::KILL)?;
    let ended = job.wait(SOON)?.context("a killed script ends")?;
    assert_eq!(ended.code, 137);
    let patient = format!("exec flock -w {} {wanted} true", SOON.as_secs());
    run(other, patient).context("the lock is free after its holder was killed")?;
    Ok(refused.code == 99)
}

#[test]
fn locks_conflict_between_mounts_and_between_guests() -> Result<()> {
    let Some(scene) = Scene::set("locks conflict between clients")? else {
        return Ok(());
    };
    let alpha = &scene.guest;
    let beta = Guest::boot(&scene.site, "beta")?;
    let mount = Mount::of(scene.ganesha.address(), Ganesha::EXPORT).option("nosharecache");
    alpha.mount(&mount, "/run/again")?;
    alpha.mount(&mount.clone().version("4.2"), "/run/newer")?;
    beta.mount(&mount, "/run/m")?;
    run(alpha, "touch /run/m/f")?;

    assert!(lock_conflicts(alpha, "/run/m/f", alpha, "/run/again/f")?);
    assert!(lock_conflicts(alpha, "/run/m/f", alpha, "/run/newer/f")?);
    assert!(lock_conflicts(alpha, "/run/m/f", &beta, "/run/m/f")?);
    beta.power_off()?;
    scene.guest.power_off()
}

#[test]
fn work_goes_on_after_a_server_restart_and_after_a_pulled_cable() -> Result<()> {
    let Some(mut scene) = Scene::set("work survives a server restart")? else {
        return Ok(());
    };
    let write = "for i in $(seq 300); do echo $i > /run/m/f.$i && echo $i; done";
    let job = scene.guest.start(write)?;
    let begun = || Ok(job.stdout_so_far()?.len() > 20);
    eventually("the first files", begun)?;
    scene.ganesha.service().kill()?;
    assert!(job.is_running()?);
    scene.ganesha.service().restart()?;
    let output = job
        .wait(SOON)?
        .context("the work ends once the server is back")?
        .success()?;
    assert_eq!(output.text().lines().count(), 300);
    assert_eq!(std::fs::read_dir(&scene.exported)?.count(), 300);

    scene.guest.unplug()?;
    let job = scene
        .guest
        .start("echo late > /run/m/late && sync /run/m/late")?;
    assert_eq!(
        run(&scene.guest, "echo the channel needs no cable")?.code,
        0
    );
    assert!(job.is_running()?);
    scene.guest.plug()?;
    job.wait(SOON)?
        .context("the write ends once the cable is back")?
        .success()?;
    assert_eq!(
        std::fs::read_to_string(scene.exported.join("late"))?,
        "late\n"
    );
    scene.guest.power_off()
}

#[test]
fn a_script_that_hangs_is_killed_and_the_guest_goes_on() -> Result<()> {
    let Some(mut scene) = Scene::set("a hanging script is killed")? else {
        return Ok(());
    };
    scene.ganesha.service().kill()?;
    let hanging = Script::new("echo begun; ls /run/m/absent").within(Duration::from_secs(2));
    let error = scene.guest.run(hanging).unwrap_err();
    assert!(format!("{error:#}").contains("begun"), "{error:#}");
    assert_eq!(run(&scene.guest, "echo alive")?.text(), "alive\n");
    scene.ganesha.service().restart()?;
    scene.guest.power_off()?;

    // The failure was intended, so its logs are not needed.
    let folder = scene.site.folder().to_owned();
    drop((scene.ganesha, scene.site));
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// The namespaces that the process with this pid has made.
fn namespaces_of(pid: u32) -> Result<Vec<String>> {
    let Ok(entries) = std::fs::read_dir("/run/netns") else {
        return Ok(Vec::new());
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: Vec<String> = names.collect::<Result<_>>()?;
    let prefix = format!("meridian-testbed-{pid}-");
    Ok(names
        .into_iter()
        .filter(|name| name.starts_with(&prefix))
        .collect())
}

/// Whether a process with `word` on its command line is alive.
fn lives(word: &Path) -> Result<bool> {
    let word = word.to_str().context("the folder has a plain name")?;
    let entries = std::fs::read_dir("/proc")?;
    Ok(entries.flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    }))
}

#[test]
fn a_killed_run_leaves_nothing_behind() -> Result<()> {
    let test = "a killed run leaves nothing behind";
    if !Requirements::guest().with_ganesha().admit(test)? {
        return Ok(());
    }
    let folder = std::env::temp_dir().join(format!("meridian-killed-run-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let script = folder.join("script");
    std::fs::write(&script, "touch begun; sleep 1000")?;
    let mut victim = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["guest", "--ganesha"])
        .arg(&folder)
        .arg("--script")
        .arg(&script)
        .stdout(Stdio::null())
        .spawn()?;
    eventually("the guest's work", || Ok(folder.join("begun").exists()))?;
    let namespaces = namespaces_of(victim.id())?;
    assert_eq!(namespaces.len(), 1);
    let logs = std::env::temp_dir()
        .join("meridian-testbed")
        .join(&namespaces[0]);
    assert!(lives(&logs)?);

    victim.kill()?;
    victim.wait()?;
    eventually("the end of its namespaces", || {
        Ok(namespaces_of(victim.id())?.is_empty())
    })?;
    assert!(!lives(&logs)?, "a process of the dead run lives on");
    std::fs::remove_dir_all(logs)?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
