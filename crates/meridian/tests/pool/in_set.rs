//! A member of a set that keeps the contents of its copy in a pool.

#[path = "read_there.rs"]
mod read_there;

use crate::fixture::site::HASTY;

use super::*;

/// A set of three, all running. The second member keeps its contents on three data servers.
struct Set {
    sites: [Site; 3],
    servers: Vec<Running>,
    machines: [Site; 3],
    data_servers: Vec<Running>,
}

impl Set {
    fn new() -> Set {
        Set::configured(HASTY)
    }

    /// The same with this configuration at the members.
    fn configured(text: &str) -> Set {
        let sites = [(); 3].map(|()| Site::configured(text));
        succeed(&sites[0].set(&["create"]));
        let mut servers = vec![sites[0].place.start()];
        block_on(write(&servers[0], "before", &striped_bytes(100)));
        for (at, site) in (0..).zip(&sites).skip(1) {
            site.join(&sites[0]);
            if at == 1 {
                make_pool(site);
            }
            servers.push(site.place.start());
        }
        let member = &sites[1];
        let machines = [2, 3, 4].map(|_| joined(member));
        let data_servers = machines.iter().map(start).collect();
        for number in [2, 3, 4] {
            until("new files lie there", || {
                data_server(member, number).new_files
            });
        }
        let set = Set {
            sites,
            servers,
            machines,
            data_servers,
        };
        set.until_ready();
        set
    }

    /// Waits until all members take part, and the second one has all that it is to have.
    fn until_ready(&self) {
        for site in &self.sites {
            until("it takes part", || {
                let view = site.view();
                let active = view.members.iter().filter(|member| member.active);
                active.count() == 3
            });
            until("its copy is whole", || {
                let replication = site.place.status().exports.remove(0).replication;
                replication.is_some_and(|replication| replication.ready)
            });
        }
    }

    /// The same, and until the second one's data servers serve.
    fn until_serving(&self) {
        self.until_ready();
        for number in [2, 3, 4] {
            until("it serves", || data_server(self.member(), number).serves);
        }
    }

    fn member(&self) -> &Site {
        &self.sites[1]
    }

    /// A file has these bytes at all members.
    fn same(&self, name: &str, bytes: &[u8]) {
        for (at, server) in self.servers.iter().enumerate() {
            let found = block_on(read(server, name));
            assert!(found == bytes, "{name} differs at member {}", at + 1);
        }
    }

    fn stripes(&self) -> BTreeSet<u8> {
        let machines = self.machines.iter();
        machines
            .flat_map(|machine| stripes_in(&shelf(machine)))
            .collect()
    }
}

/// A port for the data servers of a member, which has one for the members of its set.
fn make_pool(member: &Site) {
    let at = format!("127.0.0.1:{}", Site::new().port);
    refuse(
        &pool(member, &["create", "--address", &address(member)]),
        &["for the members of its set", "another one"],
    );
    succeed(&pool(
        member,
        &["create", "--address", &at, "--stripe-unit", "64 KiB"],
    ));
    refuse(
        &pool(member, &["invite", "--metadata-server"]),
        &["data servers only", "`meridian set invite`"],
    );
}

fn all_of(first: u8) -> BTreeSet<u8> {
    (first..first + STRIPES).collect()
}

#[test]
fn a_member_keeps_its_contents_striped_and_they_are_the_same_at_all_members() {
    let mut set = Set::new();
    // What is written at each member lies on the data servers, and nowhere else at theirs.
    for (at, server) in set.servers.iter().enumerate() {
        let first = 1 + 10 * at as u8;
        block_on(write(server, &format!("at {at}"), &striped_bytes(first)));
    }
    for at in 0..3 {
        let first = 1 + 10 * at;
        set.same(&format!("at {at}"), &striped_bytes(first));
        until("all of it lies on the data servers", || {
            all_of(first).is_subset(&set.stripes())
        });
        let trees = set.member().place.data().join("trees");
        assert!(stripes_in(&trees).is_disjoint(&all_of(first)));
    }
    set.same("before", &striped_bytes(100));

    // A data server is killed; the others of the set go on, and the member has everything when it is back.
    set.data_servers.remove(0).kill();
    block_on(write(&set.servers[0], "meanwhile", &striped_bytes(50)));
    block_on(write(
        &set.servers[2],
        "at 0",
        &striped_bytes(60)[..3 * UNIT],
    ));
    for server in [&set.servers[0], &set.servers[2]] {
        assert_eq!(block_on(read(server, "meanwhile")), striped_bytes(50));
    }
    let back = start(&set.machines[0]);
    set.data_servers.insert(0, back);
    until("it serves again", || data_server(set.member(), 2).serves);
    set.same("meanwhile", &striped_bytes(50));

    // The member is killed, with what it has not stable yet. Others change what it does not decide about.
    block_on(write(&set.servers[1], "at 1", &striped_bytes(70)));
    set.servers.remove(1).kill();
    until("the others go on", || {
        let members = set.sites[0].view().members;
        members.iter().filter(|member| member.active).count() == 2
    });
    block_on(write(&set.servers[0], "at 0", &striped_bytes(80)));
    block_on(remove(&set.servers[1], "at 2"));
    let back = set.member().place.start();
    set.servers.insert(1, back);
    set.until_serving();
    set.same("at 1", &striped_bytes(70));
    set.same("at 0", &striped_bytes(80));
    until("what was removed is gone", || {
        set.stripes().is_disjoint(&all_of(21))
    });

    // All of them are killed, and so are the data servers.
    block_on(write(&set.servers[2], "at 0", &striped_bytes(90)));
    let servers = set.servers.drain(..).chain(set.data_servers.drain(..));
    servers.for_each(Running::kill);
    set.data_servers = set.machines.iter().map(start).collect();
    set.servers = set.sites.iter().map(|site| site.place.start()).collect();
    set.until_serving();
    set.same("at 0", &striped_bytes(90));
    set.same("meanwhile", &striped_bytes(50));
    let alarms = set.member().place.status().alarms;
    assert!(alarms.is_empty(), "{alarms:?}");

    set.servers.remove(1).stop();
    let checked = set.member().meridian(&["check"]);
    assert!(succeed(&checked).contains("All is well."), "{checked:?}");
    let token = set.sites[0].invite();
    refuse(
        &set.member().set(&["rejoin", &token]),
        &["lie in a pool", "remove this member"],
    );
}

/// Changes a byte of a stripe that lies whole in a file below this directory.
fn spoil(directory: &Path, stripe: u8) -> bool {
    fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return spoil(&path, stripe);
        }
        let mut bytes = fs::read(&path).unwrap_or_default();
        let is_it = |chunk: &[u8]| chunk.iter().all(|byte| *byte == stripe);
        let found = bytes.chunks_exact(UNIT).position(is_it);
        if let Some(at) = found {
            bytes[at * UNIT + 1000] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
        found.is_some()
    })
}

#[test]
fn what_the_disk_of_a_data_server_damages_comes_from_another_member() {
    let mut set = Set::new();
    block_on(write(&set.servers[0], "file", &striped_bytes(1)));
    set.same("file", &striped_bytes(1));
    until("nobody writes any more", || {
        set.sites.iter().all(|site| {
            let export = site.place.status().exports.remove(0);
            let controls = export.replication.unwrap().controls_total;
            (controls, export.store.dirty_files) == (0, 0)
        })
    });
    let scrub = |set: &Set| succeed(&set.member().meridian(&["scrub"]));
    let told = scrub(&set);
    assert!(told.contains("found 0"), "{told}");

    set.data_servers.remove(0).stop();
    let is_there = (1..=STRIPES).any(|stripe| spoil(&shelf(&set.machines[0]), stripe));
    assert!(is_there, "a stripe lies there");
    set.data_servers.insert(0, start(&set.machines[0]));
    set.until_serving();
    scrub(&set);
    until("it is found, and put in place anew", || {
        let show = set.member().meridian(&["scrub", "--show", "--json"]);
        let scrub: serde_json::Value = serde_json::from_str(&succeed(&show)).unwrap();
        scrub["mended"] == 1 && scrub["damaged"] == 0
    });
    set.same("file", &striped_bytes(1));
    let told = scrub(&set);
    assert!(told.contains("found 1, mended 1"), "{told}");
}

#[test]
fn what_is_lost_with_a_data_server_comes_from_another_member() {
    let mut set = Set::new();
    block_on(write(&set.servers[0], "file", &striped_bytes(1)));
    set.same("file", &striped_bytes(1));
    until("all of it lies there", || {
        all_of(1).is_subset(&set.stripes())
    });
    set.data_servers.remove(2).kill();
    let forget = || pool(set.member(), &["forget", "4", "--yes"]);
    until("its lease has run out", || forget().status.success());
    set.same("file", &striped_bytes(1));
    let left = [0, 1].map(|at| shelf(&set.machines[at]));
    until("all of it lies on the others", || {
        let found = left.iter().flat_map(|shelf| stripes_in(shelf));
        all_of(1).is_subset(&found.collect())
    });
    block_on(write(&set.servers[1], "next", &striped_bytes(50)));
    set.same("next", &striped_bytes(50));
}

/// The member is killed when it has just given up a data server. Its next run finds out by itself what was lost, and has it mended.
#[test]
fn what_is_lost_with_a_data_server_is_mended_after_the_member_was_killed() {
    const FILES: u8 = 40;
    let mut set = Set::new();
    let first_of = |file| 1 + 3 * file;
    for file in 0..FILES {
        let bytes = &striped_bytes(first_of(file))[..3 * UNIT];
        block_on(write(&set.servers[0], &format!("file-{file}"), bytes));
    }
    let all: BTreeSet<u8> = (1..=3 * FILES).collect();
    until("all of it lies there", || all.is_subset(&set.stripes()));
    set.data_servers.remove(2).kill();
    let running = set.servers.remove(1);
    let member = set.member();
    let is_removed = || {
        let members = server::pools::members(&member.place.data())
            .unwrap()
            .members;
        members.iter().any(|one| one.number == 4 && one.removed)
    };
    std::thread::scope(|scope| {
        // Its lease has to run out first; and then the server may be killed before it answers.
        scope.spawn(|| {
            until("it is given up", || {
                pool(member, &["forget", "4", "--yes"]).status.success() || is_removed()
            });
        });
        while !is_removed() {
            std::thread::yield_now();
        }
        running.kill();
    });
    let back = set.member().place.start();
    set.servers.insert(1, back);
    let left = [0, 1].map(|at| shelf(&set.machines[at]));
    until("all of it lies on the others", || {
        let found = left.iter().flat_map(|shelf| stripes_in(shelf));
        all.is_subset(&found.collect())
    });
    until("nothing is given up any more", || {
        status(set.member()).giving_up.is_empty()
    });
    for file in 0..FILES {
        let bytes = &striped_bytes(first_of(file))[..3 * UNIT];
        set.same(&format!("file-{file}"), bytes);
    }
}

#[test]
fn the_space_of_a_members_data_servers_counts_at_all_members() {
    let mut set = Set::new();
    let available = |set: &Set| block_on(space::space(&set.servers[0])).1;
    until("there is space", || available(&set) > 0);
    let holding = data_server(set.member(), 2).holding.unwrap();
    set.data_servers.drain(..).for_each(Running::stop);
    for machine in &set.machines {
        space::fill(machine, holding.available_bytes);
    }
    set.data_servers = set.machines.iter().map(start).collect();
    until("another member knows that they are full", || {
        available(&set) == 0
    });
}
