//! All damages of all files of a server on its own, and of one that is a member of a set.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use nfs4::NfsStat4;

use super::{
    Answered, Damage, Started, Used, assert_none, begin, check, connect, content, differences, end,
    files_of, go_on, other_errors, read_all, start, write,
};
use crate::fixture::site::{Site, block_on, succeed};
use crate::fixture::{Place, Running};

/// Nobody waits for a client that was there before.
const SETTINGS: &str = "[time]\nlease_seconds = 2\n";

/// The first of a set, wherever its data directory is put.
const OF_A_SET: &str = "[time]\nlease_seconds = 2\n[replication]\nlisten = \"127.0.0.1:0\"\n";

/// A server's data directory that was used, and ended with a crash.
fn used(place: &Place, settings: &'static str) -> Used {
    let server = place.start();
    block_on(async { begin(&connect(server.address).await).await });
    server.stop();
    let older = files_of(&place.data());
    for crashes in [false, true] {
        let server: Running = place.start();
        block_on(async {
            let client = connect(server.address).await;
            match crashes {
                false => go_on(&client).await,
                true => end(&client).await,
            }
        });
        match crashes {
            false => server.stop(),
            true => server.kill(),
        }
    }
    Used::of(settings, &place.data(), older)
}

/// Looks what comes of one damage. Returns what should not be.
fn look_at(used: &Used, name: &Path, damage: Damage) -> Vec<String> {
    let place = used.copy(name, damage);
    let mut wrong = Vec::new();
    let before = files_of(&place.data());
    let (code, said) = check(&place);
    if before != files_of(&place.data()) {
        wrong.push("the check has changed something".to_owned());
    }
    if said.contains("panicked") || !matches!(code, Some(0 | 1 | 3)) {
        wrong.push(format!("the check ended with {code:?}"));
    }
    if code != Some(0) && !used.names(&said, name, damage) {
        wrong.push("the check does not name the file".to_owned());
    }
    let log = place.directory.path().join("log");
    let started = start(&mut place.serve(), &log);
    match started {
        Started::Silent => wrong.push("the server neither serves nor says why".to_owned()),
        Started::Refused(exit) => {
            let told = fs::read_to_string(&log).unwrap();
            if exit != Some(1) {
                wrong.push(format!("the server ended with {exit:?}"));
            }
            if !used.names(&told, name, damage) {
                wrong.push("the server refuses and does not name the file".to_owned());
            }
            if code == Some(0) {
                wrong.push("all is well, and the server refuses".to_owned());
            }
        }
        Started::Serving(mut server, address) => {
            let (tree, errors) = block_on(read_all(address));
            server.kill().unwrap();
            server.wait().unwrap();
            wrong.extend(differences(&tree, &errors));
            wrong.extend(other_errors(&errors, &[NfsStat4::Io]));
            let told = fs::read_to_string(&log).unwrap() + &said;
            if !errors.is_empty() && !used.names(&told, name, damage) {
                wrong.push("something cannot be read, and nobody names the file".to_owned());
            }
        }
    }
    let told = fs::read_to_string(&log).unwrap();
    if told.contains("panicked") {
        wrong.push("the server panicked".to_owned());
    }
    if !wrong.is_empty() {
        wrong.push(format!("check ({code:?}): {said}\nserver: {told}"));
    }
    wrong
}

/// Tries every damage, on as many threads as the machine has processors.
fn sweep(used: &Used) {
    let cases = Mutex::new(used.cases().into_iter());
    let wrong = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = cases.lock().unwrap().next();
                    let Some((name, damage)) = next else { return };
                    let found = look_at(used, &name, damage);
                    if !found.is_empty() {
                        let what = format!("{} {damage:?}: {}", name.display(), found.join("; "));
                        wrong.lock().unwrap().push(what);
                    }
                }
            });
        }
    });
    assert_none(&wrong.into_inner().unwrap());
}

#[test]
fn a_server_serves_what_it_has_answered_or_names_the_file_that_is_damaged() {
    let place = Place::new(SETTINGS);
    let used = used(&place, SETTINGS);
    sweep(&used);
}

#[test]
fn a_member_of_a_set_serves_what_it_has_answered_or_names_the_file_that_is_damaged() {
    let site = Site::configured(OF_A_SET);
    succeed(&site.set(&["create"]));
    site.invite();
    let used = used(&site.place, OF_A_SET);
    sweep(&used);
}

/// The writer of a file may have gone on a moment before the crash: the data file that was stable then is not taken for one that
/// never was.
#[test]
fn a_file_that_was_committed_before_a_crash_does_not_become_zeros() {
    let place = Place::new(SETTINGS);
    let server = place.start();
    block_on(async {
        let client = connect(server.address).await;
        let root = client.mount("/export").await.unwrap();
        write(&client, &root, "rewritten", &content(1, 9000)).await;
    });
    // Its contents come to rest.
    server.stop();
    let server = place.start();
    block_on(async {
        let client = connect(server.address).await;
        let root = client.mount("/export").await.unwrap();
        write(&client, &root, "rewritten", &content(2, 9000)).await;
        write(&client, &root, "new", &content(3, 9000)).await;
    });
    server.kill();
    let data = place.data().join("trees/default/data");
    for file in files_of(&data).keys() {
        fs::remove_file(data.join(file)).unwrap();
    }
    let (code, said) = check(&place);
    assert_eq!(code, Some(3), "{said}");
    let server = place.start();
    let (tree, errors) = block_on(read_all(server.address));
    assert!(tree.is_empty(), "{tree:?}");
    for name in ["rewritten", "new"] {
        assert_eq!(errors[name].status(), Some(NfsStat4::Io), "{name}");
        let named = format!("(/{name})");
        assert!(said.contains(&named), "{said}");
        assert!(place.read_log().contains(&named), "{}", place.read_log());
    }
    // Who writes it anew has it again.
    block_on(async {
        let client = connect(server.address).await;
        let root = client.mount("/export").await.unwrap();
        client.remove(&root, "new").await.unwrap();
        write(&client, &root, "new", &content(4, 9000)).await;
    });
    let (tree, _) = block_on(read_all(server.address));
    assert_eq!(tree["new"], Answered::File(content(4, 9000), None));
    server.stop();
}
