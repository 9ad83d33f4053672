//! The real Linux NFS client, and real NFS servers, as instruments for tests and demonstrations.
//!
//! - A [`Site`] is a network namespace of its own, in which servers and guests meet.
//! - A [`Service`] is any server program started inside a site, which may be killed and restarted.
//! - A [`Guest`] is a User Mode Linux kernel, an ordinary process, that mounts what a service
//!   exports and runs shell scripts ([`Script`]) or native programs against it.
//! - [`Ganesha`] is NFS-Ganesha as a [`Service`]: the peer to compare with.
//! - [`Requirements`] says what this machine lacks for all that, and [`Requirements::admit`] is how
//!   a test begins.
//!
//! The guest's root is the host's file system seen read-only through hostfs, so it finds the same
//! programs under the same paths, freshly built test binaries included.
//!
//! What must never enter: knowledge of the server under test. It is started by its command line
//! and judged by what the Linux client sees of it.
//!
//! ```no_run
//! use testbed::{Guest, Mount, Requirements, Service, Site};
//!
//! # fn main() -> anyhow::Result<()> {
//! if !Requirements::guest().admit("files survive a restart")? {
//!     return Ok(());
//! }
//! let site = Site::new()?;
//! let listen = site.nfs_address();
//! let mut command = site.command("target/debug/meridian");
//! command.args(["serve", "--data", "/tmp/d", "--listen", &listen.to_string()]);
//! let mut server = Service::start(&site, "meridian", command)?;
//! server.wait_for_nfs(listen)?;
//!
//! let guest = Guest::boot(&site, "alpha")?;
//! guest.mount(&Mount::of(listen, "/export"), "/run/m")?;
//! guest.run("echo kept > /run/m/file && sync")?.success()?;
//! server.kill()?;
//! server.restart()?;
//! server.wait_for_nfs(listen)?;
//! assert_eq!(guest.run("cat /run/m/file")?.success()?.text(), "kept\n");
//! guest.power_off()
//! # }
//! ```

mod channel;
mod ganesha;
mod guest;
pub mod measure;
mod mount;
mod packages;
mod probe;
mod reaper;
mod requirements;
mod script;
mod service;
mod site;
mod wan;
mod world;

pub use ganesha::Ganesha;
pub use guest::{Guest, GuestConfig, Job};
pub use mount::Mount;
pub use requirements::{Lack, Remedy, Requirements, host_mounts_nfs4};
pub use rustix::process::Signal;
pub use script::{Output, Script, quoted};
pub use service::Service;
pub use site::{NFS_PORT, Site};
pub use wan::{Lateness, Link, LinkReport, LinkSettings, Traffic, Wan, WanControl};
pub use world::{Place, World};
