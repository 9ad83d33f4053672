//! `meridian set`: three servers become one set; one that may not join is told why and what to do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::fixture::site::{Site, block_on, refuse, succeed};
use crate::fixture::{Place, Running, complaint, run};
use nfs4::{
    ArgOp4, ClientOwner4, ExchangeIdArgs, ExchangeIdResOk, NfsFh4, ResOp4, StateProtect4A,
    Verifier4,
};
use nfs4_client::{Client, Connection, Options};

/// What a server says of itself.
async fn introduction(server: &Running) -> ExchangeIdResOk {
    let options = Options::at(server.address);
    let connection = Connection::open(&options).await.unwrap();
    let question = ExchangeIdArgs {
        clientowner: ClientOwner4 {
            verifier: Verifier4([1; 8]),
            ownerid: "curious".into(),
        },
        flags: 0,
        state_protect: StateProtect4A::None,
        client_impl_id: None,
    };
    let ops = vec![ArgOp4::ExchangeId(question)];
    let reply = connection.compound(&options.credentials, ops).await;
    match reply.unwrap().results.remove(0) {
        ResOp4::ExchangeId(Ok(answer)) => answer,
        other => panic!("{other:?}"),
    }
}

async fn root_handle(server: &Running) -> NfsFh4 {
    let client = Client::connect(Options::at(server.address)).await.unwrap();
    let root = client.mount("/export").await.unwrap();
    client.leave().await.unwrap();
    root
}

#[test]
fn three_servers_become_one_set_with_a_copied_token_each() {
    let (first, first_server) = Site::founding();
    let (second, third) = (Site::new(), Site::new());
    for (slot, site) in [(2, &second), (3, &third)] {
        let token = first.invite();
        assert!(!token.contains(char::is_whitespace), "{token}");
        let told = succeed(&site.set(&["join", &token]));
        let place = format!("This server is replica {slot} of the set");
        assert!(
            told.contains(&place) && told.contains("meridian serve"),
            "{told}"
        );
    }
    let members = first.members();
    for (slot, site) in [(1, &first), (2, &second), (3, &third)] {
        let line = format!("replica {slot}     127.0.0.1:{}", site.port);
        assert!(members.contains(&line), "`{line}` is not in: {members}");
    }
    assert_eq!(third.members().lines().next(), members.lines().next());

    let servers = [first_server, second.place.start(), third.place.start()];
    let statuses = [&first, &second, &third].map(|site| site.place.status());
    let introductions = servers
        .each_ref()
        .map(|server| block_on(introduction(server)));
    for (status, introduction) in statuses.iter().zip(&introductions).skip(1) {
        assert_eq!(status.set, statuses[0].set);
        assert_eq!(status.exports[0].fs_id, statuses[0].exports[0].fs_id);
        assert_eq!(introduction.server_scope, introductions[0].server_scope);
    }
    for (one, other) in [(0, 1), (1, 2), (2, 0)] {
        let owner = |index: usize| &introductions[index].server_owner.major_id;
        assert_ne!(
            owner(one),
            owner(other),
            "clients would trunk over the wide area"
        );
    }
    let roots = servers
        .each_ref()
        .map(|server| block_on(root_handle(server)));
    assert!(roots.iter().all(|root| *root == roots[0]), "{roots:?}");
}

#[test]
fn a_server_that_was_alone_becomes_the_first_replica_with_its_tree() {
    let site = Site::new();
    let server = site.place.start();
    let (alone, root) = (site.place.status(), block_on(root_handle(&server)));
    refuse(
        &site.set(&["create"]),
        &["in use by process", "stop that first"],
    );
    server.stop();
    succeed(&site.set(&["create"]));
    let server = site.place.start();
    let status = site.place.status();
    assert_eq!(block_on(root_handle(&server)), root);
    assert_eq!(status.exports[0].fs_id, alone.exports[0].fs_id);
    assert_eq!(status.replica, alone.replica);
    assert_ne!(status.set, alone.set);
}

#[test]
fn the_files_of_a_set_are_for_their_owner_alone() {
    let (site, _server) = Site::founding();
    site.invite();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let directory = site.place.data().join("set");
    assert_eq!(mode(&directory), 0o700);
    let files: Vec<_> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(files.len() > 5, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
}

#[test]
fn tokens_that_cannot_be_used_are_refused_with_a_way_out() {
    let (first, _first_server) = Site::founding();
    let (other, _other_server) = Site::founding();
    let joiner = Site::new();
    let token = first.invite();
    for (wrong, parts) in [
        ("hello", &["not a token", "meridian set invite"][..]),
        (&token[..token.len() - 3], &["not copied whole", "again"]),
    ] {
        refuse(&joiner.set(&["join", wrong]), parts);
    }
    let late = succeed(&first.command(&["invite", "--lifetime", "1 ms"]));
    refuse(
        &joiner.set(&["join", late.trim_end()]),
        &["expired", "meridian set invite"],
    );
    assert!(!joiner.place.data().exists(), "nothing was made in vain");

    succeed(&joiner.set(&["join", &token]));
    let second = Site::new();
    refuse(
        &second.set(&["join", &token]),
        &["has been used", "ask for a new one"],
    );
    refuse(
        &joiner.set(&["join", &other.invite()]),
        &["already belongs to a set", "another data directory"],
    );
    refuse(&first.set(&["create"]), &["already belongs to a set"]);
}

#[test]
fn a_server_that_cannot_be_reached_is_named_with_what_to_check() {
    let (first, server) = Site::founding();
    let token = first.invite();
    server.stop();
    let joiner = Site::new();
    let address = format!("127.0.0.1:{}", first.port);
    let refused = joiner.set(&["join", &token]);
    refuse(
        &refused,
        &[&address, "the server that invited runs", "firewall"],
    );
    assert!(!joiner.place.data().join("set").exists());

    // Another set has taken the address meanwhile.
    let usurper = Site {
        place: Place::new(""),
        port: first.port,
        ..Site::new()
    };
    succeed(&usurper.set(&["create"]));
    let _usurping = usurper.place.start();
    refuse(
        &joiner.set(&["join", &token]),
        &[&address, "belongs to another set", "check its address"],
    );
}

#[test]
fn a_directory_with_a_tree_does_not_join() {
    let (first, _server) = Site::founding();
    let joiner = Site::new();
    joiner.place.start().stop();
    let tree = joiner.place.data().join("trees/default");
    refuse(
        &joiner.set(&["join", &first.invite()]),
        &[tree.to_str().unwrap(), "--data", "move this tree away"],
    );
    fs::rename(&tree, joiner.place.directory.path().join("away")).unwrap();
    succeed(&joiner.set(&["join", &first.invite()]));
    joiner.place.start().stop();

    // A tree of its own cannot be put in place of the set's.
    fs::remove_dir_all(&tree).unwrap();
    fs::rename(joiner.place.directory.path().join("away"), &tree).unwrap();
    let output = joiner.place.serve().output().unwrap();
    refuse(&output, &["not this replica's copy", "move it away"]);
}

#[test]
fn only_the_keeper_of_the_authority_invites_and_removes() {
    let (first, _server) = Site::founding();
    let second = Site::new();
    let lonely = Site::new();
    fs::create_dir(lonely.place.data()).unwrap();
    refuse(
        &lonely.command(&["invite"]),
        &["belongs to no set", "meridian set create"],
    );
    succeed(&second.set(&["join", &first.invite()]));
    let keeper = format!("replica 1 (127.0.0.1:{})", first.port);
    for arguments in [&["invite"][..], &["remove", "1"], &["token", "list"]] {
        refuse(
            &second.command(arguments),
            &[
                "keeps the set's authority; run this on that server",
                &keeper,
            ],
        );
    }
    refuse(
        &first.command(&["remove", "1"]),
        &["cannot be removed", "meridian set authority move"],
    );
    refuse(
        &first.command(&["remove", "9"]),
        &["no replica 9", "meridian set members"],
    );
    succeed(&first.command(&["remove", "2"]));
    let members = first.members();
    assert!(members.ends_with("  removed       2\n"), "{members}");
}

/// A command that was killed after it wrote `set.json` was told that the directory belongs to a
/// set.
#[test]
fn what_was_interrupted_before_it_was_said_can_be_done_again() {
    let (first, second) = (Site::new(), Site::new());
    let began = succeed(&first.set(&["create", "--name", "alpha"]));
    assert_eq!(succeed(&first.set(&["create", "--name", "alpha"])), began);
    let server = first.place.start();
    refuse(&first.set(&["create"]), &["belongs to a set"]);
    let token = first.invite();
    let joined = succeed(&second.set(&["join", &token]));
    // As a crash leaves it.
    fs::write(second.place.data().join("set.asking"), "left").unwrap();
    assert_eq!(succeed(&second.set(&["join", &token])), joined);
    assert!(!second.place.data().join("set.asking").exists());
    let elsewhere = ["join", &token, "--address", "127.0.0.1:9"];
    refuse(&second.command(&elsewhere), &["belongs to a set"]);
    server.stop();
    refuse(&first.set(&["create"]), &["belongs to a set"]);
}

/// The set noted the server as a member, and the command was killed before it heard so. The server then served a tree that no other one had.
#[test]
fn a_server_that_was_interrupted_while_it_joined_serves_nothing_before_it_has_joined() {
    let (first, server) = Site::founding();
    let second = Site::new();
    let token = first.invite();
    server.kill();
    refuse(&second.set(&["join", &token]), &["check that the server"]);
    refuse(
        &second.place.serve().output().unwrap(),
        &["begun to join a set", "with the same token", "set.asking"],
    );
    assert!(!second.place.data().join("trees/main").exists());
    let _server = first.place.start();
    succeed(&second.set(&["join", &token]));
    drop(second.place.start());
}

/// The others would call one of the two and take it for an impostor.
#[test]
fn two_members_are_not_called_at_one_address() {
    let (first, _server) = Site::founding();
    let second = Site::new();
    let own = format!("127.0.0.1:{}", first.port);
    let token = first.invite();
    refuse(
        &second.command(&["join", &token, "--address", &own]),
        &["replica 1 is reached at", "another address"],
    );
    let other_words = format!("localhost:{}", first.port);
    refuse(
        &second.command(&["join", &token, "--address", &other_words]),
        &["replica 1 is reached at localhost", "another address"],
    );
    second.join(&first);
    refuse(
        &first.command(&["address", "2", &own]),
        &["replica 1 is reached at", "remove replica 1"],
    );
    refuse(
        &first.command(&["address", "2", &other_words]),
        &["replica 1 is reached at localhost", "remove replica 1"],
    );
    // Where nobody answers somebody may have taken the place of one that is lost.
    let third = Site::new();
    let theirs = format!("127.0.0.1:{}", second.port);
    let joined = third.command(&["join", &first.invite(), "--address", &theirs]);
    let told = succeed(&joined) + &complaint(&joined);
    assert!(told.contains("meridian set remove 3"), "{told}");
}

#[test]
fn tokens_are_listed_without_their_secrets_and_revoked() {
    let (first, _server) = Site::founding();
    let list = || succeed(&first.command(&["token", "list"]));
    assert_eq!(list(), "no token is outstanding\n");
    let (one, two) = (first.invite(), first.invite());
    let listed = list();
    assert!(
        listed.contains("replica 2 ")
            && listed.contains("replica 3 ")
            && listed.contains("works until"),
        "{listed}"
    );
    assert!(!listed.contains(&one[10..30]), "{listed}");
    succeed(&first.command(&["token", "revoke", "2"]));
    refuse(
        &first.command(&["token", "revoke", "2"]),
        &["no token for replica 2", "meridian set token list"],
    );
    let joiner = Site::new();
    refuse(&joiner.set(&["join", &one]), &["not one of this set"]);
    succeed(&joiner.set(&["join", &two]));
    assert_eq!(list(), "no token is outstanding\n");
    // The number of the token that nobody used is free.
    first.invite();
    assert!(list().contains("replica 2 "), "{}", list());
}

#[test]
fn an_address_that_leads_nowhere_is_said_at_once() {
    let site = Site::new();
    let nowhere = "no-such-host.invalid:7643";
    refuse(
        &site.command(&["create", "--address", nowhere]),
        &[nowhere, "cannot be looked up"],
    );
    assert!(!site.place.data().exists(), "nothing was made in vain");
    // For documentation (RFC 5737): no machine has it.
    let elsewhere = site.command(&["create", "--address", "192.0.2.1:7643"]);
    succeed(&elsewhere);
    let warned = complaint(&elsewhere);
    assert!(warned.contains("no address of this machine"), "{warned}");

    let (first, server) = Site::founding();
    let token = first.invite();
    let joiner = Site::new();
    refuse(
        &joiner.command(&["join", &token, "--address", nowhere]),
        &[nowhere, "cannot be looked up"],
    );
    server.stop();
    let invited = first.command(&["invite"]);
    succeed(&invited);
    let warned = complaint(&invited);
    assert!(
        warned.contains("nobody answers") && warned.contains("meridian serve"),
        "{warned}"
    );
}

#[test]
fn the_tree_of_the_set_must_be_shown_to_clients() {
    let site = Site {
        place: Place::new("[[export]]\npath = \"/a\"\ntree = \"one\"\n"),
        ..Site::new()
    };
    succeed(&site.set(&["create"]));
    let output = site.place.serve().output().unwrap();
    refuse(&output, &["\"default\"", "[[export]]", "[replication]"]);
    fs::remove_dir_all(site.place.data()).unwrap();
    succeed(&site.set(&["create", "--tree", "one"]));
    let output = site.place.serve().output().unwrap();
    refuse(&output, &["\"default\""]);
}

#[test]
fn what_is_no_address_is_refused_by_the_command_line() {
    let data = Site::new().place.data();
    let data = data.to_str().unwrap();
    for address in ["[::]:7643", "alpha:port", ""] {
        let output = run(&["set", "create", "--data", data, "--address", address]);
        assert_eq!(output.status.code(), Some(2), "{address}");
        assert!(complaint(&output).contains("alpha.example:7643"));
    }
    let output = run(&["set", "invite", "--data", data, "--lifetime", "soon"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("30 min"));
}

/// The third may be about to join: who has just joined was told how far two servers go, and its log does not repeat that.
#[test]
fn the_second_server_warns_of_two_from_its_second_start_on() {
    let (first, _server) = Site::founding();
    let second = Site::new();
    second.join(&first);
    let warning = "two servers cannot outvote each other";
    let server = second.place.start();
    assert!(!second.place.read_log().contains(warning));
    server.stop();
    let _server = second.place.start();
    assert!(second.place.read_log().contains(warning));
}

/// The server listens for IPv4 and IPv6 at once.
#[test]
fn who_comes_to_nothing_is_named_as_people_write_addresses() {
    let (site, _server) = Site::founding();
    drop(std::net::TcpStream::connect(("127.0.0.1", site.port)).unwrap());
    let began = Instant::now();
    let told = loop {
        let log = site.place.read_log();
        if let Some(line) = log.lines().find(|line| line.contains("came to nothing")) {
            break line.to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{log}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(told.contains("from=127.0.0.1:"), "{told}");
}
