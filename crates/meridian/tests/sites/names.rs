//! One path for everybody: `/nfs/DOMAIN/NAME`, by DNS, autofs and referrals, on clients that have nothing but packages.
//!
//! What must never enter: what the program alone answers; `tests/names.rs` has that.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use testbed::{Ganesha, Guest, Place, Service, World};

use crate::hands::run;
use crate::scene::{far, meridian};
use crate::witness;

const SITES: [&str; 4] = ["paris", "oslo", "rome", "bern"];

/// What a zone calls the servers of a domain (RFC 6641, section 3).
const SERVICE: &str = "_nfs-domainroot._tcp.example.org.";

/// The root of a machine with the clients' package: the host's, with some files over it that live in memory.
const MACHINE: &str = "\
set -e
modprobe overlay; modprobe autofs4
root=/run/root; mkdir -p $root /run/over
mount -t tmpfs none /run/over; mkdir /run/over/upper /run/over/work
mount -t overlay none -o lowerdir=/,upperdir=/run/over/upper,workdir=/run/over/work $root
for each in proc sys dev; do mount --rbind /$each $root/$each; done
for each in run tmp; do mount -t tmpfs none $root/$each; done
install -D -m 755 $PACKAGE/meridian-map $root/usr/libexec/meridian-map
install -D -m 644 $PACKAGE/nfs.autofs $root/etc/auto.master.d/nfs.autofs
echo '+dir:/etc/auto.master.d' >$root/etc/auto.master
touch $root/usr/bin/meridian; mount --bind $PROGRAM $root/usr/bin/meridian
rm -f $root/etc/resolv.conf; echo \"nameserver $DNS\" >$root/etc/resolv.conf
# Whoever belongs to autofs' own group of processes is shown no mount.
setsid chroot $root automount --foreground --verbose >/run/automount.log 2>&1 &
until grep -q ' /run/root/nfs4 autofs ' /proc/mounts; do sleep 0.1; done";

/// Two sites share a tree, with a witness at a third one, and publish a domain; the fourth one has a server of another make.
struct Scene {
    clients: Vec<Guest>,
    servers: Vec<Service>,
    _software: Ganesha,
    _dns: Vec<Service>,
    world: World,
}

impl Scene {
    /// Does what docs/names.md says under "Publish a domain" and "Junctions".
    fn set_up() -> Result<Scene> {
        let world = World::new(&SITES, &far())?;
        let places = world.places();
        let servers = witness::set_up(&world, "[names]\ndomain = \"example.org\"\n")?;
        let other = &places[3];
        let software = other.site().folder().join("software");
        fs::create_dir(&software)?;
        fs::write(software.join("README"), "by another make of server\n")?;
        let ganesha = Ganesha::start_at(other.site(), &software, other.nfs_address())?;
        let there = format!("{}:{}", other.address(), Ganesha::EXPORT);
        meridian(&places[0], &["junction", "add", "software", "--to", &there])?;
        let zone = meridian(&places[0], &["domain", "records", "example.org"])?;
        ensure!(zone.matches(SERVICE).count() == 2, "{zone}");
        let looking = &places[..2];
        let dns = looking.iter().map(|place| publish(place, &zone));
        let dns = dns.collect::<Result<Vec<_>>>()?;
        let clients = looking.iter().map(machine).collect::<Result<Vec<_>>>()?;
        Ok(Scene {
            clients,
            servers,
            _software: ganesha,
            _dns: dns,
            world,
        })
    }

    /// Runs a command on the machine of a client, in its shell's words.
    fn type_in(&self, site: usize, command: &str) -> Result<String> {
        let done = run(
            &self.clients[site],
            format!("exec chroot /run/root bash -ec '{command}'"),
        );
        let done = done.or_else(|error| {
            let log = self.clients[site].run("cat /run/automount.log")?;
            Err(error.context(format!("what autofs says: {}", log.text())))
        });
        Ok(done.with_context(|| format!("at {}", SITES[site]))?.text())
    }

    /// Fails unless a client uses the server of a site for a path.
    fn is_served_by(&self, client: usize, path: &str, server: usize) -> Result<()> {
        let mounts = self.type_in(client, "cat /proc/mounts")?;
        let wanted = format!("addr={}", self.world.places()[server].address());
        let mount = mounts
            .lines()
            .find(|line| line.split(' ').nth(1) == Some(path));
        let options = mount.with_context(|| format!("{path} is no mount among\n{mounts}"))?;
        let is_there = options.split([',', ' ']).any(|option| option == wanted);
        ensure!(is_there, "no {wanted} in {options}");
        Ok(())
    }
}

/// A DNS server in a place, which has the zone.
fn publish(place: &Place, zone: &str) -> Result<Service> {
    let mut lines = format!(
        "listen-address={}\nbind-interfaces\nno-resolv\nno-hosts\nlocal=/example.org/\n",
        place.address()
    );
    for record in zone.lines() {
        let words: Vec<&str> = record.split(' ').collect();
        let line = match words[..] {
            [name, _, "IN", "SRV", priority, weight, port, host] => format!(
                "srv-host={},{},{port},{priority},{weight}",
                name.trim_end_matches('.'),
                host.trim_end_matches('.')
            ),
            [name, _, "IN", "A", address] => {
                format!("host-record={},{address}", name.trim_end_matches('.'))
            }
            _ => anyhow::bail!("not a record: {record}"),
        };
        lines.push_str(&line);
        lines.push('\n');
    }
    let file = place.site().folder().join("dnsmasq.conf");
    fs::write(&file, lines)?;
    let mut command = place.command("/usr/sbin/dnsmasq");
    command
        .arg("--no-daemon")
        .arg(format!("--conf-file={}", file.display()));
    let mut service = Service::start(place.site(), "dnsmasq", command)?;
    service.wait_for_port(SocketAddr::new(place.address(), 53))?;
    Ok(service)
}

/// A machine with the clients' package, which asks the DNS server of its site.
fn machine(place: &Place) -> Result<Guest> {
    let guest = place.guest("client")?;
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/client");
    let variables = format!(
        "PACKAGE={}\nPROGRAM={}\nDNS={}\n",
        package.canonicalize()?.display(),
        env!("CARGO_BIN_EXE_meridian"),
        place.address()
    );
    run(&guest, variables + MACHINE)?;
    Ok(guest)
}

/// Everybody types the same path, and is answered by the server of his own site, by another make of server at the same path, and by
/// the other site when his own has gone.
pub fn one_path_leads_everywhere_to_the_nearest_server() -> Result<()> {
    let mut scene = Scene::set_up()?;
    let tree = "/nfs/example.org/export";
    scene.type_in(0, &format!("echo from paris >{tree}/note"))?;
    let seen = scene.type_in(1, &format!("cat {tree}/note"))?;
    ensure!(seen == "from paris\n", "{seen:?}");
    for site in 0..2 {
        scene.is_served_by(site, "/nfs/example.org", site)?;
        let names = scene.type_in(
            site,
            "ls /nfs/example.org; cat /nfs/example.org/software/README",
        )?;
        ensure!(
            names == "export\nsoftware\nby another make of server\n",
            "{names:?}"
        );
        scene.is_served_by(site, "/nfs/example.org/software", 3)?;
    }
    // What is no name of a domain is refused, and nothing in it is carried out.
    for key in ["a;touch x", ".git", "..", "a b", "nobody.example.org"] {
        scene.type_in(0, &format!("cd /tmp; ! ls \"/nfs/{key}/export\""))?;
    }
    let strange = "cd /tmp; ! ls \"/nfs/\"$(printf \"a\\\\nb\"); ls";
    ensure!(scene.type_in(0, strange)?.is_empty());

    // The server of a site says goodbye, and names the other one.
    meridian(&scene.world.places()[0], &["drain"])?;
    scene.type_in(0, &format!("echo and from afar >>{tree}/note"))?;
    let seen = scene.type_in(1, &format!("cat {tree}/note"))?;
    ensure!(seen == "from paris\nand from afar\n", "{seen:?}");
    scene.is_served_by(0, tree, 1)?;
    for client in scene.clients.drain(..) {
        client.power_off()?;
    }
    for server in &mut scene.servers[1..] {
        let status = server.stop()?;
        ensure!(status.success(), "a server stopped with {status}");
    }
    Ok(())
}
