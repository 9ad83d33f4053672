//! A site: one network namespace for servers and guests, separate from the machine's own
//! network and from every other site.
//!
//! Since nothing is shared, every site can use the same addresses and the standard NFS port, and
//! several runs on one machine do not interfere.
//!
//! What must never enter: what runs in a site; see `service` and `guest`.

use std::fs::{self, DirBuilder, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Once};

use anyhow::{Context, Result, bail, ensure};
use rustix::fd::AsFd;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::reaper::{self, Reaper};
use crate::requirements::search_path;

/// The default port of NFS servers (RFC 8881, section 2.9.3).
pub const NFS_PORT: u16 = 2049;

/// The address every guest of a site can reach, on the loopback device of the site.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);

/// A network namespace and a folder for logs. Both are removed when the last clone is dropped or the
/// process ends for any reason.
#[derive(Clone, Debug)]
pub struct Site {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    namespace: String,
    folder: PathBuf,
    keeps_folder: AtomicBool,
    taps: AtomicU8,
    /// The second byte of the addresses of its cables.
    cables: AtomicU8,
    /// Held for its Drop, which removes the namespace. None if another process made it.
    _reaper: Option<Reaper>,
}

/// A cable between the site and one guest. One guest per tap device: a second one would steal the
/// first one's frames.
#[derive(Clone, Debug)]
pub(crate) struct Tap {
    /// The device in the site's namespace.
    pub(crate) device: String,
    /// The site's end, and the guest's way to every other address.
    pub(crate) gateway: Ipv4Addr,
    /// The guest's end, in the same /24.
    pub(crate) guest: Ipv4Addr,
}

impl Site {
    /// Makes a namespace with its loopback device up and [`Site::address`] on it, after removing
    /// the remains of dead runs. Needs root.
    pub fn new() -> Result<Self> {
        let (name, folder) = new_name_and_folder()?;
        let reaper = Reaper::watch(&name)?;
        let site = Self::with(name, folder, Some(reaper));
        ip(&["netns", "add", site.namespace()])?;
        site.configure(&["link", "set", "lo", "up"])?;
        site.configure(&["addr", "add", &format!("{ADDRESS}/32"), "dev", "lo"])?;
        Ok(site)
    }

    /// A site that another process made and will remove, with this process's own folder.
    pub(crate) fn of_another_process(namespace: &str) -> Result<Self> {
        let (_, folder) = new_name_and_folder()?;
        Ok(Self::with(namespace.to_owned(), folder, None))
    }

    fn with(namespace: String, folder: PathBuf, reaper: Option<Reaper>) -> Self {
        let inner = Inner {
            _reaper: reaper,
            namespace,
            folder,
            keeps_folder: AtomicBool::new(false),
            taps: AtomicU8::new(0),
            cables: AtomicU8::new(ADDRESS.octets()[1]),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The address on which servers of this site listen.
    pub fn address(&self) -> IpAddr {
        IpAddr::V4(ADDRESS)
    }

    /// [`Site::address`] with the standard NFS port.
    pub fn nfs_address(&self) -> SocketAddr {
        SocketAddr::new(self.address(), NFS_PORT)
    }

    /// The name of the namespace, as `ip netns` knows it.
    pub fn namespace(&self) -> &str {
        &self.inner.namespace
    }

    /// The folder for logs and configuration of this site. It is removed with the site, except
    /// while a panic unwinds, after [`Site::keep_folder`], or if the environment contains
    /// `TESTBED_KEEP`.
    pub fn folder(&self) -> &Path {
        &self.inner.folder
    }

    /// Keeps the folder for later inspection; a sweep removes it a day later.
    pub fn keep_folder(&self) {
        self.inner.keeps_folder.store(true, Ordering::Relaxed);
    }

    /// A command that will run inside the site. `ip netns exec` replaces itself by the program, so
    /// the child's pid is the program's own.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", self.namespace()])
            .arg(program);
        command.env("PATH", search_path());
        command
    }

    /// Calls `work` on a thread inside the site. Its sockets belong to the site for
    /// ever, even when they are returned, so a native client can talk to the site's servers.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let path = Path::new("/run/netns").join(self.namespace());
        std::thread::scope(|scope| {
            let visitor = scope.spawn(|| {
                let namespace = File::open(&path)
                    .with_context(|| format!("could not open {}", path.display()))?;
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .with_context(|| format!("could not enter {}; run as root", path.display()))?;
                Ok(work())
            });
            match visitor.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Adds a cable for one more guest.
    pub(crate) fn add_tap(&self) -> Result<Tap> {
        let subnet = self.add_tap_device()?;
        let network = self.inner.cables.load(Ordering::Relaxed);
        let tap = Tap {
            device: format!("tap{subnet}"),
            gateway: Ipv4Addr::new(10, network, subnet, 1),
            guest: Ipv4Addr::new(10, network, subnet, 2),
        };
        // Without this the guest drops frames above its MTU, and large reads stall.
        let mut offloads = self.command("ethtool");
        offloads.args(["-K", &tap.device, "tso", "off", "gso", "off", "tx", "off"]);
        checked(offloads)?;
        let address = format!("{}/24", tap.gateway);
        self.configure(&["addr", "add", &address, "dev", &tap.device])?;
        self.configure(&["link", "set", &tap.device, "up"])?;
        Ok(tap)
    }

    /// Makes the first free tap device, and returns its number.
    fn add_tap_device(&self) -> Result<u8> {
        loop {
            let taps = &self.inner.taps;
            let taken = taps.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                taken.checked_add(1)
            });
            let taken = taken
                .ok()
                .context("a site has space for 255 guests; make another site")?;
            let device = format!("tap{}", taken + 1);
            match self.configure(&["tuntap", "add", &device, "mode", "tap"]) {
                Ok(()) => return Ok(taken + 1),
                // Another process has a guest in this site too.
                Err(_) if self.configure(&["link", "show", &device]).is_ok() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives guests that boot from now on addresses in `10.NETWORK.0.0/16`, so that they differ from
    /// those of other sites.
    pub(crate) fn number_guests(&self, network: u8) {
        self.inner.cables.store(network, Ordering::Relaxed);
    }

    /// Runs `ip` with these arguments on the network of the site.
    pub(crate) fn configure(&self, arguments: &[&str]) -> Result<()> {
        ip(&[&["-n", self.namespace()], arguments].concat())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let keeps = *self.keeps_folder.get_mut()
            || std::thread::panicking()
            || std::env::var_os("TESTBED_KEEP").is_some();
        if keeps {
            eprintln!("testbed: logs are kept in {}", self.folder.display());
        } else {
            // The sweep of a later run removes the rest.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// A name that no other site has, and an empty folder of that name.
fn new_name_and_folder() -> Result<(String, PathBuf)> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    static SWEEP: Once = Once::new();

    let base = work_base()?;
    SWEEP.call_once(|| reaper::sweep(&base));
    let name = reaper::site_name(COUNTER.fetch_add(1, Ordering::Relaxed))?;
    let folder = base.join(&name);
    fs::create_dir(&folder).with_context(|| format!("could not create {}", folder.display()))?;
    Ok((name, folder))
}

/// The folder of all work folders. Others may write to the temporary folder too, so a folder of
/// another user is refused.
pub(crate) fn work_base() -> Result<PathBuf> {
    let base = std::env::temp_dir().join("meridian-testbed");
    // The mode lets unprivileged users of a guest reach their scripts.
    let created = DirBuilder::new().mode(0o755).create(&base);
    if let Err(error) = created
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(error).with_context(|| format!("could not create {}", base.display()));
    }
    let metadata = fs::symlink_metadata(&base)?;
    ensure!(
        metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw(),
        "{} belongs to somebody else; remove it, or set TMPDIR to a folder of your own",
        base.display()
    );
    Ok(base)
}

/// Runs `ip` with these arguments.
fn ip(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(arguments);
    checked(command)
}

/// Runs a command to its end; if it fails, its output is part of the error.
fn checked(mut command: Command) -> Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not start {command:?}; `testbed requirements` may help"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{command:?} failed ({}): {}",
            output.status,
            complaint.trim()
        );
    }
    Ok(())
}
