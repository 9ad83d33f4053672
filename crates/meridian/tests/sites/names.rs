//! One path for everybody: `/nfs/DOMAIN/NAME`, by DNS, autofs and referrals, on clients that have nothing but packages.
//!
//! What must never enter: what the program alone answers; `tests/names.rs` has that.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use testbed::{Ganesha, Guest, Place, Service, World};

use crate::hands::run;
use crate::scene::{eventually, far, meridian, on_data, peer_address, serve_with};
use crate::witness;

const SITES: [&str; 4] = ["paris", "oslo", "rome", "bern"];

/// What a zone calls the servers of a domain (RFC 6641, section 3).
const SERVICE: &str = "_nfs-domainroot._tcp.example.org.";

/// Sets a machine with the clients' package up in a guest.
const MACHINE: &str = include_str!("../../../../scripts/autofs-in-guest");

/// After this many seconds an unused mount goes: as the package has it, and so soon that a test can wait for it.
const USUAL_EXPIRY: u32 = 300;
const QUICK_EXPIRY: u32 = 4;

/// This many names that lead nowhere are tried in a row: more than are told of in a minute. Each starts the program anew, and takes a second.
const STRANGERS: usize = 40;

/// Two sites share a tree, with a witness at a third one, and publish a domain. The fourth one is for a server of others.
struct Scene {
    clients: Vec<Guest>,
    servers: Vec<Service>,
    _dns: Vec<Service>,
    world: World,
}

impl Scene {
    /// Does what docs/names.md says under "Publish a domain". `more` are further lines for the DNS servers.
    fn set_up(expiry: u32, more: &str) -> Result<Scene> {
        let world = World::new(&SITES, &far())?;
        let places = world.places();
        let servers = witness::set_up(&world, "[names]\ndomain = \"example.org\"\n")?;
        let zone = meridian(&places[0], &["domain", "records", "example.org"])?;
        ensure!(zone.matches(SERVICE).count() == 2, "{zone}");
        let looking = &places[..2];
        let clients = looking.iter().map(|place| place.guest("client"));
        let clients = clients.collect::<Result<Vec<_>>>()?;
        let dns = looking.iter().map(|place| publish(place, &zone, more));
        let dns = dns.collect::<Result<Vec<_>>>()?;
        for (place, guest) in looking.iter().zip(&clients) {
            equip(guest, place, expiry)?;
        }
        Ok(Scene {
            clients,
            servers,
            _dns: dns,
            world,
        })
    }

    /// Ends the clients and the servers that are left, in order.
    fn end(&mut self) -> Result<()> {
        for client in self.clients.drain(..) {
            client.power_off()?;
        }
        for server in &mut self.servers[1..] {
            let status = server.stop()?;
            ensure!(status.success(), "a server stopped with {status}");
        }
        Ok(())
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

/// A DNS server in a place, which has the zone, and further lines of its configuration.
fn publish(place: &Place, zone: &str, more: &str) -> Result<Service> {
    let mut lines = format!(
        "listen-address={}\nbind-interfaces\nno-resolv\nno-hosts\nlocal=/example.org/\n{more}",
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

/// Makes a guest a machine with the clients' package, which asks the DNS server of its site.
fn equip(guest: &Guest, place: &Place, expiry: u32) -> Result<()> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/client");
    let variables = format!(
        "PACKAGE={}\nPROGRAM={}\nDNS={}\nEXPIRY={expiry}\n",
        package.canonicalize()?.display(),
        env!("CARGO_BIN_EXE_meridian"),
        place.address()
    );
    run(guest, variables + MACHINE)?;
    Ok(())
}

/// Everybody types the same path, and is answered by the server of his own site, by another make of server at the same path, and by
/// the other site when his own has gone.
pub fn one_path_leads_everywhere_to_the_nearest_server() -> Result<()> {
    let mut scene = Scene::set_up(USUAL_EXPIRY, "")?;
    let other = &scene.world.places()[3];
    let software = other.site().folder().join("software");
    fs::create_dir(&software)?;
    fs::write(software.join("README"), "by another make of server\n")?;
    let _ganesha = Ganesha::start_at(other.site(), &software, other.nfs_address())?;
    let there = format!("{}:{}", other.address(), Ganesha::EXPORT);
    meridian(
        &scene.world.places()[0],
        &["junction", "add", "software", "--to", &there],
    )?;
    until_shown(&scene, "software")?;
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
    scene.end()
}

/// Waits until both members of the set say that the set has agreed on a junction. Clients are told within a second or two.
fn until_shown(scene: &Scene, name: &str) -> Result<()> {
    for place in &scene.world.places()[..2] {
        eventually("a junction is known", || {
            Ok(meridian(place, &["junction", "list"])?.contains(name))
        })?;
    }
    Ok(())
}

/// What is mounted goes when nobody uses it, and comes back from the server that answers then. Names that lead nowhere or in a
/// circle delay nobody.
pub fn a_domain_that_expired_comes_back_from_a_server_that_is_left() -> Result<()> {
    let nowhere = "10.200.99.99";
    let more = format!(
        "host-record=nowhere.example.org,{nowhere}\n\
         srv-host=_nfs-domainroot._tcp.gone.example.org,nowhere.example.org,2049,0,0\n"
    );
    let mut scene = Scene::set_up(QUICK_EXPIRY, &more)?;
    let tree = "/nfs/example.org/export";
    scene.type_in(0, &format!("echo from paris >{tree}/note"))?;
    scene.is_served_by(0, "/nfs/example.org", 0)?;

    // Two sets of other domains whose junctions lead to each other.
    let (first, other) = (&scene.world.places()[0], &scene.world.places()[3]);
    on_data(other).begin_set(peer_address(other))?;
    let _other = serve_with(other, "[names]\ndomain = \"other.example\"\n")?;
    let there = format!("{}:/.domainroot/other.example/back", other.address());
    let here = format!("{}:/.domainroot/example.org/forth", first.address());
    meridian(first, &["junction", "add", "forth", "--to", &there])?;
    meridian(other, &["junction", "add", "back", "--to", &here])?;
    until_shown(&scene, "forth")?;
    let circle = "until ls /nfs/example.org | grep -qx forth; do sleep 0.2; done
        cat /nfs/example.org/forth/x 2>&1 || true";
    let said = scene.type_in(0, circle)?;
    ensure!(said.contains("Too many levels of symbolic links"), "{said}");

    // A server that does not answer, and many names that nobody knows.
    scene.type_in(0, "! ls /nfs/gone.example.org/export")?;
    let strangers = format!(
        "for ((n = 0; n < {STRANGERS}; n++)); do [ ! -e /nfs/n$n.example.org/export ]; done"
    );
    scene.type_in(0, &strangers)?;
    let shown = scene.type_in(0, "ls /nfs")?;
    ensure!(["", "example.org\n"].contains(&shown.as_str()), "{shown:?}");

    // Nobody uses the domain any more; it goes. When somebody comes its server is lost, and the other one answers.
    eventually("the domain expires", || {
        let mounts = scene.type_in(0, "cat /proc/mounts")?;
        Ok(!mounts.contains(" /nfs/example.org nfs4 "))
    })?;
    scene.servers[0].kill()?;
    let seen = scene.type_in(0, &format!("cat {tree}/note"))?;
    ensure!(seen == "from paris\n", "{seen:?}");
    scene.is_served_by(0, "/nfs/example.org", 1)?;
    scene.end()
}
