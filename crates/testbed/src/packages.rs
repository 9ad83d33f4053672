//! Installation of Debian packages without their services: the testbed needs the programs of
//! `nfs-common`, `nfs-ganesha` and others, but no daemons on the machine's own ports.
//!
//! What must never enter: the list of needed packages; see `requirements`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::requirements::search_path;

/// Debian's switch for services of packages: maintainer scripts ask this program before they start
/// a service, and 101 forbids it (Debian's `invoke-rc.d`(8)).
const POLICY: &str = "/usr/sbin/policy-rc.d";
const POLICY_TEXT: &str =
    "#!/bin/sh\n# Written by meridian's testbed for one installation.\nexit 101\n";

/// Units that packages enable by themselves, each with a program that shows whether its package was installed
/// before; in that case the machine's owner decided.
const UNITS: [(&str, &str); 8] = [
    ("autofs.service", "/usr/sbin/automount"),
    ("nfs-ganesha.service", "/usr/bin/ganesha.nfsd"),
    ("nfs-ganesha-lock.service", "/usr/bin/ganesha.nfsd"),
    ("glusterd.service", "/usr/sbin/glusterd"),
    (
        "globus-gridftp-server.service",
        "/usr/sbin/globus-gridftp-server",
    ),
    ("rsync.service", "/usr/bin/rsync"),
    ("rpcbind.socket", "/sbin/rpcbind"),
    ("rpcbind.service", "/sbin/rpcbind"),
];

/// A lock file that every program of the testbed locks while it installs packages. Two installations would conflict over
/// apt's lists, and the first to end would lift the other's ban on services.
const LOCK: &str = "/run/meridian-testbed-packages.lock";

/// How long to wait for an apt-get of another user.
const PATIENCE: Duration = Duration::from_secs(300);

/// Installs the missing packages with apt-get.
pub(crate) fn install(missing: impl Fn() -> Vec<&'static str>) -> Result<()> {
    let packages = missing();
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    ensure!(
        Path::new("/usr/bin/apt-get").is_file(),
        "this is no Debian or Ubuntu machine; install what these packages bring: {list}"
    );
    ensure!(
        rustix::process::geteuid().is_root(),
        "run as root: apt-get install {list}"
    );
    let lock = fs::File::create(LOCK).with_context(|| format!("could not create {LOCK}"))?;
    lock.lock()
        .with_context(|| format!("could not lock {LOCK}"))?;
    // Another program may have installed them meanwhile.
    let packages = missing();
    if packages.is_empty() {
        return Ok(());
    }
    eprintln!("testbed: installing {}", packages.join(" "));
    let unwanted: Vec<&str> = UNITS
        .into_iter()
        .filter(|(_, program)| !Path::new(program).exists())
        .map(|(unit, _)| unit)
        .collect();
    let _policy = Policy::forbid()?;
    update_lists()?;
    let mut words = vec!["install", "-y", "--no-install-recommends"];
    words.extend(&packages);
    apt_get(&words)?;
    for unit in unwanted {
        // Fails without systemd or without such a unit; then there is nothing to disable.
        let _ = quiet(Command::new("systemctl").args(["disable", unit])).status();
    }
    Ok(())
}

/// apt-get fails at once if another process holds the lock around its lists.
fn update_lists() -> Result<()> {
    let begun = Instant::now();
    loop {
        match apt_get(&["update"]) {
            Err(error)
                if error.to_string().contains("Could not get lock")
                    && begun.elapsed() < PATIENCE =>
            {
                std::thread::sleep(Duration::from_secs(1));
            }
            updated => return updated,
        }
    }
}

/// Runs apt-get, after waiting for another installation.
fn apt_get(words: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    let patience = format!("DPkg::Lock::Timeout={}", PATIENCE.as_secs());
    command.args(["-o", &patience]).args(words);
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("PATH", search_path());
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("could not start apt-get")?;
    ensure!(
        output.status.success(),
        "apt-get {} failed:\n{}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

fn quiet(command: &mut Command) -> &mut Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
}

/// The ban on services while this value lives. An existing policy of the machine is not changed: its
/// owner decides.
struct Policy {
    is_ours: bool,
}

impl Policy {
    fn forbid() -> Result<Self> {
        if fs::read_to_string(POLICY).is_ok_and(|text| text == POLICY_TEXT) {
            // A killed installation left it behind; this one removes it.
            return Ok(Self { is_ours: true });
        }
        if Path::new(POLICY).exists() {
            return Ok(Self { is_ours: false });
        }
        let mut file = fs::File::options()
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(POLICY)
            .with_context(|| format!("could not create {POLICY}"))?;
        file.write_all(POLICY_TEXT.as_bytes())?;
        Ok(Self { is_ours: true })
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if self.is_ours {
            // If it stays, the next run recognises and removes it.
            let _ = fs::remove_file(POLICY);
        }
    }
}
