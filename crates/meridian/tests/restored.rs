//! Data directories that were put back in part, and the command that replaces them.
//!
//! A member whose `set/set.json` was missing started as a server on its own, and took changes of which no other
//! member ever heard.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::fixture::Running;
use crate::fixture::site::{HASTY, Site, refuse, succeed};

/// How long a set may take to agree on something.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two members that have been started, and do not run now.
fn two_members() -> (Site, Site) {
    let (first, server) = Site::founding();
    let second = Site::new();
    second.join(&first);
    second.place.start().stop();
    server.stop();
    (first, second)
}

/// `count` members, which run and take part.
pub(crate) fn members(count: usize) -> Vec<(Site, Running)> {
    members_configured(count, HASTY)
}

/// The same with this in their configurations.
pub(crate) fn members_configured(count: usize, text: &str) -> Vec<(Site, Running)> {
    let first = Site::configured(text);
    succeed(&first.set(&["create"]));
    let server = first.place.start();
    let mut members = vec![(first, server)];
    while members.len() < count {
        let site = Site::configured(text);
        site.join(&members[0].0);
        let server = site.place.start();
        members.push((site, server));
    }
    eventually("all take part", || {
        // One that starts anew does not answer for a moment.
        let asked = members[0].0.meridian(&["view", "--json"]).stdout;
        let view: Result<server::ViewStatus, _> = serde_json::from_slice(&asked);
        view.is_ok_and(|view| {
            let active = view.members.iter().filter(|member| member.active);
            active.count() == count
        })
    });
    members
}

pub(crate) fn eventually(what: &str, fact: impl Fn() -> bool) {
    let begun = Instant::now();
    while !fact() {
        assert!(
            begun.elapsed() < PATIENCE,
            "in vain waited for this: {what}"
        );
        sleep(Duration::from_millis(100));
    }
}

/// Nobody listens to a removed member, so the first of two could not even agree on the removal of the second.
#[test]
fn the_second_of_two_is_not_removed() {
    let members = members(2);
    let (first, _) = &members[0];
    for more in [&[][..], &["--discard"]] {
        let refused = first.command(&[&["remove", "2"], more].concat());
        refuse(&refused, &["without replica 2 only 1 of 2", "set recover"]);
    }
    assert!(!first.members().contains("removed"));
    let mut sites = Vec::new();
    for (site, server) in members {
        server.stop();
        sites.push(site);
    }
    let refused = sites[0].command(&["remove", "2", "--discard"]);
    refuse(&refused, &["a single member would be left", "set recover"]);
    assert!(!sites[0].members().contains("removed"));
}

/// It went through: two that had just been lost took part still, as nobody could agree on another view, and the one that came back was refused.
#[test]
fn nobody_is_removed_while_the_others_are_down() {
    let mut members = members(3);
    for (_, server) in members.drain(1..) {
        server.kill();
    }
    let (first, _server) = &members[0];
    eventually("nobody is in contact", || {
        let status = first.place.status().exports.remove(0);
        let peers = status.replication.unwrap().peers;
        peers.iter().all(|peer| !peer.connected)
    });
    for more in [&[][..], &["--discard"]] {
        let refused = first.command(&[&["remove", "3"], more].concat());
        refuse(&refused, &["without replica 3 only 1 of 3"]);
    }
    assert!(!first.members().contains("removed"));
}

#[test]
fn a_member_without_the_files_of_its_set_does_not_start() {
    let (first, second) = two_members();
    for (slot, site) in [("replica 1", &first), ("replica 2", &second)] {
        let set = site.place.data().join("set/set.json");
        fs::rename(&set, set.with_extension("kept")).unwrap();
        let output = site.place.serve().output().unwrap();
        refuse(&output, &[slot, "missing", "set rejoin", "one backup"]);
        // The tree itself knows it, though nothing else in the directory says so.
        let member = site.place.data().join("member");
        fs::rename(&member, member.with_extension("kept")).unwrap();
        let output = site.place.serve().output().unwrap();
        refuse(&output, &[slot, "missing", "trees/default", "set rejoin"]);
    }
    // Nor does it become the first copy of another set.
    refuse(&first.set(&["create"]), &["copy of a member of a set"]);
}

#[test]
fn a_member_without_its_tree_does_not_begin_as_an_empty_one() {
    let (first, second) = two_members();
    for site in [&first, &second] {
        let tree = site.place.data().join("trees/default");
        fs::rename(&tree, site.place.directory.path().join("away")).unwrap();
        let output = site.place.serve().output().unwrap();
        refuse(&output, &["trees/default", "is missing", "set rejoin"]);
        assert!(!tree.exists());
        fs::rename(site.place.directory.path().join("away"), &tree).unwrap();
        site.place.start().stop();
    }
}

#[test]
fn a_member_begins_anew_and_keeps_what_it_had_aside() {
    let mut members = members(3);
    let (second, server) = members.remove(1);
    server.stop();
    let first = &members[0].0;
    let data = second.place.data();
    fs::remove_file(data.join("set/set.json")).unwrap();
    let nobody = Site::new();
    fs::create_dir(nobody.place.data()).unwrap();
    refuse(
        &nobody.set(&["rejoin", &first.invite()]),
        &["holds no copy", "set join"],
    );
    // What it leaves is judged when the others have gone on without it.
    eventually("it is removed", || {
        first.command(&["remove", "2"]).status.success()
    });
    let token = first.invite();
    let told = succeed(&second.set(&["rejoin", &token]));
    for part in ["It was replica 2", "aside", "meridian serve"] {
        assert!(told.contains(part), "{told}");
    }
    // Who was interrupted when all was done, and gives it again, was told that the token has been used.
    assert_eq!(succeed(&second.set(&["rejoin", &token])), told);
    let aside = fs::read_dir(data.join("aside")).unwrap();
    let aside: Vec<_> = aside.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(aside.len(), 1);
    assert!(aside[0].join("tree/store.toml").exists());
    assert!(aside[0].join("set").exists() && !data.join("set.joining").exists());
    second.place.start().stop();
    refuse(
        &second.set(&["rejoin", &token]),
        &["the token has been used"],
    );
    let listed = second.members();
    assert!(
        listed.contains("this server") && listed.contains("removed"),
        "{listed}"
    );
}
