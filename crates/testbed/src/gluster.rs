//! GlusterFS with one copy of a volume in every place, and its own client: a peer to compare with.
//!
//! Everything is as Debian ships it: a management daemon in each place starts the servers of the bricks and the
//! self-heal daemon, and this machine's kernel mounts the client through FUSE. All of them are processes in
//! the place's network. The mount belongs to the client's mount name space and ends with it; other processes reach it
//! through `/proc`.
//!
//! What must never enter: use by the server under test, and settings of the volume that its manual does not give as
//! defaults.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::private::{PrivateFiles, plain};
use crate::service::Service;
use crate::world::{Place, World};

/// The one volume.
const VOLUME: &str = "tree";

/// The port of the management daemon (IANA).
const PORT: u16 = 24007;

/// How long daemons may take to find each other, and a client to find all bricks.
const PATIENCE: Duration = Duration::from_secs(60);

/// The interval between checks of a state that must come soon.
const POLL: Duration = Duration::from_millis(100);

/// A volume with a replica in every place of a world.
#[derive(Debug)]
pub struct Gluster {
    members: Vec<Member>,
}

/// A place with its management daemon.
#[derive(Debug)]
struct Member {
    place: Place,
    files: PrivateFiles,
    brick: PathBuf,
    daemon: Service,
}

/// The volume mounted in a place.
#[derive(Debug)]
pub struct GlusterMount {
    client: Service,
    path: PathBuf,
    /// The number of replicas of the volume.
    bricks: usize,
}

impl Gluster {
    /// Makes and starts a volume with a brick for each of these places of a world, on new folders in `disk`, which must support extended
    /// attributes.
    pub fn start(world: &World, places: &[Place], disk: &Path) -> Result<Self> {
        let members = places.iter().map(|place| Member::start(world, place, disk));
        let members: Vec<Member> = members.collect::<Result<_>>()?;
        let gluster = Self { members };
        for member in &gluster.members[1..] {
            let address = member.place.address().to_string();
            gluster.first()?.manage(&["peer", "probe", &address])?;
        }
        gluster.wait_for_peers()?;
        let count = gluster.members.len().to_string();
        let bricks = gluster.members.iter().map(|member| {
            let address = member.place.address();
            Ok(format!("{address}:{}", plain(&member.brick)?))
        });
        let bricks: Vec<String> = bricks.collect::<Result<_>>()?;
        let mut create = vec!["volume", "create", VOLUME, "replica", &count];
        create.extend(bricks.iter().map(String::as_str));
        // Bricks on the root file system are refused otherwise.
        create.push("force");
        gluster.first()?.manage(&create)?;
        gluster.first()?.manage(&["volume", "start", VOLUME])?;
        Ok(gluster)
    }

    /// Mounts the volume in one of its places, through the server there, and waits until the client reaches all bricks.
    pub fn mount(&self, place: &Place) -> Result<GlusterMount> {
        let mut members = self.members.iter();
        let member = members.find(|member| member.place.name() == place.name());
        let member =
            member.with_context(|| format!("the volume has no brick at {}", place.name()))?;
        GlusterMount::mount(member, self.members.len())
    }

    /// Stops the volume and the daemons, after all mounts are gone.
    ///
    /// # Errors
    /// Fails when a daemon does not stop, and when it leaves processes behind.
    pub fn stop(mut self) -> Result<()> {
        self.first()?.manage(&["volume", "stop", VOLUME])?;
        for member in &mut self.members {
            member.daemon.stop()?;
        }
        for member in &self.members {
            member.wait_until_alone()?;
        }
        Ok(())
    }

    fn first(&self) -> Result<&Member> {
        self.members.first().context("a volume needs a place")
    }

    /// A daemon that was found only just now refuses to take part in a volume.
    fn wait_for_peers(&self) -> Result<()> {
        for member in &self.members {
            let others = self.members.len() - 1;
            let mut said = String::new();
            wait_until(|| {
                said = member.manage(&["peer", "status"])?;
                Ok(said.matches("Peer in Cluster (Connected)").count() == others)
            })
            .with_context(|| format!("GlusterFS does not find its peers: {said}"))?;
        }
        Ok(())
    }
}

impl Member {
    fn start(world: &World, place: &Place, disk: &Path) -> Result<Self> {
        let folder = place.site().folder().join("gluster");
        let brick = disk.join(format!("gluster-{}", place.name()));
        fs::create_dir(&brick).with_context(|| format!("could not create {}", brick.display()))?;
        let files = PrivateFiles::hosts(world, place)?
            .folder(folder.join("state"), "/var/lib/glusterd")?
            .folder(folder.join("log"), "/var/log/glusterfs")?
            .folder(folder.join("run"), "/run")?;
        let mut command = files.command(place, "glusterd");
        command.arg("--no-daemon");
        let mut daemon = Service::start(place.site(), "glusterd", command)?;
        daemon.wait_for_port(place.at(PORT))?;
        Ok(Self {
            place: place.clone(),
            files,
            brick: brick.canonicalize()?,
            daemon,
        })
    }

    /// Runs an administration command and returns its output.
    fn manage(&self, words: &[&str]) -> Result<String> {
        let mut command = self.files.command(&self.place, "gluster");
        let output = command
            .arg("--mode=script")
            .args(words)
            .output()
            .context("could not start gluster; `testbed requirements` may help")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success(),
            "gluster {} failed at {}: {}{}",
            words.join(" "),
            self.place.name(),
            text.trim(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(text)
    }

    /// Waits until no process of GlusterFS is left in the place. Other processes may run there.
    fn wait_until_alone(&self) -> Result<()> {
        let mut left = String::new();
        wait_until(|| {
            left = self.processes()?.join(", ");
            Ok(left.is_empty())
        })
        .with_context(|| format!("GlusterFS has left processes behind: {left}"))
    }

    /// The names of processes of GlusterFS in the place.
    fn processes(&self) -> Result<Vec<String>> {
        let namespace = self.place.site().namespace();
        let mut command = std::process::Command::new("ip");
        let output = command.args(["netns", "pids", namespace]).output()?;
        let pids = String::from_utf8(output.stdout)?;
        let names = pids
            .lines()
            .filter_map(|pid| fs::read_to_string(format!("/proc/{}/comm", pid.trim())).ok());
        Ok(names.filter(|name| name.starts_with("gluster")).collect())
    }
}

impl GlusterMount {
    fn mount(member: &Member, bricks: usize) -> Result<Self> {
        let (place, folder) = (&member.place, member.place.site().folder());
        let point = folder.join("gluster/mount");
        fs::create_dir_all(&point)?;
        let mut command = member.files.command(place, "glusterfs");
        command.args(["--no-daemon", "--volfile-server=localhost"]);
        command
            .arg(format!("--volfile-id={VOLUME}"))
            .arg("--log-file=/var/log/glusterfs/mount.log")
            .arg(&point);
        let mut client = Service::start(place.site(), "glusterfs", command)?;
        let pid = client.pid().context("the client was not started")?;
        let root = PathBuf::from(format!("/proc/{}/root", pid.as_raw_nonzero()));
        let path = root.join(plain(&point)?.trim_start_matches('/'));
        wait_until(|| {
            if let Some(status) = client.ended()? {
                bail!("the client of GlusterFS has ended ({status})");
            }
            Ok(is_mounted(&path) && reaches(&path, bricks))
        })
        .with_context(|| {
            place.site().keep_folder();
            format!("GlusterFS was not mounted at {}", place.name())
        })?;
        Ok(Self {
            client,
            path,
            bricks,
        })
    }

    /// Whether the client is connected to every replica of the volume.
    #[must_use]
    pub fn reaches_all(&self) -> bool {
        reaches(&self.path, self.bricks)
    }

    /// The root of the volume, as a path of this process.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The client process, to be killed.
    pub fn service(&mut self) -> &mut Service {
        &mut self.client
    }
}

/// Whether another file system is mounted there.
fn is_mounted(path: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev());
    let parent = path.parent().and_then(|parent| device(parent).ok());
    device(path).is_ok_and(|here| parent.is_some_and(|parent| parent != here))
}

fn reaches(mount: &Path, bricks: usize) -> bool {
    (0..bricks).all(|brick| is_connected(mount, brick))
}

/// Whether a client says that it reaches a brick. GlusterFS shows its state as files below `.meta`.
fn is_connected(mount: &Path, brick: usize) -> bool {
    let file = format!(".meta/graphs/active/{VOLUME}-client-{brick}/private");
    let state = fs::read_to_string(mount.join(file));
    state.is_ok_and(|state| state.lines().any(|line| line.trim() == "connected = 1"))
}

/// Waits until a condition holds.
fn wait_until(mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !holds()? {
        if Instant::now() > deadline {
            bail!("waited for {PATIENCE:?} in vain");
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
