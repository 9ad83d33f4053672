//! The real Linux NFS client, and real NFS servers, as instruments for tests and demonstrations.
//!
//! - A [`Site`] is a network namespace of its own, in which servers and guests meet.
//! - A [`Service`] is any server program started inside a site, which may be killed and restarted.
//! - A [`Guest`] is a User Mode Linux kernel, an ordinary process, that mounts what a service
//!   exports and runs shell scripts ([`Script`]) or native programs against it.
//! - [`Meridian`] is the server under test on a data directory: it is started, gets requests, and joins a set.
//! - [`Ganesha`] is NFS-Ganesha as a [`Service`]: the peer to compare with. [`GridFtp`], [`Gluster`] and [`Rsync`]
//!   are programs that people use today between sites.
//! - A [`Wan`] joins sites by a network. Each direction has its own delay, jitter, loss, bandwidth and cuts, and its
//!   traffic is counted. A [`World`] is several sites with a WAN between them.
//! - A [`Disk`] is a real file system whose medium can be damaged.
//! - [`measure`] measures such a network.
//! - [`Requirements`] lists what this machine lacks for all this, and with [`Requirements::admit`]
//!   a test begins.
//!
//! The guest's root is the host's file system seen read-only through hostfs, so it finds the same
//! programs under the same paths, freshly built test binaries included.
//!
//! What must never enter: knowledge of the inside of the server under test. One module (`meridian`) knows its command
//! line; the server is judged by what clients see.
//!
//! ```no_run
//! use testbed::{Guest, Meridian, Mount, Requirements, Site};
//!
//! # fn main() -> anyhow::Result<()> {
//! if !Requirements::guest().admit("files survive a restart")? {
//!     return Ok(());
//! }
//! let site = Site::new()?;
//! let listen = site.nfs_address();
//! let meridian = Meridian::new(&site, "target/debug/meridian", "/tmp/d");
//! let mut server = meridian.serve("meridian", listen, "")?;
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
//!
//! Three sites far apart, each with a server and a client of its own:
//!
//! ```no_run
//! use std::time::Duration;
//! use testbed::{LinkSettings, Meridian, Mount, Requirements, World};
//!
//! # fn main() -> anyhow::Result<()> {
//! if !Requirements::guest().with_wan().admit("sites go on alone")? {
//!     return Ok(());
//! }
//! let far = LinkSettings::round_trip(Duration::from_millis(120)).bandwidth(1_000_000_000);
//! let world = World::new(&["paris", "oslo", "rome"], &far)?;
//! let servers = world.everywhere(|place| {
//!     let data = place.site().folder().join("data");
//!     let meridian = Meridian::new(place.site(), "target/debug/meridian", data);
//!     meridian.serve("meridian", place.nfs_address(), "")
//! })?;
//! let guests = world.everywhere(|place| {
//!     let guest = place.guest("alpha")?;
//!     guest.mount(&Mount::of(place.nfs_address(), "/export"), "/run/m")?;
//!     Ok(guest)
//! })?;
//!
//! let before = world.wan().traffic()?;
//! guests[0].run("echo kept > /run/m/file && sync")?.success()?;
//! let crossed = world.wan().traffic()? - before;
//! println!("{} bytes crossed the WAN", crossed.bytes);
//! world.wan().partition(&["rome"])?;
//! guests[2].run("cat /run/m/file")?.success()?;
//! world.wan().heal_all()?;
//! # drop(servers);
//! # Ok(())
//! # }
//! ```

mod channel;
mod disk;
mod ganesha;
mod gluster;
mod gridftp;
mod guest;
pub mod measure;
mod meridian;
mod mount;
mod packages;
mod private;
mod probe;
mod reaper;
mod registers;
mod requirements;
mod rsync;
mod script;
mod service;
mod site;
mod wan;
mod world;

pub use disk::{Disk, DiskFormat};
pub use ganesha::Ganesha;
pub use gluster::{Gluster, GlusterMount};
pub use gridftp::{GridFtp, GridFtpOptions};
pub use guest::{Guest, GuestConfig, Job};
pub use meridian::{Meridian, Role};
pub use mount::Mount;
pub use requirements::{Lack, Remedy, Requirements, host_mounts_nfs4};
pub use rsync::Rsync;
pub use rustix::process::Signal;
pub use script::{Output, Script, quoted};
pub use service::Service;
pub use site::{NFS_PORT, Site};
pub use wan::{Lateness, Link, LinkReport, LinkSettings, Traffic, Wan, WanControl};
pub use world::{Place, World};
