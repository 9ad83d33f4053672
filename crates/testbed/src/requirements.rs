//! What this machine has and lacks for the testbed, with advice what to do next.
//!
//! What must never enter: changes to the machine; see `packages`.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::packages;

/// What a test or a demonstration is going to use.
///
/// Every check looks at the machine again, so that it is also right after an installation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    site: bool,
    guest: bool,
    ganesha: bool,
    gluster: bool,
    gridftp: bool,
    rsync: bool,
    wan: bool,
    host_client: bool,
    programs: bool,
    names: bool,
    disks: bool,
}

/// One thing the machine lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// What is missing, as the beginning of a sentence: "linux.uml is not installed".
    pub what: String,
    /// The remedy.
    pub remedy: Remedy,
}

/// The remedy for a [`Lack`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// This Debian package, which [`Requirements::install_missing`] can install.
    Package(&'static str),
    /// Something that only an administrator can do to the machine.
    Person(&'static str),
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.remedy {
            Remedy::Package(package) => write!(f, "{}: apt-get install {package}", self.what),
            Remedy::Person(advice) => write!(f, "{}: {advice}", self.what),
        }
    }
}

impl Requirements {
    /// For a [`crate::Site`] and services in it.
    pub fn site() -> Self {
        Self {
            site: true,
            ..Self::default()
        }
    }

    /// For a [`crate::Guest`] and the site it needs.
    pub fn guest() -> Self {
        Self {
            guest: true,
            ..Self::site()
        }
    }

    /// For mounts with the host's own kernel, which [`host_mounts_nfs4`] checks.
    pub fn host_client() -> Self {
        Self {
            host_client: true,
            ..Self::default()
        }
    }

    /// For a [`crate::Disk`].
    pub fn disks() -> Self {
        Self {
            disks: true,
            ..Self::default()
        }
    }

    /// Also for [`crate::Ganesha`].
    pub fn with_ganesha(self) -> Self {
        Self {
            ganesha: true,
            ..self
        }
    }

    /// Also for [`crate::Gluster`].
    pub fn with_gluster(self) -> Self {
        Self {
            gluster: true,
            ..self
        }
    }

    /// Also for [`crate::GridFtp`].
    pub fn with_gridftp(self) -> Self {
        Self {
            gridftp: true,
            ..self
        }
    }

    /// Also for [`crate::Rsync`].
    pub fn with_rsync(self) -> Self {
        Self {
            rsync: true,
            ..self
        }
    }

    /// Also for a [`crate::Wan`] between sites.
    pub fn with_wan(self) -> Self {
        Self { wan: true, ..self }
    }

    /// For programs that people run on shared files, in guests: git, SQLite, rsync and a C compiler.
    pub fn with_programs(self) -> Self {
        Self {
            programs: true,
            ..self
        }
    }

    /// For a DNS server, and for autofs in guests.
    pub fn with_names(self) -> Self {
        Self {
            names: true,
            ..self
        }
    }

    /// Everything that is missing, the lacks of the machine itself first.
    pub fn lacks(self) -> Vec<Lack> {
        let mut lacks = self.machine_lacks();
        lacks.extend(self.programs().into_iter().filter_map(|(file, package)| {
            let missing = !is_installed(file);
            missing.then(|| Lack {
                what: format!("{file} is not installed"),
                remedy: Remedy::Package(package),
            })
        }));
        lacks
    }

    /// Installs the missing packages with apt-get, as root. Services among them are neither started
    /// nor left enabled.
    ///
    /// # Errors
    /// Fails when the machine lacks something that no package provides, and when apt-get fails.
    pub fn install_missing(self) -> Result<()> {
        packages::install(|| {
            let lacks = self.lacks().into_iter();
            let packages = lacks.filter_map(|lack| match lack.remedy {
                Remedy::Package(package) => Some(package),
                Remedy::Person(_) => None,
            });
            packages.collect()
        })?;
        let left = self.lacks();
        if !left.is_empty() {
            bail!("this machine still lacks something:\n{}", listed(&left));
        }
        Ok(())
    }

    /// The start of a test: installs missing packages and returns whether the test can run.
    ///
    /// False only if the machine itself cannot run it, without root, network namespaces
    /// or tap devices. That is printed on standard error, past the capture of `cargo test`, so that
    /// it is not mistaken for a pass. With `TESTBED_REQUIRED` in the environment it is an error.
    ///
    /// # Errors
    /// Fails when the machine could run it but a package cannot be installed.
    pub fn admit(self, test: &str) -> Result<bool> {
        let lacks = self.machine_lacks();
        if lacks.is_empty() {
            self.install_missing()?;
            return Ok(true);
        }
        let reason = listed(&lacks);
        if std::env::var_os("TESTBED_REQUIRED").is_some() {
            bail!("{test} cannot run on this machine:\n{reason}");
        }
        writeln!(io::stderr(), "\n*** SKIPPED, NOT TESTED: {test}\n{reason}")?;
        Ok(false)
    }

    /// Lacks that no package can mend.
    fn machine_lacks(self) -> Vec<Lack> {
        let mut lacks = Vec::new();
        let mut lack = |what: &str, advice| {
            lacks.push(Lack {
                what: what.to_owned(),
                remedy: Remedy::Person(advice),
            });
        };
        let is_root = rustix::process::geteuid().is_root();
        if (self.site || self.host_client || self.disks) && !is_root {
            lack("this process is not root", "run it with sudo");
        }
        if self.site && is_root && !makes_namespaces() {
            lack(
                "this process may not make network namespaces",
                "in a container, start that with --privileged, or with the capabilities \
                 SYS_ADMIN, NET_ADMIN and SYS_PTRACE",
            );
        }
        if (self.guest || self.wan) && is_root && !opens("/dev/net/tun") {
            lack(
                "/dev/net/tun cannot be opened",
                "run `modprobe tun`, or start the container with --device /dev/net/tun",
            );
        }
        if self.gluster && is_root && !opens("/dev/fuse") {
            lack(
                "/dev/fuse cannot be opened",
                "run `modprobe fuse`, or start the container with --device /dev/fuse",
            );
        }
        if self.disks && is_root && !opens("/dev/loop-control") {
            lack(
                "/dev/loop-control cannot be opened",
                "run `modprobe loop`, or start the container with --privileged",
            );
        }
        if self.disks && is_root && !["ext4", "btrfs"].iter().all(|name| knows(name, name)) {
            lack(
                "the kernel does not know ext4 or btrfs",
                "load the modules of these file systems",
            );
        }
        if self.guest && !cfg!(target_arch = "x86_64") {
            lack(
                "User Mode Linux exists for x86-64 only",
                "use a machine of that kind",
            );
        }
        lacks
    }

    /// The programs and files that will be used, each with its Debian package.
    fn programs(self) -> Vec<(&'static str, &'static str)> {
        let parts: [(bool, &[(&str, &str)]); 10] = [
            (
                self.disks,
                &[("mkfs.ext4", "e2fsprogs"), ("mkfs.btrfs", "btrfs-progs")],
            ),
            (self.site, &[("ip", "iproute2")]),
            (
                self.guest,
                &[
                    ("bash", "bash"),
                    ("timeout", "coreutils"),
                    ("setpriv", "util-linux"),
                    ("ethtool", "ethtool"),
                    ("modprobe", "kmod"),
                    ("linux.uml", "user-mode-linux"),
                    ("mount.nfs4", "nfs-common"),
                ],
            ),
            (self.host_client, &[("mount.nfs4", "nfs-common")]),
            (
                self.programs,
                &[
                    ("git", "git"),
                    ("sqlite3", "sqlite3"),
                    ("rsync", "rsync"),
                    ("cc", "gcc"),
                ],
            ),
            (
                self.ganesha,
                &[
                    ("ganesha.nfsd", "nfs-ganesha"),
                    (
                        "/usr/lib/x86_64-linux-gnu/ganesha/libfsalvfs.so",
                        "nfs-ganesha-vfs",
                    ),
                ],
            ),
            (
                self.gluster,
                &[
                    ("glusterd", "glusterfs-server"),
                    ("gluster", "glusterfs-cli"),
                    ("glusterfs", "glusterfs-client"),
                ],
            ),
            (
                self.gridftp,
                &[
                    ("globus-gridftp-server", "globus-gridftp-server-progs"),
                    ("globus-url-copy", "globus-gass-copy-progs"),
                ],
            ),
            (self.rsync, &[("rsync", "rsync")]),
            (
                self.names,
                &[("dnsmasq", "dnsmasq-base"), ("automount", "autofs")],
            ),
        ];
        let wanted = parts.into_iter().filter(|(wanted, _)| *wanted);
        wanted
            .flat_map(|(_, programs)| programs.iter().copied())
            .collect()
    }
}

/// Whether the host's own kernel can mount NFSv4. Loads the kernel's module if there is one,
/// which needs root. [`Requirements::host_client`] covers the mount program.
pub fn host_mounts_nfs4() -> bool {
    knows("nfs4", "nfsv4")
}

/// Whether the host's own kernel can mount this, after loading its module.
fn knows(file_system: &str, module: &str) -> bool {
    let load = || succeeds(Command::new("modprobe").args(["-q", module]));
    is_known(file_system) || (load() && is_known(file_system))
}

/// Whether the host's own kernel says that it can mount this.
fn is_known(file_system: &str) -> bool {
    fs::read_to_string("/proc/filesystems").is_ok_and(|list| {
        list.lines()
            .any(|line| line.split_whitespace().last() == Some(file_system))
    })
}

/// One lack per line.
fn listed(lacks: &[Lack]) -> String {
    let lines: Vec<String> = lacks.iter().map(|lack| format!("  - {lack}")).collect();
    lines.join("\n")
}

/// The folders for programs: `PATH`, and those that Debian leaves out of the `PATH`
/// of a user who became root by `su`.
pub(crate) fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin");
    path
}

/// Whether a program is on the search path, or a file at its absolute path.
fn is_installed(file: &str) -> bool {
    // Joining an absolute path yields that path for any folder.
    std::env::split_paths(&search_path()).any(|folder: PathBuf| folder.join(file).is_file())
}

fn makes_namespaces() -> bool {
    succeeds(Command::new("unshare").args(["--net", "--mount", "true"]))
}

fn opens(device: &str) -> bool {
    File::options().read(true).write(true).open(device).is_ok()
}

/// Runs a command only for its exit code.
fn succeeds(command: &mut Command) -> bool {
    command
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_and_files_by_path() {
        assert!(is_installed("sh"));
        assert!(is_installed("/proc/self/stat"));
        assert!(!is_installed("no-such-program"));
        assert!(!is_installed("/no/such/file"));
    }

    #[test]
    fn a_lack_says_what_to_do() {
        let lack = Lack {
            what: "linux.uml is not installed".into(),
            remedy: Remedy::Package("user-mode-linux"),
        };
        assert_eq!(
            lack.to_string(),
            "linux.uml is not installed: apt-get install user-mode-linux"
        );
    }
}
