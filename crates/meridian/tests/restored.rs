//! Data directories that were put back in part, and the command that replaces them.
//!
//! A member whose `set/set.json` was missing started as a server on its own, and took changes of which no other
//! member ever heard.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "the fixture serves other programs, too")]

mod fixture;

use std::fs;

use fixture::site::{Site, refuse, succeed};

/// Two members that have been started, and do not run now.
fn two_members() -> (Site, Site) {
    let (first, server) = Site::founding();
    let second = Site::new();
    second.join(&first);
    second.place.start().stop();
    server.stop();
    (first, second)
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
    let (first, second) = two_members();
    let data = second.place.data();
    fs::remove_file(data.join("set/set.json")).unwrap();
    let server = first.place.start();
    let nobody = Site::new();
    fs::create_dir(nobody.place.data()).unwrap();
    refuse(
        &nobody.set(&["rejoin", &first.invite()]),
        &["holds no copy", "set join"],
    );
    succeed(&first.command(&["remove", "2"]));
    let told = succeed(&second.set(&["rejoin", &first.invite()]));
    for part in ["It was replica 2", "aside", "meridian serve"] {
        assert!(told.contains(part), "{told}");
    }
    let aside = fs::read_dir(data.join("aside")).unwrap();
    let aside: Vec<_> = aside.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(aside.len(), 1);
    assert!(aside[0].join("tree/store.toml").exists());
    assert!(aside[0].join("set").exists() && !data.join("set.joining").exists());
    second.place.start().stop();
    let members = second.members();
    assert!(
        members.contains("this server") && members.contains("removed"),
        "{members}"
    );
    server.stop();
}
