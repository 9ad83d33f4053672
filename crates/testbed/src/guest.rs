//! The real Linux NFS client: a User Mode Linux kernel that runs as an ordinary process.
//!
//! Debian's package `user-mode-linux` has a kernel and, as modules, all of NFSv4. Measured on two
//! cores: about two seconds from start to the first command, 20 to 50 ms for an empty script, 60 ms
//! for each program that a script executes. Programs that fork often are several times slower than on
//! the host, so use one native program in place of a shell loop.
//!
//! What must never enter: anything about a particular server, and judgements about speed.

use std::fs::{self, File};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::channel::{Channel, RunId};
use crate::mount::Mount;
use crate::registers;
use crate::script::{Output, Script, quoted};
use crate::service::last_lines;
use crate::site::{Site, Tap};

/// Process 1 of every guest.
const INIT: &str = include_str!("../guest/init.sh");

/// How long a guest may take to boot. It bounds a hang; about two seconds are usual.
const BOOT_PATIENCE: Duration = Duration::from_secs(90);

/// The last message of a kernel that powers off.
const POWERED_OFF: &str = "reboot: Power down";

/// How long a guest may take to unmount and power off.
const OFF_PATIENCE: Duration = Duration::from_secs(30);

/// The interval between checks of a state that must come soon.
const POLL: Duration = Duration::from_millis(50);

/// The settings of a guest.
#[derive(Clone, Debug)]
pub struct GuestConfig {
    /// Memory in MiB. Only what the guest touches is taken from the host.
    pub memory_mib: u32,
    /// The guest is killed after this time, so that a hard mount of a dead server cannot hold a run
    /// for ever.
    pub lifetime: Duration,
}

impl Default for GuestConfig {
    fn default() -> Self {
        Self {
            memory_mib: 768,
            lifetime: Duration::from_secs(900),
        }
    }
}

/// A running guest. All methods may be called from several threads at once. Dropping it is a power
/// failure, which its server sees as a silent client; [`Guest::power_off`] is the
/// orderly end.
#[derive(Debug)]
pub struct Guest {
    site: Site,
    name: String,
    tap: Tap,
    kernel: Child,
    channel: Arc<Channel>,
    shared: PathBuf,
    console: PathBuf,
}

impl Guest {
    /// Boots a guest in a site and waits until it takes commands. `name` becomes its host name, and
    /// the Linux client builds its NFSv4 owner identifier from that. Two running guests with the same
    /// name would take each other's state away. A guest with the name of a
    /// crashed guest is, for a server, that client after a reboot.
    pub fn boot(site: &Site, name: &str) -> Result<Self> {
        Self::boot_with(site, name, &GuestConfig::default())
    }

    /// [`Guest::boot`] with another memory size or lifetime.
    pub fn boot_with(site: &Site, name: &str, config: &GuestConfig) -> Result<Self> {
        ensure!(
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'),
            "'{name}' is no host name; use letters, digits and hyphens"
        );
        let tap = site.add_tap()?;
        let folder = site.folder().join(format!("{name}-{}", tap.device));
        let files = GuestFiles::create(folder)?;
        let mut kernel = kernel_command(site, name, &tap, config, &files)?
            .spawn()
            .context("could not start `timeout`, of Debian's package coreutils")?;
        let verbs = kernel
            .stdin
            .take()
            .expect("the command pipes standard input");
        let answers = kernel
            .stdout
            .take()
            .expect("the command pipes standard output");
        let guest = Self {
            site: site.clone(),
            name: name.to_owned(),
            tap,
            kernel,
            channel: Arc::new(Channel::open(&files.channel, verbs, answers)),
            shared: files.shared,
            console: files.console,
        };
        guest
            .channel
            .wait_ready(BOOT_PATIENCE)
            .map_err(|error| guest.explained(error))?;
        Ok(guest)
    }

    /// Runs a script to its end. A script that fails is an [`Output`] with another code than zero,
    /// not an error; [`Output::success`] makes it one.
    ///
    /// Output of a background process of the script belongs to the script's output only
    /// if it was written before the script ended.
    ///
    /// # Errors
    /// Fails, after killing the script, when it takes longer than [`Script::within`] allows; and
    /// when the guest dies. The end of the guest's console is part of the message.
    pub fn run(&self, script: impl Into<Script>) -> Result<Output> {
        let script = script.into();
        let patience = script.patience();
        let job = self.start(script)?;
        if let Some(output) = job.wait(patience).map_err(|error| self.explained(error))? {
            return Ok(output);
        }
        job.signal(Signal::KILL)?;
        let output = job.output(-1)?;
        Err(self.explained(anyhow::anyhow!(
            "the guest's script was killed after {patience:?}\n-- script --\n{}\n-- output --\n{}\n\
             -- errors --\n{}",
            output.script,
            output.text(),
            output.error_text()
        )))
    }

    /// Starts a script in the background. [`Script::within`] does not limit it.
    pub fn start(&self, script: impl Into<Script>) -> Result<Job> {
        let script = script.into();
        let run = self
            .channel
            .start(&script)
            .map_err(|error| self.explained(error))?;
        Ok(Job {
            channel: Arc::clone(&self.channel),
            run,
            script: script.body().to_owned(),
        })
    }

    /// Mounts an export at a path below `/run`, which it creates. It must be below `/run` because the rest of
    /// the guest is the host's own disk, read-only.
    pub fn mount(&self, mount: &Mount, at: &str) -> Result<()> {
        self.try_mount(mount, at)?.success()?;
        Ok(())
    }

    /// The result of `mount` itself, for mounts that should fail.
    pub fn try_mount(&self, mount: &Mount, at: &str) -> Result<Output> {
        ensure!(at.starts_with("/run/"), "mount below /run, not at {at}");
        let words: Vec<String> = mount.arguments().iter().map(|word| quoted(word)).collect();
        let at = quoted(at);
        self.run(format!("mkdir -p {at} && mount {} {at}", words.join(" ")))
    }

    /// Unmounts what [`Guest::mount`] mounted.
    pub fn unmount(&self, at: &str) -> Result<()> {
        self.run(format!("umount {}", quoted(at)))?.success()?;
        Ok(())
    }

    /// Unplugs the network cable: from now on no frame passes in either direction, and neither side is
    /// told.
    ///
    /// The frames are dropped inside the guest. If the tap device were taken down instead, the
    /// guest's network driver would stay in an error state.
    pub fn unplug(&self) -> Result<()> {
        self.run(
            "set -e
            tc qdisc add dev vec0 clsact
            tc filter add dev vec0 ingress matchall action drop
            tc filter add dev vec0 egress matchall action drop",
        )?
        .success()?;
        Ok(())
    }

    /// Plugs the network cable in again.
    pub fn plug(&self) -> Result<()> {
        self.run("tc qdisc del dev vec0 clsact")?.success()?;
        Ok(())
    }

    /// The guest's host name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address from which servers see this guest.
    pub fn address(&self) -> IpAddr {
        IpAddr::V4(self.tap.guest)
    }

    /// A folder of the host that the guest sees as [`Guest::SHARED`] and can write to. Give every
    /// file a new name: the guest does not notice when the host changes one it has read.
    pub fn shared(&self) -> &Path {
        &self.shared
    }

    /// The path of [`Guest::shared`] in the guest.
    pub const SHARED: &str = "/run/channel/shared";

    /// Everything the guest's kernel has printed so far.
    pub fn console(&self) -> String {
        last_lines(&self.console, usize::MAX)
    }

    /// Kills all running processes, unmounts NFS, and powers off.
    ///
    /// # Errors
    /// Fails, after killing the guest, when that takes longer than 30 seconds, as it does when a
    /// mounted server is gone; and when the kernel ends in another way than by powering off.
    pub fn power_off(mut self) -> Result<()> {
        self.channel
            .power_off()
            .map_err(|error| self.explained(error))?;
        match self.ended_within(OFF_PATIENCE)? {
            // The process of the kernel sometimes aborts when it only has to end.
            Some(status) if status.success() || self.console().contains(POWERED_OFF) => Ok(()),
            Some(status) => {
                Err(self.explained(anyhow::anyhow!("the guest's kernel ended with {status}")))
            }
            None => Err(self.explained(anyhow::anyhow!(
                "the guest did not power off within {OFF_PATIENCE:?} and was killed; \
                 is the server of one of its mounts gone?"
            ))),
        }
    }

    /// A power failure: the guest is gone at once and its server is not told.
    pub fn crash(self) {
        drop(self);
    }

    /// The User Mode Linux kernel, from the pid that it has noted. It leads its own process group,
    /// which includes its stand-ins for guest processes.
    fn kernel_pid(&self) -> Option<Pid> {
        let note = self
            .shared
            .parent()?
            .parent()?
            .join("uml")
            .join(&self.name)
            .join("pid");
        Pid::from_raw(fs::read_to_string(note).ok()?.trim().parse().ok()?)
    }

    fn ended_within(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.kernel.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() > deadline {
                return Ok(None);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Adds the end of the console to an error, and keeps the logs.
    fn explained(&self, error: anyhow::Error) -> anyhow::Error {
        self.site.keep_folder();
        let console = last_lines(&self.console, 20);
        error.context(format!(
            "guest {} failed; its console, kept in {}, ends with:\n{console}",
            self.name,
            self.console.display()
        ))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // While `timeout` lives, its child is alive or its zombie, so the number belongs to no other process.
        if let Ok(None) = self.kernel.try_wait()
            && let Some(kernel) = self.kernel_pid()
        {
            let _ = kill_process_group(kernel, Signal::KILL);
        }
        // The group contains `timeout`. After an orderly end it is already empty, and there is
        // nothing to report.
        let _ = kill_process_group(Pid::from_child(&self.kernel), Signal::KILL);
        let _ = self.kernel.wait();
    }
}

/// A script that runs in the background. Dropping the handle lets it run on.
#[derive(Debug)]
pub struct Job {
    channel: Arc<Channel>,
    run: RunId,
    script: String,
}

impl Job {
    /// Waits at most this long for the end; nothing if the script still runs then.
    pub fn wait(&self, patience: Duration) -> Result<Option<Output>> {
        match self.channel.wait(self.run, patience)? {
            Some(code) => Ok(Some(self.output(code)?)),
            None => Ok(None),
        }
    }

    /// Whether the script still runs.
    pub fn is_running(&self) -> Result<bool> {
        Ok(self.channel.wait(self.run, Duration::ZERO)?.is_none())
    }

    /// Sends a signal to every process of the script.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.channel.signal(self.run, signal.as_raw())
    }

    /// Standard output so far. Every write of the script is here when it has returned.
    pub fn stdout_so_far(&self) -> Result<Vec<u8>> {
        self.channel.stdout(self.run, 0)
    }

    /// Copies what the script writes, while it runs, and returns its exit code.
    pub fn follow(&self, stdout: &mut dyn Write, stderr: &mut dyn Write) -> Result<i32> {
        let (mut out, mut err) = (0, 0);
        loop {
            // Asked before the copying, so that the last round copies the last bytes.
            let code = self.channel.wait(self.run, POLL)?;
            out += copied(&self.channel.stdout(self.run, out)?, stdout)?;
            err += copied(&self.channel.stderr(self.run, err)?, stderr)?;
            if let Some(code) = code {
                return Ok(code);
            }
        }
    }

    fn output(&self, code: i32) -> Result<Output> {
        Ok(Output {
            script: self.script.clone(),
            code,
            stdout: self.channel.stdout(self.run, 0)?,
            stderr: self.channel.stderr(self.run, 0)?,
        })
    }
}

/// Copies bytes and returns their number.
fn copied(bytes: &[u8], to: &mut dyn Write) -> Result<u64> {
    to.write_all(bytes)?;
    to.flush()?;
    Ok(bytes.len() as u64)
}

/// The folder of one guest on the host.
struct GuestFiles {
    folder: PathBuf,
    init: PathBuf,
    channel: PathBuf,
    shared: PathBuf,
    console: PathBuf,
}

impl GuestFiles {
    fn create(folder: PathBuf) -> Result<Self> {
        // The path appears on a kernel command line and in a list of mount options.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
        let Some(true) = folder.to_str().map(|path| path.bytes().all(plain)) else {
            bail!(
                "set TMPDIR to a folder without spaces and commas; {} will not do",
                folder.display()
            )
        };
        let files = Self {
            init: folder.join("init.sh"),
            channel: folder.join("channel"),
            shared: folder.join("channel/shared"),
            console: folder.join("console.log"),
            folder,
        };
        fs::create_dir_all(&files.shared)
            .with_context(|| format!("could not create {}", files.shared.display()))?;
        // Unprivileged users of the guest read the first and write to the second.
        fs::set_permissions(&files.channel, fs::Permissions::from_mode(0o755))?;
        fs::set_permissions(&files.shared, fs::Permissions::from_mode(0o1777))?;
        fs::write(&files.init, INIT)?;
        fs::set_permissions(&files.init, fs::Permissions::from_mode(0o755))?;
        // The guest covers this folder by a tmpfs with its own modules, so it must exist.
        fs::create_dir_all("/lib/modules").context("could not create /lib/modules")?;
        Ok(files)
    }
}

/// The kernel's command line. Words the kernel does not know become the environment of `init`.
/// Standard input and output are the first serial line, which carries the channel's verbs, and
/// standard error is the console.
fn kernel_command(
    site: &Site,
    name: &str,
    tap: &Tap,
    config: &GuestConfig,
    files: &GuestFiles,
) -> Result<Command> {
    let mut command = Command::new("timeout");
    command
        .arg("--kill-after=5")
        .arg(config.lifetime.as_secs().max(1).to_string())
        .args(["ip", "netns", "exec", site.namespace(), "linux.uml"])
        .arg(format!("mem={}M", config.memory_mib))
        .args(["rootfstype=hostfs", "root=/dev/root", "ro", "quiet"])
        .arg(format!(
            "vec0:transport=tap,ifname={},gro=1,depth=128",
            tap.device
        ))
        .args(["con=null", "con0=null,fd:2", "ssl=null", "ssl0=fd:0,fd:1"])
        .arg(format!("uml_dir={}/uml", files.folder.display()))
        .arg(format!("umid={name}"))
        .arg(format!("init={}", files.init.display()))
        .arg(format!("TESTBED_NAME={name}"))
        .arg(format!("TESTBED_CHANNEL={}", files.channel.display()))
        .arg(format!("TESTBED_ADDRESS={}", tap.guest))
        .arg(format!("TESTBED_GATEWAY={}", tap.gateway))
        .env("LD_PRELOAD", registers::library(&files.folder)?)
        .env("TMPDIR", memory_folder(&files.folder, config.memory_mib))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&files.console)?)
        .process_group(0);
    Ok(command)
}

/// The folder for the guest's memory, a file that is deleted at once. Containers often mount
/// `/dev/shm` with little space or without permission to execute, and the kernel needs both.
fn memory_folder(fallback: &Path, memory_mib: u32) -> PathBuf {
    let shm = Path::new("/dev/shm");
    let suits = rustix::fs::statvfs(shm).is_ok_and(|statistics| {
        let free_mib = statistics.f_bavail * statistics.f_frsize / (1024 * 1024);
        let executable = !statistics
            .f_flag
            .contains(rustix::fs::StatVfsMountFlags::NOEXEC);
        executable && free_mib >= u64::from(memory_mib)
    });
    if suits {
        shm.to_owned()
    } else {
        fallback.to_owned()
    }
}
