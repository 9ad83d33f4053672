//! The authority of a set is moved, and restored when the disk of its keeper is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::fixture::Running;
use crate::fixture::site::{HASTY, Site, refuse, succeed};
use server::ViewStatus;

/// How often something is looked for that has to appear.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until a server knows such a view.
fn until(site: &Site, fact: impl Fn(&ViewStatus) -> bool) {
    loop {
        let asked = site.meridian(&["view", "--json"]);
        // One that starts anew does not answer for a moment.
        if asked.status.code() != Some(4) && fact(&serde_json::from_str(&succeed(&asked)).unwrap())
        {
            return;
        }
        sleep(PAUSE);
    }
}

/// Waits until these take part, and no others belong to the set.
fn until_set_is(site: &Site, slots: &[u16]) {
    until(site, |view| {
        let members = view.members.iter();
        let members: Vec<(u16, bool)> = members.map(|one| (one.slot, one.active)).collect();
        let wanted = slots.iter().map(|slot| (*slot, true));
        members == wanted.collect::<Vec<_>>() && view.takes_part && view.up_to_date
    });
}

/// Waits until a server's list of members says this.
fn until_members_say(site: &Site, words: &str) {
    while !site.members().contains(words) {
        sleep(PAUSE);
    }
}

fn joined(keeper: &Site) -> (Site, Running) {
    let site = Site::configured(HASTY);
    site.join(keeper);
    let server = site.place.start();
    (site, server)
}

fn three() -> [(Site, Running); 3] {
    let first = Site::configured(HASTY);
    succeed(&first.set(&["create"]));
    let first_server = first.place.start();
    let (second, third) = (joined(&first), joined(&first));
    let all = [(first, first_server), second, third];
    for (site, _) in &all {
        until_set_is(site, &[1, 2, 3]);
    }
    all
}

fn is_private(path: &Path) -> bool {
    fs::metadata(path).unwrap().permissions().mode() & 0o777 == 0o600
}

#[test]
fn the_authority_moves_to_another_member_and_the_founder_can_be_removed() {
    let [(first, first_server), (second, _second), (third, _third)] = three();
    let key = |site: &Site| site.place.data().join("set/authority.key");
    let shown = succeed(&second.command(&["authority", "show"]));
    let keeper = format!("replica 1 (127.0.0.1:{})", first.port);
    assert!(
        shown.contains(&keeper) && shown.contains("fingerprint"),
        "{shown}"
    );
    assert!(succeed(&first.command(&["authority", "show"])).contains("this server"));

    refuse(
        &second.command(&["authority", "move", "--to", "2"]),
        &[&keeper, "run this on that server"],
    );
    refuse(
        &first.command(&["authority", "move", "--to", "9"]),
        &["no replica 9"],
    );
    refuse(
        &first.command(&["authority", "move", "--to", "1"]),
        &["keeps the set's authority already"],
    );
    let unused = first.invite();
    let told = succeed(&first.command(&["authority", "move", "--to", "2"]));
    assert!(told.contains("Replica 2 keeps the authority now"), "{told}");
    assert!(told.contains("outstanding here (1) admit nobody"), "{told}");
    assert!(!key(&first).exists() && is_private(&key(&second)));

    let keeper = format!("replica 2 (127.0.0.1:{})", second.port);
    for arguments in [
        &["invite"][..],
        &["remove", "3"],
        &["token", "list"],
        &["address", "1", "127.0.0.1:1"],
    ] {
        refuse(&first.command(arguments), &[&keeper]);
    }
    refuse(&Site::new().set(&["join", &unused]), &["replica 2 does"]);
    until_members_say(&third, "keeps the authority");

    succeed(&second.command(&["remove", "1"]));
    until_set_is(&third, &[2, 3]);
    first_server.kill();
    let (fourth, _fourth) = joined(&second);
    until_set_is(&fourth, &[2, 3, 4]);
}

#[test]
fn the_loss_of_the_founders_disk_is_not_the_end_of_all_changes() {
    let [(first, first_server), (second, _second), (third, _third)] = three();
    let backup = second.place.directory.path().join("backup");
    let shown = backup.to_str().unwrap();
    succeed(&first.command(&["authority", "show", "--export", shown]));
    assert!(is_private(&backup));
    refuse(
        &first.command(&["authority", "show", "--export", shown]),
        &[shown, "exists"],
    );
    refuse(
        &second.command(&["authority", "show", "--export", "/nowhere"]),
        &["replica 1"],
    );

    let restore = |from: &str| second.command(&["authority", "restore", "--from", from, "--yes"]);
    refuse(
        &restore(shown),
        &["is in contact", "meridian set authority move --to 2"],
    );
    first_server.kill();
    fs::remove_dir_all(first.place.data()).unwrap();
    until(&second, |view| {
        let mut members = view.members.iter();
        view.takes_part && members.any(|member| member.slot == 1 && !member.active)
    });
    let other = Site::new();
    succeed(&other.set(&["create"]));
    let foreign = other.place.data().join("set");
    refuse(&restore(foreign.to_str().unwrap()), &["of another set"]);
    fs::write(other.place.directory.path().join("rubbish"), "rubbish").unwrap();
    let rubbish = other.place.directory.path().join("rubbish");
    refuse(
        &restore(rubbish.to_str().unwrap()),
        &["no backup of the authority"],
    );

    let told = succeed(&restore(shown));
    assert!(told.contains("keeps the set's authority now"), "{told}");
    let keeper = format!("127.0.0.1:{}  keeps the authority", second.port);
    until_members_say(&third, &keeper);
    succeed(&second.command(&["remove", "1"]));
    until_set_is(&third, &[2, 3]);
    let (fourth, _fourth) = joined(&second);
    until(&fourth, |view| {
        let slots: Vec<u16> = view.members.iter().map(|member| member.slot).collect();
        // Slots that the lost founder may have given away are left out.
        slots.len() == 3 && slots[2] > 256 && view.takes_part
    });
}

#[test]
fn a_member_is_called_at_its_new_address() {
    let first = Site::configured(HASTY);
    succeed(&first.set(&["create"]));
    let _first_server = first.place.start();
    let (second, second_server) = joined(&first);
    until_set_is(&first, &[1, 2]);
    let (third, _third) = joined(&first);
    until_set_is(&third, &[1, 2, 3]);
    second_server.stop();

    // It listens where its own files say, which it learns from the others when they can call it: here it does not wait.
    let moved = Site::new();
    let there = format!("127.0.0.1:{}", moved.port);
    let changed = first.command(&["address", "2", &there]);
    let warned = crate::fixture::complaint(&changed);
    assert!(warned.contains("nobody answers"), "{warned}");
    assert!(succeed(&changed).contains(&there));
    refuse(
        &first.command(&["address", "2", "no-such-host.invalid:1"]),
        &["no-such-host.invalid:1", "cannot be looked up"],
    );
    until_members_say(&third, &there);
    let text = format!(
        "[replication]\nlisten = \"{there}\"\nsite_lease = \"1500 ms\"\nsuspicion = \"900 ms\"\n"
    );
    let configured = Site::configured(&text);
    fs::rename(second.place.data(), configured.place.data()).unwrap();
    let _second_server = configured.place.start();
    until_set_is(&third, &[1, 2, 3]);
    until_members_say(&configured, &there);
}
